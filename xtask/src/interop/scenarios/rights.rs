//! The rights of a client-go elector are enough; what is missing is reported.

use anyhow::ensure;

use crate::interop::fleet::{Fleet, tail};
use crate::interop::journal::graceful_gaps;
use crate::interop::millis;
use crate::interop::site::Site;
use crate::peers::{Rights, User};

/// With get, create and update on one Lease it polls; with watch and patch, too, it does not. Both elect the same.
pub(super) fn run(site: &Site) -> anyhow::Result<String> {
    let cluster = site.as_cluster()?;
    let mut saw = Vec::new();
    for rights in [Rights::Named, Rights::Watchful] {
        let lock = format!("default/{}", rights.name());
        cluster.grant(rights, &lock.parse().map_err(anyhow::Error::msg)?)?;
        let kubeconfig = cluster.kubeconfig(User::Elector(rights));
        let fleet = Fleet::with_rights_of(site, &lock, &kubeconfig)?;
        saw.push(fleet.run(|fleet| {
            for name in ["a", "b"] {
                fleet.start(name, "1.1.0")?;
            }
            fleet.announced()?;
            fleet.leader("somebody to lead", |_| true)?;
            // The older version is handed the lock, and hands it back.
            fleet.start("c", "1.0.0")?;
            fleet.leader("the older version to lead", |life| life.name == "c")?;
            fleet.announced()?;
            fleet.stop("c")?;
            fleet.leader("the newer version to lead", |life| life.version == "1.1.0")?;
            for name in ["a", "b", "c"] {
                let log = fleet.log(name);
                let polls = log.contains("cannot watch the lock: polling it");
                ensure!(polls == (rights == Rights::Named), "{name} of {}:\n{}", rights.name(), tail(&log));
            }
            let gaps: Vec<String> = graceful_gaps(&fleet.lives())?.into_iter().map(millis).collect();
            Ok(format!("{}: {} without work", rights.name(), gaps.join(", ")))
        })?);
    }
    Ok(saw.join("; "))
}
