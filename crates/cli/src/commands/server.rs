//! `incumbent server`: a Kubernetes-compatible API server for Leases.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use incumbent_server::Server;
use tokio::signal::unix::{SignalKind, signal};

use crate::connect::default_data_dir;
use crate::failure::Failure;
use crate::logging::{self, LogFormat};
use crate::output::print;

/// Serve Leases to this machine, without a cluster
///
/// Speaks the Kubernetes API for Leases (coordination.k8s.io/v1), so kubectl, kube-rs and `incumbent
/// run` work on it. What was acknowledged is on disk. A kubeconfig with the access token is written beside the
/// data; the other commands find it there by themselves.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  incumbent server\n  incumbent server --data-dir /var/lib/incumbent --listen 127.0.0.1:6780\n  incumbent server --write-kubeconfig ./kubeconfig\n  kubectl --kubeconfig ./kubeconfig get leases"
)]
pub(crate) struct ServerArgs {
    /// Folder for the data, the token and the kubeconfig [default: $XDG_DATA_HOME/incumbent]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address to listen on; a port of 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6780")]
    listen: SocketAddr,
    /// Write the kubeconfig to this file too
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Form of the log lines
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

/// Serves until TERM or INT.
pub(crate) fn execute(args: ServerArgs) -> Result<ExitCode, Failure> {
    logging::install(args.log_format, "info");
    let data_dir = args.data_dir.or_else(default_data_dir).ok_or_else(|| {
        Failure::usage("neither $XDG_DATA_HOME nor $HOME says where the data belongs: give --data-dir")
    })?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::failed)?;
    runtime.block_on(async {
        // Before anything is there to be stopped: a signal from now on ends the server in order.
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut builder = Server::builder().data_dir(&data_dir).listen(args.listen);
        if let Some(path) = &args.write_kubeconfig {
            builder = builder.write_kubeconfig(path);
        }
        let server = builder.start().await.map_err(Failure::failed)?;
        let kubeconfig = data_dir.join("kubeconfig");
        print(&format!("serving leases on {}\nkubeconfig: {}\n", server.url(), kubeconfig.display()))?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        server.shutdown().await;
        Ok(ExitCode::SUCCESS)
    })
}
