//! Replicas of `incumbent run` on one lock, and what the program that they lead wrote down.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Site;
use crate::interrupt;
use crate::peers::{POLL, Process};

/// Nothing takes this long, however slow the machine.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// The life of one led program, as it wrote it down itself.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) pid: i32,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) ended: bool,
}

/// Replicas on one lock. Dropped, they are killed.
pub(super) struct Fleet<'s> {
    site: &'s Site,
    pub(super) lock: String,
    kubeconfig: PathBuf,
    pub(super) folder: PathBuf,
    replicas: BTreeMap<String, Process>,
}

impl<'s> Fleet<'s> {
    /// No replica yet; `lock` is NAMESPACE/NAME, `kubeconfig` whose rights they have.
    pub(super) fn new(site: &'s Site, lock: &str, kubeconfig: &Path) -> anyhow::Result<Self> {
        let folder = site.folder.join(lock.replace('/', "-"));
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self {
            site,
            lock: lock.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            folder,
            replicas: BTreeMap::new(),
        })
    }

    fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// Starts a replica that leads the program that keeps the journal.
    pub(super) fn start(&mut self, name: &str, version: &str, extra: &[&str]) -> anyhow::Result<()> {
        let words: Vec<OsString> = vec![
            self.site.program.clone().into(),
            "__demo-worker".into(),
            self.journal().into(),
            version.into(),
            "200".into(),
        ];
        self.start_leading(name, version, extra, &words)
    }

    /// Starts a replica that leads `words`.
    pub(super) fn start_leading(
        &mut self,
        name: &str,
        version: &str,
        extra: &[&str],
        words: &[OsString],
    ) -> anyhow::Result<()> {
        let mut command = Command::new(&self.site.program);
        command.args([
            "run",
            "--lock",
            &self.lock,
            "--identity",
            name,
            "--profile",
            "fast",
            "--settle",
            "0s",
        ]);
        command.args(["--binary-version", version, "--strategy", "OldestEmulationVersion"]);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(extra).arg("--").args(words);
        let process = Process::start(name, &self.folder, command)?;
        self.replicas.insert(name.to_owned(), process);
        Ok(())
    }

    /// What replicas logged.
    pub(super) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default()
    }

    fn entries(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.journal()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// All lives so far, in the order of their beginnings.
    pub(super) fn lives(&self) -> Vec<Life> {
        let mut lives: Vec<Life> = Vec::new();
        for entry in self.entries() {
            let pid = entry["pid"].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or_default();
            let started = &entry["event"]["started"];
            if let Some(identity) = started["identity"].as_str() {
                let name = identity.rsplit_once('_').map_or(identity, |(name, _)| name).to_owned();
                let version = started["version"].as_str().unwrap_or_default().to_owned();
                lives.push(Life { pid, name, version, ended: false });
            } else if entry["event"] == "ended"
                && let Some(life) = lives.iter_mut().rev().find(|l| l.pid == pid)
            {
                life.ended = true;
            }
        }
        lives
    }

    /// Fails if two programs ever lived at one instant, as they found out themselves.
    pub(super) fn no_overlap(&self) -> anyhow::Result<()> {
        let overlaps =
            self.entries().iter().filter(|e| e["event"]["started"]["overlap"] == Value::Bool(true)).count();
        ensure!(overlaps == 0, "two programs lived at one instant, {overlaps} times");
        Ok(())
    }

    /// Waits until `condition` gives something.
    pub(super) fn until<T>(
        &self,
        what: &str,
        mut condition: impl FnMut(&Self) -> Option<T>,
    ) -> anyhow::Result<T> {
        let start = Instant::now();
        loop {
            interrupt::check()?;
            if let Some(found) = condition(self) {
                return Ok(found);
            }
            if start.elapsed() > LIMIT {
                let logs: Vec<String> =
                    self.replicas.keys().map(|n| format!("{n}:\n{}", tail(&self.log(n)))).collect();
                bail!("waited {} s in vain for {what}\n{}", LIMIT.as_secs(), logs.join("\n"));
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until the last life is one of a replica of which `right` holds, and goes on.
    pub(super) fn leader(&self, what: &str, right: impl Fn(&Life) -> bool) -> anyhow::Result<Life> {
        self.until(what, |f| {
            let last = f.lives().pop()?;
            (f.replicas.contains_key(&last.name) && !last.ended && right(&last)).then_some(last)
        })
    }

    /// Waits until this many candidates stand on the lock.
    pub(super) fn announced(&self, n: usize) -> anyhow::Result<()> {
        let (namespace, name) = self.lock.split_once('/').unwrap_or(("default", &self.lock));
        self.until("the candidates to announce themselves", |f| {
            let text = f.site.kubectl(&["get", "lease", "-n", namespace, name, "-o", "json"]).ok()?;
            (text.matches("candidate.incumbent.dev/").count() >= n).then_some(())
        })
    }

    /// Sends TERM and waits for the end.
    pub(super) fn stop(&mut self, name: &str) -> anyhow::Result<ExitStatus> {
        let process = self.replicas.remove(name).with_context(|| format!("{name} does not run"))?;
        process.stop(LIMIT)
    }

    /// Kills a replica and the program it leads.
    pub(super) fn kill(&mut self, life: &Life) -> anyhow::Result<()> {
        let mut process =
            self.replicas.remove(&life.name).with_context(|| format!("{} does not run", life.name))?;
        if let Some(pid) = Pid::from_raw(life.pid) {
            // It may have died with its guardian already.
            let _ = kill_process(pid, Signal::KILL);
        }
        process.kill().map(drop)
    }

    /// Waits for a replica that ends by itself.
    pub(super) fn wait(&mut self, name: &str) -> anyhow::Result<ExitStatus> {
        let mut process = self.replicas.remove(name).with_context(|| format!("{name} does not run"))?;
        let start = Instant::now();
        loop {
            interrupt::check()?;
            if let Some(status) = process.ended()? {
                return Ok(status);
            }
            ensure!(start.elapsed() < LIMIT, "{name} does not end");
            thread::sleep(POLL);
        }
    }

    /// Stops all replicas, each of which has to exit with 0; fails if programs overlapped.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        let names: Vec<String> = self.replicas.keys().cloned().collect();
        for name in names {
            let status = self.stop(&name)?;
            ensure!(status.success(), "{name} ended with {status}:\n{}", tail(&self.log(&name)));
        }
        self.no_overlap()
    }
}

/// The last lines of a log.
pub(super) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
