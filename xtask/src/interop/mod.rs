//! `cargo xtask interop`: the same scenarios on the embedded server and on a real, stock kube-apiserver, with
//! real client-go electors and a real kube-scheduler.
//!
//! [`site`] is a server under test; [`fleet`] runs replicas on one lock of it; [`journal`] reads what the programs
//! that they lead wrote down. [`scenarios`] are what has to work. Each has a lock of its own, so a few run at a time.

mod fleet;
mod journal;
mod scenarios;
mod site;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use clap::{Args, ValueEnum};

use crate::interrupt;
use crate::peers::{Program, ensure_built};
use fleet::tail;
use scenarios::Scenario;
use site::Site;

/// `cargo xtask interop`
#[derive(Debug, Default, Args)]
pub(crate) struct Settings {
    /// On which server.
    #[arg(long, value_enum, default_value_t)]
    server: Which,
    /// Only the scenarios of these names.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// How many scenarios run at a time [default: 3].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
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

impl Settings {
    fn wants(&self, scenario: &Scenario) -> bool {
        self.only.is_empty() || self.only.iter().any(|n| n == scenario.name)
    }

    /// Whether anything is wanted on a server of this kind.
    fn wants_site(&self, which: Which) -> bool {
        (self.server == Which::All || self.server == which)
            && scenarios::ALL.iter().any(|s| self.wants(s) && (which == Which::Cluster || !s.cluster))
    }
}

/// Runs the scenarios.
///
/// # Errors
/// If something that is needed cannot be had, or a scenario failed.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<()> {
    interrupt::listen()?;
    for name in &settings.only {
        ensure!(
            scenarios::ALL.iter().any(|s| s.name == name),
            "there is no scenario {name:?}; there are {}",
            scenarios::ALL.map(|s| s.name).join(", ")
        );
    }
    let (embedded, cluster) = (settings.wants_site(Which::Embedded), settings.wants_site(Which::Cluster));
    ensure!(embedded || cluster, "no such scenario runs on that server");
    let program = build()?;
    // What cannot be built is found before anything runs; a machine without Go fails here.
    let kubectl = ensure_built(Program::Kubectl)?;
    if cluster {
        for peer in Program::ALL {
            ensure_built(peer)?;
        }
    }
    let folder = tempfile::Builder::new().prefix("incumbent-interop-").tempdir()?;
    let tally = Tally::default();
    if embedded {
        let site = Site::embedded(program.clone(), kubectl.clone(), folder.path())?;
        run_on(&site, settings, &tally)?;
        site.stop()?;
    }
    if cluster {
        let site = Site::cluster(program, kubectl, folder.path())?;
        run_on(&site, settings, &tally)?;
        site.stop()?;
    }
    let (passed, failed) = (tally.passed.into_inner(), tally.failed.into_inner());
    writeln!(std::io::stdout(), "{passed} passed, {failed} failed")?;
    ensure!(failed == 0, "{failed} scenarios failed");
    ensure!(passed > 0, "no scenario ran");
    Ok(())
}

#[derive(Default)]
struct Tally {
    passed: AtomicUsize,
    failed: AtomicUsize,
}

/// Runs what is wanted on one server, a few at a time, and prints a line for each as it ends.
fn run_on(site: &Site, settings: &Settings, tally: &Tally) -> anyhow::Result<()> {
    let wanted: Vec<&Scenario> =
        scenarios::ALL.iter().filter(|s| settings.wants(s) && (site.is_cluster() || !s.cluster)).collect();
    let next = AtomicUsize::new(0);
    let broken = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..settings.jobs.unwrap_or(3).max(1) {
            scope.spawn(|| {
                while interrupt::check().is_ok()
                    && let Some(scenario) = wanted.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if let Err(error) = run_one(site, scenario, tally)
                        && let Ok(mut broken) = broken.lock()
                    {
                        *broken = Some(error);
                    }
                }
            });
        }
    });
    interrupt::check()?;
    match broken.into_inner() {
        Ok(None) => Ok(()),
        Ok(Some(error)) => Err(error),
        Err(_) => Err(anyhow!("a scenario's thread panicked")),
    }
}

/// Fails only if its outcome cannot be told.
fn run_one(site: &Site, scenario: &Scenario, tally: &Tally) -> anyhow::Result<()> {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (scenario.run)(site)))
        .unwrap_or_else(|_| Err(anyhow!("the scenario panicked")));
    let seconds = began.elapsed().as_secs_f64();
    let (name, on) = (scenario.name, site.name());
    let mut out = std::io::stdout().lock();
    match outcome {
        Ok(saw) => {
            tally.passed.fetch_add(1, Ordering::Relaxed);
            writeln!(out, "ok      {name} on {on} ({seconds:.1} s): {saw}")?;
        }
        Err(_) if interrupt::check().is_err() => {}
        Err(error) => {
            tally.failed.fetch_add(1, Ordering::Relaxed);
            writeln!(out, "FAILED  {name} on {on} ({seconds:.1} s): {error:#}")?;
            writeln!(out, "--- {on}\n{}", tail(&site.log()))?;
        }
    }
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

/// For people.
fn millis(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}
