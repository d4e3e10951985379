//! Starting, stopping, starting again; who may speak to the server; what lies on the disk.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use incumbent_server::{Server, StartError};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::http::{LEASES, ask, server, started};

#[tokio::test]
async fn only_the_token_opens_the_door() {
    let server = server().await;
    for wrong in ["", "Bearer ", "Bearer wrong", "Basic abc", &*format!("Bearer {}x", server.token())] {
        let reply = ask("GET", LEASES).header("Authorization", wrong).send(&server).await;
        reply.refused(401, "Unauthorized", "Unauthorized");
    }
    for open in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(ask("GET", open).header("Authorization", "").send(&server).await.code, 200, "{open}");
    }
    ask("GET", "/apis").header("Authorization", "").send(&server).await.refused(401, "Unauthorized", "");
    ask("GET", LEASES).send(&server).await.expect(200);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let server = server().await;
    let body = vec![b' '; (3 << 20) + 1];
    let reply = ask("POST", LEASES).raw("application/json", body).send(&server).await;
    reply.refused(413, "RequestEntityTooLarge", "limit is 3145728");
    let long = format!("{LEASES}?x={}", "y".repeat(100_000));
    assert!(matches!(ask("GET", long).send(&server).await.code, 414 | 431));
}

#[tokio::test]
async fn a_public_address_is_refused() {
    for addr in ["0.0.0.0:0", "192.0.2.1:80", "[::]:0"] {
        let addr: SocketAddr = addr.parse().unwrap();
        let error = Server::builder().listen(addr).start().await.unwrap_err();
        assert!(matches!(error, StartError::NotLoopback { .. }), "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    }
}

#[tokio::test]
async fn a_taken_address_is_refused() {
    let first = server().await;
    let error = Server::builder().listen(first.addr()).start().await.unwrap_err();
    assert!(error.to_string().contains(&first.addr().to_string()), "{error}");
}

#[tokio::test]
async fn a_restart_keeps_objects_token_and_rising_revisions() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let builder = || Server::builder().data_dir(&data);
    let first = started(builder()).await;
    let (addr, token) = (first.addr(), first.token().to_owned());
    let body = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}});
    let made = ask("POST", LEASES).json(&body).send(&first).await.expect(201);
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    ask("DELETE", format!("{LEASES}/a")).send(&first).await.expect(200);
    ask("POST", LEASES).json(&body).send(&first).await.expect(201);
    first.shutdown().await;

    let second = started(builder().listen(addr)).await;
    assert_eq!(second.token(), token);
    let mut events = ask("GET", format!("{LEASES}?watch=1&resourceVersion={revision}")).stream(&second).await;
    assert_eq!(events.brief().await.0, "DELETED", "a watch goes on across a restart");
    assert_eq!(events.brief().await.0, "ADDED");
    let next = ask("POST", LEASES).json(&json!({"metadata": {"name": "b"}})).send(&second).await.expect(201);
    let revision: u64 = revision.parse().unwrap();
    assert_eq!(next["metadata"]["resourceVersion"], (revision + 3).to_string());
    second.shutdown().await;
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = started(Server::builder().data_dir(dir.path())).await;
    let before = std::fs::read(dir.path().join("kubeconfig")).unwrap();
    let error = Server::builder().data_dir(dir.path()).start().await.unwrap_err();
    assert!(matches!(error, StartError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    assert_eq!(std::fs::read(dir.path().join("kubeconfig")).unwrap(), before, "nothing was touched");
    first.shutdown().await;
    started(Server::builder().data_dir(dir.path())).await.shutdown().await;
}

#[tokio::test]
async fn secrets_are_for_the_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let other = dir.path().join("elsewhere.yaml");
    std::fs::write(&other, "an old one").unwrap();
    let server = started(Server::builder().data_dir(&data).write_kubeconfig(&other)).await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for path in [&data.join("token"), &data.join("kubeconfig"), &other] {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    assert_eq!(std::fs::read_to_string(data.join("token")).unwrap(), server.token());
    let kubeconfig = std::fs::read_to_string(&other).unwrap();
    assert_eq!(kubeconfig, server.kubeconfig());
    assert!(kubeconfig.contains(server.token()) && kubeconfig.contains(&server.addr().to_string()));
    assert!(!format!("{server:?}").contains(server.token()), "the token is not shown");
    server.shutdown().await;
}

#[tokio::test]
async fn a_bad_token_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "two words").unwrap();
    let error = Server::builder().data_dir(dir.path()).start().await.unwrap_err();
    assert!(matches!(error, StartError::BadToken { .. }), "{error}");
}

#[tokio::test]
async fn many_servers_live_in_one_process() {
    let (one, two) = (server().await, server().await);
    let body = json!({"metadata": {"name": "a"}});
    ask("POST", LEASES).json(&body).send(&one).await.expect(201);
    ask("GET", format!("{LEASES}/a")).send(&two).await.refused(404, "NotFound", "");
    one.abort().await;
    ask("GET", LEASES).send(&two).await.expect(200);
}

/// What a client that trusts this authority is told over TLS.
async fn over_tls(server: &Server, authority: &Path, path: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(server.addr()).await?;
    let name = ServerName::from(server.addr().ip());
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let token = server.token();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_server_with_data_speaks_tls_that_its_own_clients_trust() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy, other) =
        (dir.path().join("data"), dir.path().join("copy.crt"), dir.path().join("other"));
    let server = started(Server::builder().data_dir(&data)).await;
    assert!(server.url().starts_with("https://"));
    std::fs::copy(data.join("ca.crt"), &copy).unwrap();
    assert!(over_tls(&server, &copy, LEASES).await.unwrap().starts_with("HTTP/1.1 200"));
    let key = std::fs::metadata(data.join("ca.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    server.shutdown().await;

    let server = started(Server::builder().data_dir(&data)).await;
    assert!(
        over_tls(&server, &copy, LEASES).await.unwrap().starts_with("HTTP/1.1 200"),
        "after a restart, too"
    );
    let stranger = started(Server::builder().data_dir(&other)).await;
    over_tls(&stranger, &copy, LEASES).await.unwrap_err();
    let plain = started(Server::builder().data_dir(dir.path().join("plain")).tls(false)).await;
    assert!(plain.url().starts_with("http://"));
    assert!(!plain.kubeconfig().contains("certificate-authority-data"));
}
