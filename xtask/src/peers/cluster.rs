//! A real API server with its store, on the loopback address.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use super::kubeconfig::{self, Access};
use super::process::Process;
use super::program::Program;
use super::rbac::{self, Rights, User};
use super::{LockName, build, ports};
use crate::interrupt;

/// A loaded machine with two cores has needed a third of it.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How often readiness is asked for; each question starts a kubectl.
const READY_POLL: Duration = Duration::from_millis(200);

/// A port that was free may be taken by the time it is used.
const STARTS: usize = 3;

/// What the API server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What a server serves that nobody has configured.
    Stock,
    /// LeaseCandidates, too, and the coordinator that elects among them.
    Coordinated,
}

impl Kind {
    /// The feature gates that server and components need.
    pub(super) fn feature_gates(self) -> &'static [&'static str] {
        match self {
            Self::Stock => &[],
            Self::Coordinated => &["--feature-gates=CoordinatedLeaderElection=true"],
        }
    }

    /// The versions that the server has to be told to serve.
    fn served(self) -> &'static [&'static str] {
        match self {
            Self::Stock => &[],
            Self::Coordinated => {
                &["--runtime-config=coordination.k8s.io/v1beta1=true,coordination.k8s.io/v1alpha2=true"]
            }
        }
    }
}

/// A running cluster. Dropped or stopped, its processes are gone and its folder is removed.
#[derive(Debug)]
pub(crate) struct Cluster {
    // In the order in which they have to end.
    apiserver: Process,
    etcd: Process,
    folder: TempDir,
    kubectl: PathBuf,
    url: String,
    kind: Kind,
}

impl Cluster {
    /// Builds what is missing, starts etcd and kube-apiserver, and returns when the server is ready.
    ///
    /// From then on SIGINT and SIGTERM are for [`interrupt::check`] and [`interrupt::wait`] to tell of: the caller has
    /// to end the cluster.
    ///
    /// # Errors
    ///
    /// What could not be built, or which program ended or did not become ready, with the end of its log.
    pub(crate) fn start(kind: Kind) -> anyhow::Result<Self> {
        let etcd = build::ensure(Program::Etcd)?;
        let apiserver = build::ensure(Program::Apiserver)?;
        let kubectl = build::ensure(Program::Kubectl)?;
        interrupt::listen()?;
        let mut tries = 1;
        loop {
            match Self::try_start(kind, &etcd, &apiserver, &kubectl) {
                Err(error) if tries < STARTS && format!("{error:#}").contains("address already in use") => {
                    tries += 1
                }
                outcome => return outcome,
            }
        }
    }

    fn try_start(kind: Kind, etcd: &Path, apiserver: &Path, kubectl: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("incumbent-peers-")
            .tempdir()
            .context("cannot create a temporary folder for the cluster")?;
        let [store, members, secure] = ports::free()?;
        let etcd = start_etcd(etcd, folder.path(), store, members)?;
        let apiserver = start_apiserver(apiserver, folder.path(), kind, store, secure)?;
        let url = format!("https://127.0.0.1:{secure}");
        let mut cluster = Self { apiserver, etcd, folder, kubectl: kubectl.to_owned(), url, kind };
        cluster.write_kubeconfigs()?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// What the server serves.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The server's address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The server's process.
    pub(crate) fn apiserver(&self) -> &Process {
        &self.apiserver
    }

    /// The store's process.
    pub(crate) fn etcd(&self) -> &Process {
        &self.etcd
    }

    /// Where data, certificates and logs are, until the cluster ends.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The kubeconfig of `user`.
    pub(crate) fn kubeconfig(&self, user: User) -> PathBuf {
        self.folder.path().join(format!("{}.kubeconfig", user.name()))
    }

    /// The path of kubectl.
    pub(crate) fn kubectl_path(&self) -> &Path {
        &self.kubectl
    }

    /// Runs kubectl as `user`, with `input` on its standard input; returns what it printed.
    ///
    /// # Errors
    ///
    /// If it does not exit with 0: what it was told to do, and what it said.
    pub(crate) fn kubectl(&self, user: User, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let what = || format!("`kubectl {}` as {}", arguments.join(" "), user.name());
        let mut child = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(self.kubeconfig(user))
            // Nothing of it is kept in the home folder of whoever runs the tests.
            .arg("--cache-dir")
            .arg(self.folder.path().join("kubectl-cache"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(what)?;
        if let Some(mut stdin) = child.stdin.take() {
            // It may have ended without reading; its exit code tells more than the broken pipe.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().with_context(what)?;
        if !output.status.success() {
            bail!("{} failed: {}", what(), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates a namespace, unless it exists.
    ///
    /// # Errors
    ///
    /// What the server said.
    pub(crate) fn create_namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespace =
            serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.apply(&namespace)
    }

    /// Gives the user of `rights` its rights on `lock`, beside those that it has.
    ///
    /// # Errors
    ///
    /// What the server said.
    pub(crate) fn grant(&self, rights: Rights, lock: &LockName) -> anyhow::Result<()> {
        self.apply(&rbac::grant(rights, lock))
    }

    /// Ends the server, then the store, and removes their folder.
    ///
    /// # Errors
    ///
    /// If a process cannot be waited for, or the folder cannot be removed.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        // The data goes with them: there is nothing that a graceful end would save.
        self.apiserver.kill()?;
        self.etcd.kill()?;
        let path = self.folder.path().to_owned();
        self.folder.close().with_context(|| format!("cannot remove {}", path.display()))
    }

    fn apply(&self, object: &serde_json::Value) -> anyhow::Result<()> {
        // Server-side, because it needs no annotation with a copy of the object.
        self.kubectl(User::Admin, &["apply", "--server-side", "-f", "-"], &object.to_string()).map(drop)
    }

    fn write_kubeconfigs(&self) -> anyhow::Result<()> {
        let authority = self.folder.path().join(CERTIFICATES).join("apiserver.crt");
        for user in User::ALL {
            let access =
                Access { url: &self.url, authority: &authority, user: user.name(), token: &user.token() };
            kubeconfig::write(&self.kubeconfig(user), access)?;
        }
        Ok(())
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            interrupt::check()?;
            for process in [&mut self.etcd, &mut self.apiserver] {
                if let Some(status) = process.ended()? {
                    return Err(process.failure(&format!("ended with {status} before the server was ready")));
                }
            }
            let answer = self.kubectl(User::Admin, &["get", "--raw", "/readyz", "--request-timeout=5s"], "");
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > READY_WITHIN => {
                    let what = format!("was not ready after {} s ({error:#})", READY_WITHIN.as_secs());
                    return Err(self.apiserver.failure(&what));
                }
                Err(_) => thread::sleep(READY_POLL),
            }
        }
    }
}

/// The folder in which the server writes the certificate that it makes for itself.
const CERTIFICATES: &str = "certificates";

fn start_etcd(program: &Path, folder: &Path, store: u16, members: u16) -> anyhow::Result<Process> {
    let clients = format!("http://127.0.0.1:{store}");
    let peers = format!("http://127.0.0.1:{members}");
    let mut command = Command::new(program);
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("default={peers}"), "--log-level", "warn"]);
    Process::start("etcd", folder, command)
}

fn start_apiserver(
    program: &Path,
    folder: &Path,
    kind: Kind,
    store: u16,
    secure: u16,
) -> anyhow::Result<Process> {
    let pair = rcgen::KeyPair::generate().context("cannot make a key for service accounts")?;
    let private = write(folder.join("service-accounts.key"), &pair.serialize_pem())?;
    let public = write(folder.join("service-accounts.pub"), &pair.public_key_pem())?;
    let tokens = write(folder.join("tokens.csv"), &User::tokens())?;
    let mut command = Command::new(program);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{store}"))
        .arg(format!("--secure-port={secure}"))
        .args(["--bind-address=127.0.0.1", "--endpoint-reconciler-type=none", "--authorization-mode=RBAC"])
        .args(["--service-account-issuer=https://kubernetes.default.svc"])
        .args(["--service-cluster-ip-range=10.0.0.0/24"])
        .arg(option("cert-dir", &folder.join(CERTIFICATES)))
        .arg(option("service-account-key-file", &public))
        .arg(option("service-account-signing-key-file", &private))
        .arg(option("token-auth-file", &tokens))
        .args(kind.feature_gates())
        .args(kind.served());
    Process::start("kube-apiserver", folder, command)
}

fn write(path: PathBuf, text: &str) -> anyhow::Result<PathBuf> {
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// `--name=path`, without a detour over text.
pub(super) fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(path);
    option
}
