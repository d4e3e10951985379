//! Kubeconfig files.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

/// What a client has to know of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    /// The server's address.
    pub(crate) url: &'a str,
    /// A file with the certificates that the server is trusted by.
    pub(crate) authority: &'a Path,
    /// The user's name.
    pub(crate) user: &'a str,
    /// The user's bearer token.
    pub(crate) token: &'a str,
}

/// The kubeconfig for one user; JSON, which every reader of YAML takes.
pub(crate) fn document(access: Access<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "peers",
            "cluster": { "server": access.url, "certificate-authority": access.authority },
        }],
        "users": [{ "name": access.user, "user": { "token": access.token } }],
        "contexts": [{
            "name": access.user,
            "context": { "cluster": "peers", "user": access.user, "namespace": "default" },
        }],
        "current-context": access.user,
    })
}

/// Writes the kubeconfig to a new file that only its owner can read.
///
/// # Errors
///
/// If the file exists or cannot be written.
pub(crate) fn write(path: &Path, access: Access<'_>) -> anyhow::Result<()> {
    let what = || format!("cannot write the kubeconfig {}", path.display());
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).with_context(what)?;
    let text = serde_json::to_string_pretty(&document(access)).with_context(what)?;
    file.write_all(text.as_bytes()).with_context(what)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::{Access, document, write};

    fn access() -> Access<'static> {
        Access {
            url: "https://127.0.0.1:6443",
            authority: Path::new("/d/ca.crt"),
            user: "named",
            token: "secret",
        }
    }

    #[test]
    fn the_context_leads_to_server_and_token() {
        let config = document(access());
        let find = |list: &str, name: &str| {
            let entries = config[list].as_array().expect("list");
            entries.iter().find(|entry| entry["name"] == name).expect("entry").clone()
        };
        let context = find("contexts", config["current-context"].as_str().expect("name"));
        let cluster = find("clusters", context["context"]["cluster"].as_str().expect("name"));
        let user = find("users", context["context"]["user"].as_str().expect("name"));
        assert_eq!(cluster["cluster"]["server"], "https://127.0.0.1:6443");
        assert_eq!(cluster["cluster"]["certificate-authority"], "/d/ca.crt");
        assert_eq!(user["user"]["token"], "secret");
    }

    #[test]
    fn only_the_owner_reads_it_and_none_is_overwritten() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("kubeconfig");
        write(&path, access()).expect("written");
        assert_eq!(path.metadata().expect("metadata").permissions().mode() & 0o777, 0o600);
        let error = write(&path, access()).expect_err("it exists");
        assert!(format!("{error:#}").contains(&path.display().to_string()), "{error:#}");
    }
}
