//! The running server: what it listens on, where its data is, who may speak to it, how it ends.

mod builder;
mod connections;
mod data_dir;
mod kubeconfig;
mod tls;
mod token;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::builder::Builder;
use self::data_dir::DataDir;
use crate::store::{OpenError, Store, StoreError};

/// How long a shutdown waits for requests that are under way.
const GRACE: Duration = Duration::from_secs(5);

/// A running server. Dropped, it stops at once, as [`abort`](Self::abort) does.
pub struct Server {
    addr: SocketAddr,
    url: String,
    token: Arc<str>,
    kubeconfig: String,
    kubeconfig_path: Option<PathBuf>,
    store: Arc<dyn Store>,
    running: Running,
    /// Released last.
    data_dir: Option<DataDir>,
}

/// The tasks of a server.
struct Running {
    /// Cancelled when watches, and then connections, are to end.
    ending: CancellationToken,
    /// Cancelled when they are to be cut off.
    cut: CancellationToken,
    connections: TaskTracker,
    accepting: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ending.cancel();
        self.cut.cancel();
        self.accepting.abort();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is nobody's business.
        f.debug_struct("Server")
            .field("addr", &self.addr)
            .field("kubeconfig_path", &self.kubeconfig_path)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server that is not started yet.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens, for a client: `https://127.0.0.1:PORT`, or `http://…` without
    /// [`tls`](Builder::tls).
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What a client has to send as bearer token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A kubeconfig, as YAML: the address, the token, and whom to trust.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Where the kubeconfig lies: beside the data, if there are any.
    pub fn kubeconfig_path(&self) -> Option<&Path> {
        self.kubeconfig_path.as_deref()
    }

    /// Ends all watches, answers what is under way (for at most five seconds), and closes the store.
    ///
    /// Cancel safe in so far as a dropped shutdown is an [`abort`](Self::abort).
    pub async fn shutdown(self) {
        self.running.ending.cancel();
        self.running.connections.close();
        let ended = tokio::time::timeout(GRACE, self.running.connections.wait()).await;
        if ended.is_err() {
            tracing::warn!(connections = self.running.connections.len(), "cut off after the grace period");
        }
        self.running.cut.cancel();
        self.running.connections.wait().await;
        self.store.close().await;
        drop(self.data_dir);
        tracing::info!(addr = %self.addr, "server stopped");
    }

    /// Cuts all connections now, and closes the store: what a client sees of a server that dies. What was
    /// acknowledged is kept.
    pub async fn abort(self) {
        self.running.ending.cancel();
        self.running.cut.cancel();
        self.running.connections.close();
        self.running.connections.wait().await;
        self.store.close().await;
    }
}

/// Why a server did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address can be reached from other machines, for which there is no authorization yet.
    #[error(
        "refusing to listen on {addr}: this server speaks only to its own machine; use 127.0.0.1 or [::1]"
    )]
    NotLoopback {
        /// What was asked for.
        addr: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}; is another server running there?")]
    Listen {
        /// What was asked for.
        addr: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another server uses the data directory.
    #[error("{} is in use by another server{}: stop it, or choose another data directory", path.display(), holder(*pid))]
    InUse {
        /// The data directory.
        path: PathBuf,
        /// The process that uses it, if it could be found out.
        pid: Option<u32>,
    },
    /// A file could not be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file with the token does not hold one.
    #[error("{} holds no token ({why}): remove it, and the server makes a new one", path.display())]
    BadToken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// A key or a certificate cannot be made, or the one in the data directory cannot be used.
    #[error("cannot prepare TLS: {0}; if ca.key or ca.crt in the data directory is damaged, remove both")]
    Tls(String),
    /// The data cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The data cannot be written.
    #[error("cannot prepare the store: {0}")]
    Prepare(#[from] StoreError),
}

fn holder(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}
