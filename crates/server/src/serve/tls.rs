//! TLS with a certificate authority of the server's own.
//!
//! kubectl, and every client that reads a kubeconfig as it does, sends a token only over TLS. So the server
//! signs a certificate for this machine's loopback addresses, and its kubeconfig says whom to trust. The
//! authority's key stays in the data directory, so that a kubeconfig that was copied goes on working.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::StartError;
use super::data_dir::{DataDir, read_private, write_private};

/// What the server needs to speak TLS, and its clients to believe it.
pub(super) struct Tls {
    pub(super) acceptor: TlsAcceptor,
    /// The authority's certificate, as PEM.
    pub(super) authority: String,
}

impl Tls {
    /// The authority of a data directory, made if it is not there; without a directory a new one.
    pub(super) fn prepare(dir: Option<&DataDir>) -> Result<Self, StartError> {
        let file = |name| dir.map(|dir| dir.file(name));
        let (key_file, certificate_file) = (file("ca.key"), file("ca.crt"));
        let key = match key_file.as_deref().map(read_private).transpose()?.flatten() {
            Some(pem) => KeyPair::from_pem(&pem)?,
            None => {
                let key = KeyPair::generate()?;
                if let Some(path) = &key_file {
                    write_private(path, key.serialize_pem().as_bytes())?;
                }
                key
            }
        };
        let params = authority();
        let pem = match certificate_file.as_deref().map(read_private).transpose()?.flatten() {
            Some(pem) => pem,
            None => {
                let pem = params.self_signed(&key)?.pem();
                if let Some(path) = &certificate_file {
                    write_private(path, pem.as_bytes())?;
                }
                pem
            }
        };
        Ok(Self { acceptor: acceptor(&Issuer::new(params, key))?, authority: pem })
    }
}

/// The authority; always the same but for its key.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "incumbent server authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// A certificate of this start, signed by the authority.
fn acceptor(issuer: &Issuer<'_, KeyPair>) -> Result<TlsAcceptor, StartError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "incumbent server");
    for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        params.subject_alt_names.push(SanType::IpAddress(address));
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, issuer)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    // The provider is named here: a program that embeds the server may use another one.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key)
        })
        .map_err(|error| StartError::Tls(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl From<rcgen::Error> for StartError {
    fn from(error: rcgen::Error) -> Self {
        Self::Tls(error.to_string())
    }
}
