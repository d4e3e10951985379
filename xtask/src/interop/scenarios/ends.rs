//! Ends of replicas and of the programs that they lead.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use crate::interop::fleet::{BUSY, Fleet, LEASE, SKEW, tail};
use crate::interop::journal::{self, graceful_gaps};
use crate::interop::millis;
use crate::interop::site::Site;

/// The journal can fail: programs on two locks that live at one instant are found out.
pub(super) fn witness(site: &Site) -> anyhow::Result<String> {
    let mut one = Fleet::new(site, "default/witness-one")?;
    let mut other = Fleet::new(site, "default/witness-other")?;
    other.journal.clone_from(&one.journal);
    one.start("a", "1.0.0")?;
    one.leader("the one to lead", |_| true)?;
    other.start("b", "1.0.0")?;
    other.leader("the other one to lead", |life| life.name == "b")?;
    ensure!(
        journal::exclusive(&one.lives()).is_err(),
        "two programs live, and nobody noticed: {:#?}",
        one.lives()
    );
    one.stop("a")?;
    other.stop("b")?;
    Ok("an overlap is found".to_owned())
}

/// Wrapper and program are killed together: another one leads once the lease has run out, and not before.
pub(super) fn killed(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/killed")?;
    fleet.run(|fleet| {
        for name in ["a", "b", "c"] {
            fleet.start(name, "1.0.0")?;
        }
        fleet.announced()?;
        let leader = fleet.leader("somebody to lead", |_| true)?;
        fleet.kill(&leader.name, leader.pid)?;
        let (renewed, next) = fleet.taken_over(&leader.identity, |f| {
            f.lives().pop().filter(|life| life.identity != leader.identity)
        })?;
        let waited = next.started.checked_sub(renewed).context("it led before the last renewal")?;
        ensure!(waited >= LEASE, "took the lock over {} after a renewal", millis(waited));
        let bound = LEASE + SKEW + Duration::from_millis(1500);
        ensure!(waited <= bound + BUSY, "led only {} after the last renewal", millis(waited));
        Ok(format!("led {} after the last renewal (bound {})", millis(waited), millis(bound)))
    })
}

/// TERM to a follower: it leaves no trace. TERM to the leader: its work ends, and the next one starts at once.
pub(super) fn told_to_stop(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/told")?;
    fleet.run(|fleet| {
        fleet.start("leader", "1.0.0")?;
        fleet.leader("the only one to lead", |life| life.name == "leader")?;
        for name in ["first", "second"] {
            fleet.start(name, "1.0.0")?;
        }
        fleet.announced()?;
        let took = fleet.stop("first")?;
        ensure!(took < Duration::from_secs(1) + BUSY, "a follower took {} to stop", millis(took));
        let candidates = fleet.candidates()?;
        ensure!(!candidates.contains(&"first".to_owned()), "its record is still there: {candidates:?}");
        ensure!(fleet.lives().len() == 1, "a follower's program ran: {:#?}", fleet.lives());
        fleet.stop("leader")?;
        let next = fleet.leader("the follower to lead", |life| life.name == "second")?;
        let lease = fleet.site.lease(&fleet.lock)?;
        ensure!(lease["spec"]["holderIdentity"] == next.identity.as_str(), "{lease}");
        let candidates = fleet.candidates()?;
        ensure!(candidates == ["second"], "records of those that left are still there: {candidates:?}");
        let gaps = graceful_gaps(&fleet.lives())?;
        ensure!(gaps.iter().all(|gap| *gap < Duration::from_secs(1) + BUSY), "gaps of {gaps:?}");
        Ok(format!("follower gone in {}, leader handed over in {gaps:?}", millis(took)))
    })
}

/// Work that takes longer to end than a lease lasts is waited for: the holder renews until it has ended.
pub(super) fn slow_drain(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/drain")?;
    fleet.run(|fleet| {
        let end = LEASE + Duration::from_secs(2);
        fleet.start_ending("slow", "1.0.0", end)?;
        fleet.leader("the only one to lead", |_| true)?;
        fleet.start("next", "1.0.0")?;
        fleet.announced()?;
        let took = fleet.stop("slow")?;
        ensure!(took >= end, "it ended after {}, before its work had", millis(took));
        fleet.leader("the next one to lead", |life| life.name == "next")?;
        let gaps = graceful_gaps(&fleet.lives())?;
        ensure!(gaps.iter().all(|gap| *gap < Duration::from_secs(1) + BUSY), "gaps of {gaps:?}");
        Ok(format!("work ended in {}, handed over in {gaps:?}", millis(took)))
    })
}

/// The process that renews is stopped for longer than a lease: its program ends all the same, before another one
/// starts; woken up, the replica is a candidate like any other.
pub(super) fn paused(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/paused")?;
    fleet.run(|fleet| {
        for name in ["a", "b"] {
            fleet.start(name, "1.0.0")?;
        }
        fleet.announced()?;
        let leader = fleet.leader("somebody to lead", |_| true)?;
        fleet.signal(&leader.name, Signal::STOP)?;
        let (renewed, next) = fleet.taken_over(&leader.identity, |f| {
            f.lives().pop().filter(|life| life.identity != leader.identity)
        })?;
        let waited = next.started.checked_sub(renewed).context("it led before the last renewal")?;
        ensure!(waited >= LEASE, "took the lock over {} after a renewal", millis(waited));
        let lives = fleet.lives();
        let ended = lives[0].ended.context("the program of the stopped replica did not end its work")?;
        fleet.signal(&leader.name, Signal::CONT)?;
        fleet.announced()?;
        fleet.stop(&next.name)?;
        fleet.leader("the one that was stopped to lead again", |life| life.name == leader.name)?;
        Ok(format!(
            "work ended {} after the last renewal, the next one led after {}",
            millis(ended.saturating_sub(renewed)),
            millis(waited)
        ))
    })
}

/// The code of a program that ends by itself is that of `run`, and the lock is free at once.
pub(super) fn exit_codes(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/codes")?;
    fleet.run(|fleet| {
        let cases =
            [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)];
        for (script, code) in cases {
            let words: Vec<OsString> = ["sh", "-c", script].map(OsString::from).into();
            fleet.start_leading("one", "1.0.0", &words)?;
            let status = fleet.wait("one")?;
            ensure!(
                status.code() == Some(code),
                "{script}: {status} instead of {code}: {}",
                tail(&fleet.log("one"))
            );
            let holder = fleet.holder();
            ensure!(holder.is_none(), "the lock is still held by {holder:?}");
        }
        Ok(format!("{} ends", cases.len()))
    })
}

/// A program ends by itself while others wait: one of them leads at once.
pub(super) fn own_end(site: &Site) -> anyhow::Result<String> {
    let mut saw = Vec::new();
    for (lock, end, code) in [("default/code", "exit 7", 7), ("default/signal", "kill -9 $$", 137)] {
        let fleet = Fleet::new(site, lock)?;
        saw.push(fleet.run(|fleet| {
            let trigger = fleet.folder.join("trigger");
            let script = format!("while [ ! -e \"$0\" ]; do sleep 0.02; done; {end}");
            let mut words: Vec<OsString> = ["sh", "-c", &script].map(OsString::from).into();
            words.push(trigger.clone().into());
            fleet.start_leading("brief", "1.0.0", &words)?;
            fleet.until_seen("it to lead", |f| f.holder())?;
            fleet.start("next", "1.0.0")?;
            fleet.announced()?;
            let took = ends_and_next_leads(fleet, &trigger, code)?;
            Ok(format!("{code}: next led after {}", millis(took)))
        })?);
    }
    Ok(saw.join(", "))
}

fn ends_and_next_leads(fleet: &mut Fleet<'_>, trigger: &Path, code: i32) -> anyhow::Result<Duration> {
    let pulled = journal::now();
    fs::write(trigger, "")?;
    let next = fleet.leader("the next one to lead", |life| life.name == "next")?;
    let took = next.started.checked_sub(pulled).context("led before the other had ended")?;
    ensure!(took < Duration::from_secs(2) + BUSY, "led only {} after the end", millis(took));
    let status = fleet.wait("brief")?;
    ensure!(status.code() == Some(code), "{status} instead of {code}: {}", tail(&fleet.log("brief")));
    Ok(took)
}
