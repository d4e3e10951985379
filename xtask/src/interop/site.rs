//! A server under test, and who looks at it from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::fleet::LIMIT;
use crate::interrupt;
use crate::peers::{Cluster, Kind, POLL, Process, User};

/// A server under test. Dropped, it is killed.
pub(super) struct Site {
    /// The `incumbent` program.
    pub(super) program: PathBuf,
    /// Its owner's.
    pub(super) kubeconfig: PathBuf,
    /// Where logs and journals go.
    pub(super) folder: PathBuf,
    kubectl: PathBuf,
    server: Server,
}

enum Server {
    Embedded(Process),
    Cluster(Cluster),
}

impl Site {
    /// Starts `incumbent server`, and returns when it answers.
    pub(super) fn embedded(program: PathBuf, kubectl: PathBuf, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("embedded");
        fs::create_dir(&folder)?;
        let kubeconfig = folder.join("kubeconfig");
        let mut command = Command::new(&program);
        command.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.join("data"));
        command.arg("--write-kubeconfig").arg(&kubeconfig);
        let mut process = Process::start("server", &folder, command)?;
        let began = Instant::now();
        // Written, in one piece, once the server answers.
        while !kubeconfig.exists() {
            interrupt::check()?;
            if let Some(status) = process.ended()? {
                return Err(process.failure(&format!("ended with {status}")));
            }
            if began.elapsed() > LIMIT {
                return Err(process.failure(&format!("did not start within {} s", LIMIT.as_secs())));
            }
            thread::sleep(POLL);
        }
        Ok(Self { program, kubeconfig, folder, kubectl, server: Server::Embedded(process) })
    }

    /// Starts a stock kube-apiserver with etcd.
    pub(super) fn cluster(program: PathBuf, kubectl: PathBuf, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("cluster");
        fs::create_dir(&folder)?;
        let cluster = Cluster::start(Kind::Stock)?;
        // The server makes its own namespaces only a moment after it is ready.
        for namespace in ["default", "kube-system"] {
            cluster.create_namespace(namespace)?;
        }
        let kubeconfig = cluster.kubeconfig(User::Admin);
        Ok(Self { program, kubeconfig, folder, kubectl, server: Server::Cluster(cluster) })
    }

    /// For people.
    pub(super) fn name(&self) -> &'static str {
        if self.is_cluster() { "kube-apiserver" } else { "the embedded server" }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.server, Server::Cluster(_))
    }

    /// The real cluster.
    ///
    /// # Errors
    /// On the embedded server.
    pub(super) fn as_cluster(&self) -> anyhow::Result<&Cluster> {
        match &self.server {
            Server::Cluster(cluster) => Ok(cluster),
            Server::Embedded(_) => bail!("needs a real cluster"),
        }
    }

    /// Runs kubectl as the owner; returns what it printed.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.folder.join("kubectl-cache"))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("cannot start kubectl")?;
        ensure!(
            output.status.success(),
            "kubectl {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The lock NAMESPACE/NAME as it is stored.
    pub(super) fn lease(&self, lock: &str) -> anyhow::Result<Value> {
        let (namespace, name) = lock.split_once('/').context("a lock has a namespace")?;
        let text = self.kubectl(&["get", "lease", "-n", namespace, name, "-o", "json"])?;
        serde_json::from_str(&text).context("kubectl printed no JSON")
    }

    /// Runs `incumbent` with these words, as the owner of `kubeconfig`.
    pub(super) fn incumbent(&self, kubeconfig: &Path, words: &[&str]) -> anyhow::Result<Output> {
        let (command, words) = words.split_first().context("a command")?;
        Command::new(&self.program)
            .args([*command, "--kubeconfig"])
            .arg(kubeconfig)
            .args(words)
            .stdin(Stdio::null())
            .output()
            .context("cannot start incumbent")
    }

    /// What `incumbent status` says of a lock.
    pub(super) fn status(&self, lock: &str) -> anyhow::Result<Value> {
        let output = self.incumbent(&self.kubeconfig, &["status", lock, "-o", "json"])?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "status of {lock} ended with {}: {said}", output.status);
        serde_json::from_slice(&output.stdout).context("status printed no JSON")
    }

    /// The server's log.
    pub(super) fn log(&self) -> String {
        match &self.server {
            Server::Embedded(process) => process.output(),
            Server::Cluster(cluster) => cluster.apiserver().output(),
        }
    }

    /// Ends the server, in order.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        match self.server {
            Server::Cluster(cluster) => cluster.stop(),
            Server::Embedded(process) => {
                let status = process.stop(Duration::from_secs(30))?;
                ensure!(status.success(), "the embedded server ended with {status}");
                Ok(())
            }
        }
    }
}
