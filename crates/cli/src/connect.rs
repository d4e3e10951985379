//! Finding the API server: a kubeconfig, the pod's account, or the embedded server of this user.

use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::args::Connection;
use crate::failure::Failure;

/// The folder in which `incumbent server` keeps its data unless told otherwise.
pub(crate) fn default_data_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("incumbent"))
}

/// Where the configuration came from, for people.
pub(crate) struct Found {
    /// How to reach the server.
    pub(crate) config: Config,
    /// The namespace to work in.
    pub(crate) namespace: String,
}

/// Finds the server that `connection` means.
///
/// An explicit `--kubeconfig` or `$KUBECONFIG` is binding: if it cannot be used, that is an error, and nothing
/// else is tried.
pub(crate) async fn connect(connection: &Connection) -> Result<Found, Failure> {
    let config = find(connection).await?;
    let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok(Found { config, namespace })
}

async fn find(connection: &Connection) -> Result<Config, Failure> {
    let context = connection.context.as_deref();
    if let Some(path) = &connection.kubeconfig {
        return from_file(path, context).await;
    }
    if std::env::var_os("KUBECONFIG").is_some_and(|v| !v.is_empty()) {
        let merged = Kubeconfig::from_env().map_err(|e| {
            Failure::failed(format!("the kubeconfig that $KUBECONFIG names cannot be used: {e}"))
        })?;
        if let Some(kubeconfig) = merged {
            return from_kubeconfig(kubeconfig, context, "$KUBECONFIG").await;
        }
    }
    if let Some(home) = std::env::var_os("HOME") {
        let path = Path::new(&home).join(".kube/config");
        if path.exists() {
            return from_file(&path, context).await;
        }
    }
    if let Some(context) = context {
        return Err(Failure::failed(format!("there is no kubeconfig to find context {context:?} in")));
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Config::incluster()
            .map_err(|e| Failure::failed(format!("this pod's service account cannot be used: {e}")));
    }
    let own = default_data_dir().map(|dir| dir.join("kubeconfig"));
    if let Some(path) = own.filter(|p| p.exists()) {
        return from_file(&path, None).await;
    }
    Err(Failure::failed(
        "there is no kubeconfig and no server of this user: start one with `incumbent server`, or name a cluster with --kubeconfig",
    ))
}

async fn from_file(path: &Path, context: Option<&str>) -> Result<Config, Failure> {
    let kubeconfig = Kubeconfig::read_from(path)
        .map_err(|e| Failure::failed(format!("kubeconfig {} cannot be used: {e}", path.display())))?;
    from_kubeconfig(kubeconfig, context, &path.display().to_string()).await
}

async fn from_kubeconfig(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
    name: &str,
) -> Result<Config, Failure> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|e| Failure::failed(format!("kubeconfig {name} cannot be used: {e}")))
}
