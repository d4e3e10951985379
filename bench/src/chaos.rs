//! Processes are stopped and killed and the network misbehaves, on several locks side by side: no two programs
//! of one lock ever live at one instant, as they find out themselves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::proxy::{Mode, Proxy};

/// The lease of the `fast` profile, and more than it: for how long things are stopped.
const LONGER_THAN_THE_LEASE: Duration = Duration::from_millis(7500);
/// How long anything may take to recover.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(clap::Args, Debug)]
pub(crate) struct Settings {
    /// The `incumbent` program.
    #[arg(long)]
    program: PathBuf,
    /// How many things are made to happen, on all locks together.
    #[arg(long, default_value_t = 1000)]
    events: usize,
    /// How many locks, side by side.
    #[arg(long, default_value_t = 8)]
    locks: usize,
    /// Chooses what happens.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What is made to happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    TermLeader,
    TermFollower,
    KillWrapper,
    KillGuardian,
    KillChild,
    KillWrapperAndChild,
    StopWrapper,
    StopGuardian,
    StopChild,
    StopServer,
    Swallow,
    SwallowAnswers,
    Delay,
    Reset,
}

const EVENTS: [Event; 14] = [
    Event::TermLeader,
    Event::TermFollower,
    Event::KillWrapper,
    Event::KillGuardian,
    Event::KillChild,
    Event::KillWrapperAndChild,
    Event::StopWrapper,
    Event::StopGuardian,
    Event::StopChild,
    Event::StopServer,
    Event::Swallow,
    Event::SwallowAnswers,
    Event::Delay,
    Event::Reset,
];

/// Carries it out; true if no two programs ever lived at once and every lock recovered.
pub(crate) async fn run(settings: &Settings) -> anyhow::Result<bool> {
    let folder = tempfile::Builder::new().prefix("incumbent-chaos-").tempdir()?;
    let server = Server::start(&settings.program, folder.path()).await?;
    let server = Arc::new(server);
    let left = Arc::new(AtomicUsize::new(settings.events));
    let mut sites = Vec::new();
    for n in 0..settings.locks {
        let site = Site::new(settings, folder.path(), n, Arc::clone(&server)).await?;
        let left = Arc::clone(&left);
        sites.push(tokio::spawn(site.run(left)));
    }
    let began = Instant::now();
    let mut counts: BTreeMap<Event, usize> = BTreeMap::new();
    let (mut terms, mut overlaps, mut failed) = (0, 0, 0);
    for site in sites {
        let outcome = site.await.context("a lock's task panicked")?;
        for (event, n) in outcome.counts {
            *counts.entry(event).or_default() += n;
        }
        terms += outcome.terms;
        overlaps += outcome.overlaps;
        if let Some(e) = outcome.error {
            failed += 1;
            eprintln!("lock {}: {e:#}", outcome.lock);
        }
    }
    let done: usize = counts.values().sum();
    for (event, n) in &counts {
        println!("{event:?}: {n}");
    }
    println!(
        "events: {done}, locks: {}, terms: {terms}, overlaps: {overlaps}, locks that did not recover: {failed}, seed: {}, {} s",
        settings.locks,
        settings.seed,
        began.elapsed().as_secs()
    );
    Ok(overlaps == 0 && failed == 0)
}

struct Server {
    process: Child,
    addr: SocketAddr,
    kubeconfig: String,
    /// One lock at a time stops it.
    turn: tokio::sync::Mutex<()>,
}

impl Server {
    async fn start(program: &Path, folder: &Path) -> anyhow::Result<Server> {
        let kubeconfig = folder.join("kubeconfig");
        let log = File::create(folder.join("server.log"))?;
        let process = Command::new(program)
            .args(["server", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .arg("--write-kubeconfig")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let limit = Instant::now() + LIMIT;
        while !kubeconfig.exists() {
            ensure!(Instant::now() < limit, "the server did not start");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let kubeconfig = fs::read_to_string(&kubeconfig)?;
        let (_, rest) = kubeconfig.split_once("https://").context("the kubeconfig names no server")?;
        let end = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
        let addr = rest[..end].parse().with_context(|| format!("server {:?}", &rest[..end]))?;
        Ok(Server { process, addr, kubeconfig, turn: tokio::sync::Mutex::new(()) })
    }
}

struct Outcome {
    lock: String,
    counts: BTreeMap<Event, usize>,
    terms: usize,
    overlaps: usize,
    error: Option<anyhow::Error>,
}

/// One lock: a proxy of its own, three replicas, and their journal.
struct Site {
    program: PathBuf,
    folder: PathBuf,
    lock: String,
    end_takes: &'static str,
    proxy: Proxy,
    server: Arc<Server>,
    replicas: BTreeMap<String, Child>,
    count: usize,
    random: u64,
    counts: BTreeMap<Event, usize>,
}

/// A program that has started.
#[derive(Clone, Debug)]
struct Started {
    pid: i32,
    name: String,
}

impl Site {
    async fn new(settings: &Settings, folder: &Path, n: usize, server: Arc<Server>) -> anyhow::Result<Site> {
        let folder = folder.join(format!("lock-{n}"));
        fs::create_dir(&folder)?;
        let proxy = Proxy::to(server.addr).await?;
        let kubeconfig = server.kubeconfig.replace(&server.addr.to_string(), &proxy.addr.to_string());
        fs::write(folder.join("kubeconfig"), kubeconfig)?;
        // Work that ends at once, work that takes a moment, and work that has to be killed.
        let end_takes = ["0", "300", "60000"][n % 3];
        Ok(Site {
            program: settings.program.clone(),
            folder,
            lock: format!("chaos-{n}"),
            end_takes,
            proxy,
            server,
            replicas: BTreeMap::new(),
            count: 0,
            random: settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(n as u64),
            counts: BTreeMap::new(),
        })
    }

    async fn run(mut self, left: Arc<AtomicUsize>) -> Outcome {
        let error = self.make_trouble(&left).await.err();
        let text = fs::read_to_string(self.folder.join("journal")).unwrap_or_default();
        let error = error.map(|e| {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(30).collect();
            e.context(tail.into_iter().rev().collect::<Vec<_>>().join("\n"))
        });
        for replica in self.replicas.values_mut() {
            // Ended already, or ended now.
            let _ = replica.kill().await;
        }
        Outcome {
            lock: self.lock,
            counts: self.counts,
            terms: text.matches("\"started\"").count(),
            overlaps: text.matches("\"overlap\":true").count(),
            error,
        }
    }

    async fn make_trouble(&mut self, left: &AtomicUsize) -> anyhow::Result<()> {
        self.refill()?;
        self.leader().await?;
        while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            let event = EVENTS[self.next_random() % EVENTS.len()];
            *self.counts.entry(event).or_default() += 1;
            self.happen(event).await.with_context(|| format!("{event:?}"))?;
            self.refill()?;
            self.leader().await.with_context(|| format!("after {event:?}"))?;
        }
        Ok(())
    }

    fn next_random(&mut self) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize
    }

    /// Starts replicas until there are three that run.
    fn refill(&mut self) -> anyhow::Result<()> {
        let mut gone = Vec::new();
        for (name, replica) in &mut self.replicas {
            if replica.try_wait()?.is_some() {
                gone.push(name.clone());
            }
        }
        for name in gone {
            self.replicas.remove(&name);
        }
        while self.replicas.len() < 3 {
            self.count += 1;
            let name = format!("r{}", self.count);
            let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
            let mut command = Command::new(&self.program);
            command.args(["run", "--lock", &self.lock, "--identity", &name, "--profile", "fast"]);
            command.args(["--drain-timeout", "2s"]).arg("--kubeconfig").arg(self.folder.join("kubeconfig"));
            command.arg("--").arg(&self.program).arg("__demo-worker").arg(self.folder.join("journal"));
            command.args(["1.0.0", self.end_takes]);
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
            self.replicas.insert(name, command.spawn()?);
        }
        Ok(())
    }

    fn starts(&self) -> Vec<Started> {
        let text = fs::read_to_string(self.folder.join("journal")).unwrap_or_default();
        let started = |line: &str| {
            let entry: Value = serde_json::from_str(line).ok()?;
            let identity = entry["event"]["started"]["identity"].as_str()?;
            let pid = i32::try_from(entry["pid"].as_i64()?).ok()?;
            Some(Started { pid, name: incumbent::core::name_of(identity).to_owned() })
        };
        text.lines().filter_map(started).collect()
    }

    /// Waits until a program lives whose replica lives, and goes on living for a moment.
    async fn leader(&mut self) -> anyhow::Result<Started> {
        let limit = Instant::now() + LIMIT;
        loop {
            if let Some(last) = self.starts().pop()
                && self.replicas.contains_key(&last.name)
                && runs(last.pid)
            {
                return Ok(last);
            }
            ensure!(Instant::now() < limit, "nobody leads");
            self.refill()?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn happen(&mut self, event: Event) -> anyhow::Result<()> {
        let leader = self.leader().await?;
        let wrapper = self.pid_of(&leader.name)?;
        match event {
            Event::TermLeader => self.terminate(&leader.name).await?,
            Event::TermFollower => {
                let follower = self.replicas.keys().find(|name| **name != leader.name).cloned();
                self.terminate(&follower.context("no follower")?).await?;
            }
            Event::KillWrapper => {
                send(wrapper, Signal::KILL);
                self.bury(&leader.name).await?;
            }
            Event::KillGuardian => {
                let guardian = guardian(wrapper);
                ensure!(guardian > 0, "no guardian was found");
                send(guardian, Signal::KILL);
            }
            Event::KillChild => {
                send(leader.pid, Signal::KILL);
                // Its `run` ends with it, unless its term had just ended.
                let limit = Instant::now() + Duration::from_secs(5);
                let replica = self.replicas.get_mut(&leader.name).context("who led?")?;
                while replica.try_wait()?.is_none() && Instant::now() < limit {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Event::KillWrapperAndChild => {
                send(wrapper, Signal::KILL);
                send(leader.pid, Signal::KILL);
                self.bury(&leader.name).await?;
            }
            Event::StopWrapper => stop(wrapper).await,
            Event::StopGuardian => {
                let guardian = guardian(wrapper);
                ensure!(guardian > 0, "no guardian was found");
                stop(guardian).await;
            }
            Event::StopChild => stop(leader.pid).await,
            Event::StopServer => {
                let server = Arc::clone(&self.server);
                let _turn = server.turn.lock().await;
                stop(server.process.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default()).await;
            }
            Event::Swallow => self.misbehave(Mode::Swallow).await,
            Event::SwallowAnswers => self.misbehave(Mode::SwallowAnswers).await,
            Event::Delay => self.misbehave(Mode::Delay).await,
            Event::Reset => self.misbehave(Mode::Reset).await,
        }
        Ok(())
    }

    async fn misbehave(&mut self, mode: Mode) {
        // Sometimes shorter than the renew deadline, sometimes longer than the lease.
        let span = Duration::from_millis(500 + (self.next_random() % 8000) as u64);
        self.proxy.set(mode);
        tokio::time::sleep(span).await;
        self.proxy.set(Mode::Pass);
    }

    fn pid_of(&self, name: &str) -> anyhow::Result<i32> {
        let id = self.replicas.get(name).and_then(Child::id).context("the replica has ended")?;
        Ok(i32::try_from(id)?)
    }

    /// Waits for the end of a replica that was killed.
    async fn bury(&mut self, name: &str) -> anyhow::Result<()> {
        let Some(mut replica) = self.replicas.remove(name) else { return Ok(()) };
        tokio::time::timeout(LIMIT, replica.wait())
            .await
            .with_context(|| format!("{name} does not end"))??;
        Ok(())
    }

    async fn terminate(&mut self, name: &str) -> anyhow::Result<()> {
        let pid = self.pid_of(name)?;
        send(pid, Signal::TERM);
        let Some(mut replica) = self.replicas.remove(name) else { return Ok(()) };
        match tokio::time::timeout(LIMIT, replica.wait()).await {
            Ok(status) => {
                let status = status?;
                ensure!(status.success(), "{name} ended with {status} instead of 0");
            }
            Err(_) => bail!("{name} does not end"),
        }
        Ok(())
    }
}

/// It may have ended by itself meanwhile.
fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) {
        let _ = kill_process(pid, signal);
    }
}

async fn stop(pid: i32) {
    send(pid, Signal::STOP);
    tokio::time::sleep(LONGER_THAN_THE_LEASE).await;
    send(pid, Signal::CONT);
}

/// The process that guards the command of a wrapper: its only child. Not every kernel lists children, so this
/// looks at all processes.
fn guardian(wrapper: i32) -> i32 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .find(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' '));
            fields.and_then(|mut f| f.nth(1)?.parse().ok()) == Some(wrapper)
        })
        .unwrap_or_default()
}

/// Whether a process lives: it is there, and not only waiting to be reaped.
fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
