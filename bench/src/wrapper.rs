//! `incumbent run` processes, their programs, and what becomes of them when they die.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use incumbent::core::WallTime;
use incumbent::{Clock as _, KubeLease, LeaseApi as _, LockName};
use kube::Config;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::stats::{Bound, Row};

/// What the measurements of processes need.
pub(crate) struct Site<'s> {
    pub(crate) program: &'s Path,
    pub(crate) kubeconfig: &'s Path,
    pub(crate) config: &'s Config,
}

/// `incumbent run` processes on one lock, each with a program that writes down when it lives.
struct Wrappers<'s> {
    site: &'s Site<'s>,
    folder: TempDir,
    lock: LockName,
    replicas: Vec<(String, Child)>,
    count: usize,
}

/// A line of the programs' journal that says that one has started.
#[derive(Clone, Debug)]
struct Started {
    pid: i32,
    /// Nanoseconds on the machine's boot clock.
    at: u64,
    name: String,
}

impl<'s> Wrappers<'s> {
    fn new(site: &'s Site<'s>, what: &str) -> anyhow::Result<Wrappers<'s>> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Wrappers {
            site,
            folder: tempfile::Builder::new().prefix("incumbent-bench-").tempdir()?,
            lock: LockName::new("default", &format!("bench-{what}-{}", now.as_millis()))?,
            replicas: Vec::new(),
            count: 0,
        })
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    fn start(&mut self) -> anyhow::Result<()> {
        self.count += 1;
        let name = format!("r{}", self.count);
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        let mut command = Command::new(self.site.program);
        command.args(["run", "--lock", &self.lock.to_string(), "--identity", &name, "--profile", "fast"]);
        command.arg("--kubeconfig").arg(self.site.kubeconfig).arg("--").arg(self.site.program);
        command.arg("__demo-worker").arg(self.journal()).args(["1.0.0", "0"]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        self.replicas.push((name, command.spawn()?));
        Ok(())
    }

    fn starts(&self) -> Vec<Started> {
        let text = fs::read_to_string(self.journal()).unwrap_or_default();
        let started = |line: &str| {
            let entry: Value = serde_json::from_str(line).ok()?;
            let identity = entry["event"]["started"]["identity"].as_str()?;
            Some(Started {
                pid: i32::try_from(entry["pid"].as_i64()?).ok()?,
                at: entry["at"].as_u64()?,
                name: incumbent::core::name_of(identity).to_owned(),
            })
        };
        text.lines().filter_map(started).collect()
    }

    fn overlaps(&self) -> usize {
        fs::read_to_string(self.journal()).unwrap_or_default().matches("\"overlap\":true").count()
    }

    async fn nth_start(&self, n: usize) -> anyhow::Result<Started> {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(started) = self.starts().get(n) {
                return Ok(started.clone());
            }
            if Instant::now() > limit {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                bail!("no program was started within a minute; the log:\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until this many candidates stand on the lock.
    async fn announced(&self, n: usize) -> anyhow::Result<()> {
        let api = KubeLease::new(self.site.config.clone(), self.lock.clone(), Duration::from_secs(5))?;
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            if let incumbent::core::Outcome::Ok(record) = api.read().await {
                let status = incumbent::Status::of_lock(&self.lock, Some(&record), WallTime::from_micros(0));
                let names: Vec<&str> =
                    status.candidates.iter().filter(|c| c.eligible).map(|c| &*c.name).collect();
                if self.replicas.iter().filter(|(name, _)| names.contains(&&**name)).count() >= n {
                    return Ok(());
                }
            }
            ensure!(Instant::now() < limit, "the candidates did not announce themselves");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn last_renewal(&self) -> anyhow::Result<WallTime> {
        let api = KubeLease::new(self.site.config.clone(), self.lock.clone(), Duration::from_secs(5))?;
        match api.read().await {
            incumbent::core::Outcome::Ok(record) => record.renew_time.context("the lock was never renewed"),
            other => bail!("the lock cannot be read: {other:?}"),
        }
    }

    async fn end(mut self) -> anyhow::Result<()> {
        for (_, replica) in &self.replicas {
            let pid = replica.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
            if let Some(pid) = pid {
                kill_process(pid, Signal::TERM)?;
            }
        }
        for (name, replica) in &mut self.replicas {
            tokio::time::timeout(Duration::from_secs(30), replica.wait())
                .await
                .with_context(|| format!("{name} does not end"))??;
        }
        Ok(())
    }
}

fn kill(pid: i32) -> anyhow::Result<()> {
    let pid = Pid::from_raw(pid).context("no process id")?;
    kill_process(pid, Signal::KILL).context("the program was gone already")
}

/// From the death of a program to the start of the next one.
pub(crate) async fn child_dies(site: &Site<'_>, rounds: usize, bound: Bound) -> anyhow::Result<Row> {
    let mut wrappers = Wrappers::new(site, "dies")?;
    for _ in 0..3 {
        wrappers.start()?;
    }
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let leader = wrappers.nth_start(round).await?;
        wrappers.announced(3).await?;
        let killed = incumbent::BootClock.now().mono.as_nanos();
        kill(leader.pid)?;
        let next = wrappers.nth_start(round + 1).await?;
        times.push(Duration::from_nanos(next.at.saturating_sub(killed)));
        // Its `run` ends with it.
        let index =
            wrappers.replicas.iter().position(|(name, _)| *name == leader.name).context("who led?")?;
        let (_, mut ended) = wrappers.replicas.remove(index);
        let code = ended.wait().await?.code();
        ensure!(code == Some(137), "run ended with {code:?} instead of 137");
        wrappers.start()?;
    }
    ensure!(wrappers.overlaps() == 0, "two programs lived at one instant");
    wrappers.end().await?;
    Ok(Row::of("child dies by itself → successor leads", times, bound))
}

/// From the last renewal of a wrapper that is killed with its program to the start of the next one.
pub(crate) async fn wrapper_killed(site: &Site<'_>, rounds: usize, bound: Bound) -> anyhow::Result<Row> {
    let mut wrappers = Wrappers::new(site, "killed")?;
    for _ in 0..3 {
        wrappers.start()?;
    }
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let leader = wrappers.nth_start(round).await?;
        wrappers.announced(3).await?;
        let index =
            wrappers.replicas.iter().position(|(name, _)| *name == leader.name).context("who led?")?;
        let (_, mut replica) = wrappers.replicas.remove(index);
        replica.start_kill()?;
        // The wrapper's end kills the program too: whichever comes first.
        let _ = kill(leader.pid);
        replica.wait().await?;
        let renewed = wrappers.last_renewal().await?;
        let next = wrappers.nth_start(round + 1).await?;
        let now = incumbent::BootClock.now();
        let ago = Duration::from_nanos(now.mono.as_nanos().saturating_sub(next.at));
        let started = now.wall.as_micros() - i64::try_from(ago.as_micros())?;
        times.push(Duration::from_micros(u64::try_from(started - renewed.as_micros())?));
        wrappers.start()?;
    }
    ensure!(wrappers.overlaps() == 0, "two programs lived at one instant");
    wrappers.end().await?;
    Ok(Row::of("kill -9 of wrapper and child: last renewal → successor leads (lease 6 s)", times, bound))
}
