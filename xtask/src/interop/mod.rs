//! `cargo xtask interop`: the same scenarios on the embedded server and on a real, stock kube-apiserver, with
//! real client-go electors and a real kube-scheduler.

mod fleet;
mod scenarios;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};

use crate::interrupt;
use crate::peers::{Cluster, Kind, POLL, Process, Program, User, ensure_built};

/// `cargo xtask interop`
#[derive(Debug, Default, Args)]
pub(crate) struct Settings {
    /// On which server.
    #[arg(long, value_enum, default_value_t)]
    server: Which,
    /// Only the scenarios of these names.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Which {
    /// `incumbent server`.
    Embedded,
    /// kube-apiserver with etcd.
    Cluster,
    /// One after the other.
    #[default]
    All,
}

/// A server under test.
pub(crate) struct Site {
    name: &'static str,
    /// The `incumbent` program.
    program: PathBuf,
    /// Its owner's.
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    /// Where logs and journals go.
    folder: PathBuf,
    cluster: Option<Cluster>,
    embedded: Option<Process>,
}

impl Site {
    /// Runs kubectl as the owner; returns what it printed.
    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
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
}

/// Runs the scenarios.
///
/// # Errors
/// If something that is needed cannot be had, or a scenario failed.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<()> {
    interrupt::listen()?;
    for name in &settings.only {
        ensure!(scenarios::ALL.iter().any(|s| s.name == name), "there is no scenario {name:?}");
    }
    let program = build()?;
    let kubectl = ensure_built(Program::Kubectl)?;
    let folder = tempfile::Builder::new().prefix("incumbent-interop-").tempdir()?;
    let (mut passed, mut failed) = (0, 0);
    for which in [Which::Embedded, Which::Cluster] {
        if settings.server != Which::All && settings.server != which {
            continue;
        }
        let site = start(which, &program, &kubectl, folder.path())?;
        for scenario in &scenarios::ALL {
            let wanted = settings.only.is_empty() || settings.only.iter().any(|n| n == scenario.name);
            if !wanted || (scenario.cluster && site.cluster.is_none()) {
                continue;
            }
            interrupt::check()?;
            let began = Instant::now();
            let outcome = (scenario.run)(&site);
            let seconds = began.elapsed().as_secs_f64();
            let mut out = std::io::stdout();
            match outcome {
                Ok(()) => {
                    passed += 1;
                    writeln!(out, "ok      {} on {} ({seconds:.1} s)", scenario.name, site.name)?;
                }
                Err(error) => {
                    failed += 1;
                    writeln!(out, "FAILED  {} on {} ({seconds:.1} s): {error:#}", scenario.name, site.name)?;
                }
            }
        }
        stop(site)?;
    }
    writeln!(std::io::stdout(), "{passed} passed, {failed} failed")?;
    ensure!(failed == 0, "{failed} scenarios failed");
    ensure!(passed > 0, "no scenario ran");
    Ok(())
}

/// Builds the `incumbent` program as the tests do, and says where it is.
fn build() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--locked", "-p", "incumbent-cli", "--bin", "incumbent", "--message-format=json"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "incumbent does not build");
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back();
    executable.context("cargo does not say where incumbent is")
}

fn start(which: Which, program: &Path, kubectl: &Path, folder: &Path) -> anyhow::Result<Site> {
    let name = if which == Which::Cluster { "kube-apiserver" } else { "the embedded server" };
    let folder = folder.join(if which == Which::Cluster { "cluster" } else { "embedded" });
    fs::create_dir(&folder)?;
    let (program, kubectl) = (program.to_owned(), kubectl.to_owned());
    if which == Which::Cluster {
        let cluster = Cluster::start(Kind::Stock)?;
        // The server makes its own namespaces only a moment after it is ready.
        for namespace in ["default", "kube-system"] {
            cluster.create_namespace(namespace)?;
        }
        let kubeconfig = cluster.kubeconfig(User::Admin);
        return Ok(Site {
            name,
            program,
            kubeconfig,
            kubectl,
            folder,
            cluster: Some(cluster),
            embedded: None,
        });
    }
    let kubeconfig = folder.join("kubeconfig");
    let mut command = Command::new(&program);
    command.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.join("data"));
    command.arg("--write-kubeconfig").arg(&kubeconfig);
    let mut embedded = Process::start("server", &folder, command)?;
    let began = Instant::now();
    while !kubeconfig.exists() {
        interrupt::check()?;
        if let Some(status) = embedded.ended()? {
            return Err(embedded.failure(&format!("ended with {status}")));
        }
        if began.elapsed() > fleet::LIMIT {
            bail!("the embedded server did not start");
        }
        thread::sleep(POLL);
    }
    Ok(Site { name, program, kubeconfig, kubectl, folder, cluster: None, embedded: Some(embedded) })
}

fn stop(site: Site) -> anyhow::Result<()> {
    if let Some(cluster) = site.cluster {
        cluster.stop()?;
    }
    if let Some(embedded) = site.embedded {
        let status = embedded.stop(Duration::from_secs(30))?;
        ensure!(status.success(), "the embedded server ended with {status}");
    }
    Ok(())
}
