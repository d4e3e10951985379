//! kube-scheduler: a real program that stands for election, or that is led.

use std::process::Command;
use std::time::Duration;

use super::cluster::{Cluster, option};
use super::process::Process;
use super::program::Program;
use super::rbac::User;
use super::{build, ports};

/// A kube-scheduler that stands for election on `kube-system/kube-scheduler`. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Scheduler {
    process: Process,
}

impl Scheduler {
    /// Starts one against `cluster`, with `extra` arguments.
    ///
    /// # Errors
    ///
    /// If it cannot be built or does not start.
    pub(crate) fn start(cluster: &Cluster, extra: &[&str]) -> anyhow::Result<Self> {
        let program = build::ensure(Program::Scheduler)?;
        let [port] = ports::free()?;
        let kubeconfig = cluster.kubeconfig(User::Admin);
        let mut command = Command::new(program);
        for name in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
            command.arg(option(name, &kubeconfig));
        }
        command
            .arg(format!("--secure-port={port}"))
            .args(["--bind-address=127.0.0.1", "--leader-elect=true"])
            .args(cluster.kind().feature_gates())
            .args(extra);
        let process = Process::start(&format!("kube-scheduler-{port}"), cluster.folder(), command)?;
        Ok(Self { process })
    }

    /// Ends it as a rolling update would.
    ///
    /// # Errors
    ///
    /// If it cannot be waited for.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.process.stop(Duration::from_secs(10)).map(drop)
    }
}
