//! Replicas of one version are replaced by those of another.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::interop::fleet::{BUSY, Fleet, LIMIT};
use crate::interop::journal::{self, graceful_gaps};
use crate::interop::millis;
use crate::interop::site::Site;
use crate::interrupt;
use crate::peers::{POLL, Process};

const REPLICAS: [&str; 3] = ["a", "b", "c"];

/// The demonstration checks itself.
pub(super) fn demo(site: &Site) -> anyhow::Result<String> {
    let mut command = Command::new(&site.program);
    command.args(["demo", "--cluster", "--kubeconfig"]).arg(&site.kubeconfig);
    let mut process = Process::start("demo", &site.folder, command)?;
    let began = Instant::now();
    let status = loop {
        interrupt::check()?;
        if let Some(status) = process.ended()? {
            break status;
        }
        ensure!(began.elapsed() < 2 * LIMIT, "it does not end:\n{}", process.output());
        thread::sleep(POLL);
    };
    let said = process.output();
    ensure!(status.success() && said.contains("overlaps: 0"), "{status}:\n{said}");
    Ok("no overlaps".to_owned())
}

/// The oldest version leads as long as a replica of it runs; nobody waits for a lease to run out.
pub(super) fn coordinated(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/upgrade")?;
    fleet.run(|fleet| {
        for name in REPLICAS {
            // One after the other, so that the first leads, and every replacement meets a leader.
            fleet.start(name, "1.0.0")?;
            fleet.announced()?;
            fleet.leader("the first to lead", |life| life.name == "a")?;
        }
        ensure!(fleet.lives().len() == 1, "the lead moved between equals: {:#?}", fleet.lives());
        let mut moves = 0;
        let mut last_old_stopped = Duration::ZERO;
        for name in REPLICAS {
            let led = fleet.leader("somebody to lead", |_| true)?.name == name;
            last_old_stopped = journal::now();
            fleet.stop(name)?;
            moves += usize::from(led);
            fleet.start(name, "1.1.0")?;
            fleet.announced()?;
            let oldest = if name == "c" { "1.1.0" } else { "1.0.0" };
            fleet.leader("the oldest version to lead", |life| life.version == oldest)?;
            let lives = fleet.lives();
            ensure!(lives.len() == moves + 1, "{moves} leaders were stopped, but {lives:#?}");
        }
        let lives = fleet.lives();
        let newer = lives.iter().filter(|life| life.version == "1.1.0");
        ensure!(
            newer.clone().all(|life| life.started > last_old_stopped),
            "a newer version led while an older one stood: {lives:#?}"
        );
        gaps(fleet)
    })
}

/// A replica of an older version appears: it is handed the lock at once, while the newer ones go on living.
pub(super) fn rollback(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/rollback")?;
    fleet.run(|fleet| {
        for name in ["a", "b"] {
            fleet.start(name, "1.1.0")?;
        }
        fleet.announced()?;
        fleet.leader("somebody to lead", |_| true)?;
        fleet.start("old", "1.0.0")?;
        fleet.leader("the older version to lead", |life| life.name == "old")?;
        // And back, once it has gone.
        fleet.stop("old")?;
        fleet.leader("a newer version to lead", |life| life.version == "1.1.0")?;
        ensure!(fleet.lives().len() == 3, "the lead moved more than twice: {:#?}", fleet.lives());
        gaps(fleet)
    })
}

fn gaps(fleet: &Fleet<'_>) -> anyhow::Result<String> {
    let mut gaps = graceful_gaps(&fleet.lives())?;
    gaps.sort();
    // A handover takes a write and its acknowledgement; what takes a second has waited for a timer.
    let (Some(shortest), Some(longest)) = (gaps.first(), gaps.last()) else {
        anyhow::bail!("nothing was handed over");
    };
    ensure!(*longest < Duration::from_secs(1) + BUSY, "without a leader for {}", millis(*longest));
    Ok(format!("{} handovers, {} to {} without work", gaps.len(), millis(*shortest), millis(*longest)))
}
