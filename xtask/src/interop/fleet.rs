//! Replicas of `incumbent run` on one lock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::journal::{self, Life};
use super::site::Site;
use crate::interrupt;
use crate::peers::{POLL, Process};

/// Nothing takes this long, however slow the machine.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// What a busy machine may add to a bound on how prompt something is. The measurements proper are benches.
pub(super) const BUSY: Duration = Duration::from_secs(2);

/// How long a lease of profile `fast` stays valid, and how much longer others wait for clocks to differ.
pub(super) const LEASE: Duration = Duration::from_secs(6);
pub(super) const SKEW: Duration = Duration::from_millis(30);

/// How often a condition is looked at that takes a process to look at.
const LOOK: Duration = Duration::from_millis(100);

/// Replicas on one lock. Dropped, they are killed.
pub(super) struct Fleet<'s> {
    pub(super) site: &'s Site,
    pub(super) lock: String,
    pub(super) folder: PathBuf,
    /// What the led programs write down.
    pub(super) journal: PathBuf,
    kubeconfig: PathBuf,
    replicas: BTreeMap<String, Process>,
    /// All names that ever were, for their logs.
    names: Vec<String>,
}

impl<'s> Fleet<'s> {
    /// No replica yet; `lock` is NAMESPACE/NAME, `kubeconfig` whose rights they have.
    pub(super) fn with_rights_of(site: &'s Site, lock: &str, kubeconfig: &Path) -> anyhow::Result<Self> {
        let folder = site.folder.join(lock.replace('/', "-"));
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self {
            site,
            lock: lock.to_owned(),
            journal: folder.join("journal"),
            kubeconfig: kubeconfig.to_owned(),
            folder,
            replicas: BTreeMap::new(),
            names: Vec::new(),
        })
    }

    /// No replica yet; they may do everything.
    pub(super) fn new(site: &'s Site, lock: &str) -> anyhow::Result<Self> {
        Self::with_rights_of(site, lock, &site.kubeconfig)
    }

    /// Starts a replica that leads the program that keeps the journal.
    pub(super) fn start(&mut self, name: &str, version: &str) -> anyhow::Result<()> {
        self.start_ending(name, version, Duration::from_millis(100))
    }

    /// The same with work that takes this long to end.
    pub(super) fn start_ending(&mut self, name: &str, version: &str, end: Duration) -> anyhow::Result<()> {
        let words: Vec<OsString> = vec![
            self.site.program.clone().into(),
            "__demo-worker".into(),
            self.journal.clone().into(),
            version.into(),
            end.as_millis().to_string().into(),
        ];
        self.start_leading(name, version, &words)
    }

    /// Starts a replica that leads `words`.
    pub(super) fn start_leading(
        &mut self,
        name: &str,
        version: &str,
        words: &[OsString],
    ) -> anyhow::Result<()> {
        ensure!(!self.replicas.contains_key(name), "{name} runs already");
        let mut command = Command::new(&self.site.program);
        command.args(["run", "--lock", &self.lock, "--identity", name]);
        command.args(["--profile", "fast", "--settle", "0s"]);
        command.args(["--binary-version", version, "--strategy", "OldestEmulationVersion"]);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--").args(words);
        let process = Process::start(name, &self.folder, command)?;
        self.replicas.insert(name.to_owned(), process);
        self.names.push(name.to_owned());
        Ok(())
    }

    /// What replicas of this name logged.
    pub(super) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default()
    }

    /// All lives so far, in the order of their beginnings.
    pub(super) fn lives(&self) -> Vec<Life> {
        journal::lives(&self.journal)
    }

    /// What `incumbent status` says.
    pub(super) fn status(&self) -> anyhow::Result<Value> {
        self.site.status(&self.lock)
    }

    /// The identity in the lock, if there is one.
    pub(super) fn holder(&self) -> Option<String> {
        let lease = self.site.lease(&self.lock).ok()?;
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }

    /// Waits until `condition` gives something.
    pub(super) fn until<T>(
        &self,
        what: &str,
        condition: impl FnMut(&Self) -> Option<T>,
    ) -> anyhow::Result<T> {
        self.until_every(POLL, what, condition)
    }

    /// The same for a condition that starts a process to look.
    pub(super) fn until_seen<T>(
        &self,
        what: &str,
        condition: impl FnMut(&Self) -> Option<T>,
    ) -> anyhow::Result<T> {
        self.until_every(LOOK, what, condition)
    }

    fn until_every<T>(
        &self,
        pause: Duration,
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
                bail!("waited {} s in vain for {what}", LIMIT.as_secs());
            }
            thread::sleep(pause);
        }
    }

    /// Waits until somebody has taken the lock over from `dead`, which no longer lives; returns when `dead` renewed it
    /// for the last time, too. A renewal may have been on its way, so the last one that is stored counts.
    pub(super) fn taken_over<T>(
        &self,
        dead: &str,
        mut condition: impl FnMut(&Self) -> Option<T>,
    ) -> anyhow::Result<(Duration, T)> {
        let mut renewed = None;
        let found = self.until_seen(&format!("the lock of {dead} to be taken over"), |f| {
            if let Ok(lease) = f.site.lease(&f.lock)
                && lease["spec"]["holderIdentity"] == dead
                && let Some(stamp) = lease["spec"]["renewTime"].as_str()
            {
                renewed = journal::at_stamp(stamp);
            }
            condition(f)
        })?;
        Ok((renewed.with_context(|| format!("the lock never named {dead}"))?, found))
    }

    /// Waits until the last life is one of a replica of which `right` holds, and goes on.
    pub(super) fn leader(&self, what: &str, right: impl Fn(&Life) -> bool) -> anyhow::Result<Life> {
        self.until(what, |f| {
            let last = f.lives().pop()?;
            (f.replicas.contains_key(&last.name) && last.asked.is_none() && right(&last)).then_some(last)
        })
    }

    /// Waits until all replicas that run stand as candidates.
    pub(super) fn announced(&self) -> anyhow::Result<()> {
        let running: Vec<&String> = self.replicas.keys().collect();
        self.until_seen(&format!("{running:?} to be candidates"), |f| {
            let candidates = f.candidates().ok()?;
            running.iter().all(|name| candidates.contains(name)).then_some(())
        })
    }

    /// The names of those that have announced themselves on the lock.
    pub(super) fn candidates(&self) -> anyhow::Result<Vec<String>> {
        let status = self.status()?;
        let candidates = status["candidates"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(candidates.iter().filter_map(|c| c["name"].as_str()).map(str::to_owned).collect())
    }

    /// Sends TERM and waits for the end, which has to be that of who was asked to: exit code 0.
    pub(super) fn stop(&mut self, name: &str) -> anyhow::Result<Duration> {
        let process = self.replicas.remove(name).with_context(|| format!("{name} does not run"))?;
        let start = Instant::now();
        let status = process.stop(LIMIT)?;
        ensure!(status.success(), "{name} ended with {status} after TERM");
        Ok(start.elapsed())
    }

    /// Kills a replica and the program it leads.
    pub(super) fn kill(&mut self, name: &str, program: i32) -> anyhow::Result<()> {
        let mut process = self.replicas.remove(name).with_context(|| format!("{name} does not run"))?;
        process.kill()?;
        if let Some(pid) = Pid::from_raw(program) {
            // It may have died with the replica already.
            let _ = kill_process(pid, Signal::KILL);
        }
        Ok(())
    }

    /// Sends a signal to a replica, not to what it leads.
    pub(super) fn signal(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        self.replicas.get(name).with_context(|| format!("{name} does not run"))?.signal(signal)
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

    /// Stops all replicas, followers first; fails if programs overlapped, or a replica did not stop as it should.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let leader = self.lives().pop().map(|life| life.name);
        let mut names: Vec<String> = self.replicas.keys().cloned().collect();
        names.sort_by_key(|name| Some(name) == leader.as_ref());
        for name in names {
            self.stop(&name)?;
        }
        journal::exclusive(&self.lives())
    }

    /// Runs `steps` and [`Self::finish`]; an error brings the ends of the logs along.
    pub(super) fn run<T>(mut self, steps: impl FnOnce(&mut Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let outcome = steps(&mut self).and_then(|seen| self.finish().map(|()| seen));
        outcome.map_err(|error| {
            let mut names = std::mem::take(&mut self.names);
            names.sort();
            names.dedup();
            let logs: Vec<String> =
                names.iter().map(|n| format!("--- {n}\n{}", tail(&self.log(n)))).collect();
            anyhow!("{error:#}\n{}", logs.join("\n"))
        })
    }
}

/// The last lines of a log.
pub(super) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
