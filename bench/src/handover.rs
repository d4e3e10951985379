//! Planned moves between electors of one process.

use std::time::{Duration, Instant};

use anyhow::ensure;
use kube::Config;

use crate::fleet::{Fleet, Member};
use crate::stats::{Bound, Row};

/// From the end of the last task to the start of the successor's term.
pub(crate) async fn planned(config: &Config, name: &str, rounds: usize, bound: Bound) -> anyhow::Result<Row> {
    let mut fleet = Fleet::new(config, &lock("planned"));
    let settle = Duration::from_secs(3600);
    let first = fleet.join(0, "1.0.0", settle)?;
    let (mut leader, ..) = fleet.next_start().await?;
    let mut members = vec![first];
    for member in 1..3 {
        members.push(fleet.join(member, "1.0.0", settle)?);
    }
    fleet.announced(&members[0], 3).await?;
    let mut gaps = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        members[leader].handle.step_down();
        let (next, at, ended) = fleet.next_start().await?;
        ensure!(next != leader, "the lock did not move");
        let ended = ended.ok_or_else(|| anyhow::anyhow!("a term started before the one before had ended"))?;
        ensure!(ended <= at, "two terms at once");
        gaps.push(at - ended);
        leader = next;
        // The one that stepped down is a candidate again once it has seen another lead.
        fleet.announced(&members[leader], 3).await?;
    }
    stop(members).await?;
    Ok(Row::of(name, gaps, bound))
}

/// From the start of a better candidate's process to its lead.
pub(crate) async fn better(config: &Config, name: &str, rounds: usize, bound: Bound) -> anyhow::Result<Row> {
    let mut fleet = Fleet::new(config, &lock("better"));
    let worse = fleet.join(0, "1.1.0", Duration::ZERO)?;
    fleet.next_start().await?;
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let appears = Instant::now();
        let better = fleet.join(1 + round, "1.0.0", Duration::ZERO)?;
        let (leader, at, _) = fleet.next_start().await?;
        ensure!(leader == 1 + round, "somebody else leads");
        times.push(at - appears);
        better.stop().await?;
        let (leader, ..) = fleet.next_start().await?;
        ensure!(leader == 0, "nobody took the lock back");
    }
    worse.stop().await?;
    Ok(Row::of(name, times, bound))
}

async fn stop(members: Vec<Member>) -> anyhow::Result<()> {
    for member in members {
        member.stop().await?;
    }
    Ok(())
}

/// A name that no run before has used.
fn lock(what: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("default/bench-{what}-{}", now.as_millis())
}
