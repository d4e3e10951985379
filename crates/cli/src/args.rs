//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands;

/// Leader election and graceful leader handover, for any process, on any Kubernetes cluster or none.
#[derive(Parser, Debug)]
#[command(
    name = "incumbent",
    version,
    after_help = "Begin here:\n  incumbent demo                                  watch an upgrade with graceful handover\n  incumbent server                                a lease server for this machine, no cluster needed\n  incumbent run --lock backup -- ./backup.sh      run a program on one replica at a time\n  incumbent status backup                         who leads, why, and who is next"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(Box<commands::run::RunArgs>),
    Status(commands::status::StatusArgs),
    Server(commands::server::ServerArgs),
    Demo(commands::demo::DemoArgs),
    #[command(name = "__demo-worker", hide = true)]
    DemoWorker(commands::demo::worker::WorkerArgs),
}

/// Which API server to talk to, and where on it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Connection {
    /// Namespace of the lock [default: the context's, or "default"]
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, the pod's account, or this user's `incumbent server`]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}
