//! How a server is started.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connections::{Acceptor, accept};
use super::data_dir::DataDir;
use super::tls::Tls;
use super::{Running, Server, StartError, kubeconfig, token};
use crate::api::Api;
use crate::store::{MemoryStore, RedbStore, Retention, Store};

/// What a server is to be like. In memory, on a free port of 127.0.0.1, unless it is told otherwise.
#[derive(Debug, Clone)]
pub struct Builder {
    data_dir: Option<PathBuf>,
    listen: SocketAddr,
    token: Option<String>,
    write_kubeconfig: Option<PathBuf>,
    retention: Retention,
    tls: Option<bool>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            data_dir: None,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            token: None,
            write_kubeconfig: None,
            retention: Retention::default(),
            tls: None,
        }
    }
}

impl Builder {
    /// Keeps everything in this directory, which is made if it is not there: the objects, the token, a
    /// `kubeconfig`. Only its owner can read it.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// Keeps nothing.
    pub fn in_memory(mut self) -> Self {
        self.data_dir = None;
        self
    }

    /// Where to listen: a loopback address; port 0 for any free one.
    pub fn listen(mut self, addr: SocketAddr) -> Self {
        self.listen = addr;
        self
    }

    /// The token that clients have to send, instead of a random one.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Writes the kubeconfig to this file, too, in one step, readable for its owner only.
    pub fn write_kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.write_kubeconfig = Some(path.into());
        self
    }

    /// Whether it speaks TLS. Unless it is said here, a server with a data directory does, because kubectl
    /// sends a token over TLS only, and one in memory does not, because a test needs none. One that does also
    /// answers plain HTTP on the same port.
    pub fn tls(mut self, tls: bool) -> Self {
        self.tls = Some(tls);
        self
    }

    /// How much of the past is kept for watches and lists.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Starts it on the current tokio runtime. When this returns, it answers.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running then.
    pub async fn start(self) -> Result<Server, StartError> {
        let addr = self.listen;
        if !addr.ip().is_loopback() {
            return Err(StartError::NotLoopback { addr });
        }
        let data_dir = self.data_dir.as_deref().map(DataDir::open).transpose()?;
        if let Some(dir) = &data_dir {
            dir.has_kept_its_store()?;
        }
        let listener = TcpListener::bind(addr).await.map_err(|source| StartError::Listen { addr, source })?;
        let addr = listener.local_addr().map_err(|source| StartError::Listen { addr, source })?;
        let token: Arc<str> = match (&self.token, &data_dir) {
            (Some(token), _) => token::checked(token, Path::new("the given token"))?.into(),
            (None, Some(dir)) => token::read_or_make(&dir.file("token"))?.into(),
            (None, None) => token::random().into(),
        };
        let wants_tls = self.tls.unwrap_or(data_dir.is_some());
        let tls = wants_tls.then(|| Tls::prepare(data_dir.as_ref())).transpose()?;
        let store: Arc<dyn Store> = match &data_dir {
            Some(dir) => {
                let (path, retention) = (dir.file("store.redb"), self.retention);
                let opened = tokio::task::spawn_blocking(move || RedbStore::open(&path, retention)).await;
                match opened {
                    Ok(store) => Arc::new(store?),
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                }
            }
            None => Arc::new(MemoryStore::new(self.retention)),
        };
        let ending = CancellationToken::new();
        let api = Arc::new(Api::new(Arc::clone(&store), ending.clone()));
        api.bootstrap().await?;

        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{addr}");
        let authority = tls.as_ref().map(|tls| &*tls.authority);
        let kubeconfig = kubeconfig::text(&url, &token, authority);
        let beside_data = data_dir.as_ref().map(|dir| dir.file("kubeconfig"));
        for path in beside_data.iter().chain(&self.write_kubeconfig) {
            super::data_dir::write_private(path, kubeconfig.as_bytes())?;
        }
        let kubeconfig_path = beside_data.or(self.write_kubeconfig);

        let cut = CancellationToken::new();
        let connections = TaskTracker::new();
        let acceptor = Acceptor {
            api,
            token: Arc::clone(&token),
            tls: tls.map(|tls| tls.acceptor),
            ending: ending.clone(),
            cut: cut.clone(),
            connections: connections.clone(),
        };
        let accepting = tokio::spawn(accept(listener, acceptor));
        tracing::info!(url, data_dir = ?self.data_dir, "server listens");
        let running = Running { ending, cut, connections, accepting };
        Ok(Server { addr, url, token, kubeconfig, kubeconfig_path, store, running, data_dir })
    }
}
