//! client-go and incumbent on one lock, in both roles.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::Value;

use crate::interop::fleet::{Fleet, LEASE, LIMIT};
use crate::interop::journal;
use crate::interop::millis;
use crate::interop::site::Site;
use crate::peers::{Process, Program, ensure_built};

/// A client-go elector that writes down its events.
struct ClientGo(Process);

impl ClientGo {
    fn start(fleet: &Fleet<'_>, elector: &Path, name: &str) -> anyhow::Result<Self> {
        let (namespace, lock) = fleet.lock.split_once('/').context("a lock has a namespace")?;
        let mut command = Command::new(elector);
        command.arg(format!("--kubeconfig={}", fleet.site.kubeconfig.display()));
        command.args([format!("--namespace={namespace}"), format!("--lock={lock}")]);
        command.args([format!("--identity={name}"), "--lease-duration=6s".into()]);
        command.args(["--renew-deadline=3s", "--retry-period=1s", "--release-on-cancel=true"]);
        if !fleet.site.is_cluster() {
            // Left to itself it sends protobuf, which the embedded server does not take.
            command.arg("--content-type=application/json");
        }
        Ok(Self(Process::start(name, &fleet.folder, command)?))
    }

    /// When it told of this event, on the journal's clock.
    fn when(&self, event: &str) -> Option<Duration> {
        let output = self.0.output();
        let told = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let nanos = told.filter(|e| e["event"] == event).find_map(|e| e["unixNanos"].as_u64())?;
        Some(journal::at_wall(Duration::from_nanos(nanos)))
    }
}

/// The lead goes to and fro: by release each way, and by a death each way. No two work at one instant.
pub(super) fn run(site: &Site) -> anyhow::Result<String> {
    let elector = ensure_built(Program::Elector)?;
    let fleet = Fleet::new(site, "default/mixed")?;
    fleet.run(|fleet| {
        let mut saw = Vec::new();
        fleet.start("first", "1.0.0")?;
        fleet.leader("ours to lead", |_| true)?;

        // Ours knows nobody to hand the lock to: client-go takes what was released.
        let go = ClientGo::start(fleet, &elector, "go-one")?;
        fleet.until("client-go to see ours lead", |_| go.when("leader"))?;
        ensure!(go.when("started").is_none(), "client-go works, and our program lives");
        fleet.stop("first")?;
        let started = fleet.until("client-go to lead", |_| go.when("started"))?;
        let ended = fleet.lives().last().and_then(|life| life.ended).context("our program lives")?;
        saw.push(gap("ours to client-go", ended, started)?);

        // client-go releases what ours follows.
        fleet.start("second", "1.0.0")?;
        fleet.announced()?;
        ensure!(fleet.lives().len() == 1, "two lead");
        go.0.signal(Signal::TERM)?;
        let next = fleet.leader("ours to lead again", |life| life.name == "second")?;
        let stopped = go.when("stopped").context("client-go's work goes on")?;
        saw.push(gap("client-go to ours", stopped, next.started)?);
        go.0.stop(LIMIT)?;

        // Ours dies; client-go waits for the lease to run out.
        let mut go = ClientGo::start(fleet, &elector, "go-two")?;
        fleet.until("client-go to see ours lead", |_| go.when("leader"))?;
        fleet.kill("second", next.pid)?;
        let (renewed, started) = fleet.taken_over(&next.identity, |_| go.when("started"))?;
        saw.push(expiry("ours killed to client-go", renewed, started)?);

        // client-go dies; ours waits for the lease to run out.
        fleet.start("third", "1.0.0")?;
        fleet.announced()?;
        ensure!(fleet.lives().len() == 2, "two lead: {:#?}", fleet.lives());
        go.0.kill()?;
        let (renewed, next) =
            fleet.taken_over("go-two", |f| f.lives().pop().filter(|life| life.name == "third"))?;
        saw.push(expiry("client-go killed to ours", renewed, next.started)?);
        Ok(saw.join(", "))
    })
}

fn gap(what: &str, ended: Duration, started: Duration) -> anyhow::Result<String> {
    let gap = started.checked_sub(ended).with_context(|| {
        format!("{what}: two worked at one instant, for {}", millis(ended.saturating_sub(started)))
    })?;
    Ok(format!("{what} {}", millis(gap)))
}

/// Who takes over from the dead waits for the whole lease.
fn expiry(what: &str, renewed: Duration, started: Duration) -> anyhow::Result<String> {
    let waited =
        started.checked_sub(renewed).with_context(|| format!("{what}: led before the last renewal"))?;
    ensure!(waited >= LEASE, "{what}: led {} after the last renewal", millis(waited));
    Ok(format!("{what} {} after the last renewal", millis(waited)))
}
