//! People look at locks with kubectl, write on them, delete and wipe them, while they are held.

use std::time::Duration;

use anyhow::ensure;

use crate::interop::fleet::{BUSY, Fleet, LEASE};
use crate::interop::journal;
use crate::interop::millis;
use crate::interop::site::Site;

/// What kubectl shows is right, and what people write survives renewals.
pub(super) fn kubectl(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/people")?;
    fleet.run(|fleet| {
        fleet.start("a", "1.0.0")?;
        fleet.announced()?;
        let leader = fleet.leader("somebody to lead", |_| true)?;
        for arguments in [&["get", "lease", "people"] as &[&str], &["get", "leases"]] {
            let table = site.kubectl(arguments)?;
            ensure!(table.contains("HOLDER") && table.contains(&leader.identity), "{table}");
        }
        let text = site.kubectl(&["describe", "lease", "people"])?;
        ensure!(text.contains("Holder Identity") && text.contains(&leader.identity), "{text}");
        site.kubectl(&["annotate", "lease", "people", "team=search"])?;
        site.kubectl(&["label", "lease", "people", "tier=one"])?;
        renewed(fleet)?;
        renewed(fleet)?;
        let metadata = &site.lease(&fleet.lock)?["metadata"];
        ensure!(metadata["annotations"]["team"] == "search", "an annotation is gone: {metadata}");
        ensure!(metadata["labels"]["tier"] == "one", "a label is gone: {metadata}");
        site.kubectl(&["annotate", "lease", "people", "team-"])?;
        renewed(fleet)?;
        let metadata = &site.lease(&fleet.lock)?["metadata"];
        ensure!(metadata["annotations"]["team"].is_null(), "an annotation is back: {metadata}");
        let status = fleet.status()?;
        ensure!(status["holder"] == leader.identity.as_str(), "{status}");
        ensure!(status["candidates"][0]["binaryVersion"] == "1.0.0", "{status}");
        ensure!(fleet.lives().len() == 1, "the term ended: {:#?}", fleet.lives());
        fleet.finish()?;
        site.kubectl(&["delete", "lease", "people"])?;
        ensure!(site.lease(&fleet.lock).is_err(), "the lease is still there");
        Ok("get, describe, annotate, label, delete".to_owned())
    })
}

/// A held lock is deleted: the holder creates it again and works on; the others stay candidates.
pub(super) fn deleted(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/deleted")?;
    fleet.run(|fleet| {
        for name in ["a", "b"] {
            fleet.start(name, "1.0.0")?;
        }
        fleet.announced()?;
        let leader = fleet.leader("somebody to lead", |_| true)?;
        let uid = site.lease(&fleet.lock)?["metadata"]["uid"].clone();
        site.kubectl(&["delete", "lease", "deleted"])?;
        let began = journal::now();
        fleet.until_seen("the holder to create the lock again", |f| {
            let lease = site.lease(&f.lock).ok()?;
            let again = lease["spec"]["holderIdentity"] == leader.identity.as_str();
            (again && lease["metadata"]["uid"] != uid).then_some(())
        })?;
        let took = journal::now().saturating_sub(began);
        fleet.announced()?;
        renewed(fleet)?;
        renewed(fleet)?;
        let lives = fleet.lives();
        ensure!(lives.len() == 1 && lives[0].asked.is_none(), "the term did not go on: {lives:#?}");
        // It is a lock like any other again: the next one is handed it.
        fleet.stop(&leader.name)?;
        fleet.leader("the other one to lead", |life| life.name != leader.name)?;
        Ok(format!("there again within {}, the same term", millis(took)))
    })
}

/// The holder of a held lock is wiped or overwritten: work ends, then somebody leads again, after the waits.
pub(super) fn wiped(site: &Site) -> anyhow::Result<String> {
    let fleet = Fleet::new(site, "default/wiped")?;
    fleet.run(|fleet| {
        for name in ["a", "b"] {
            fleet.start(name, "1.0.0")?;
        }
        fleet.announced()?;
        fleet.leader("somebody to lead", |_| true)?;
        let mut saw = Vec::new();
        // The first two are free, the third one is held by somebody who never renews.
        for (nth, holder) in [r#""""#, "null", r#""stranger""#].into_iter().enumerate() {
            let patch = format!(r#"{{"spec":{{"holderIdentity":{holder}}}}}"#);
            let began = journal::now();
            site.kubectl(&["patch", "lease", "wiped", "--type=merge", "-p", &patch])?;
            let next = fleet.until("a new term", |f| f.lives().get(nth + 1).cloned())?;
            let took = next.started.saturating_sub(began);
            // docs/protocol.md §12, I6; kubectl took its time, too.
            let bound = LEASE + Duration::from_secs(4) + BUSY;
            ensure!(took <= bound, "without a leader for {} after holder {holder}", millis(took));
            if nth == 2 {
                ensure!(took >= LEASE, "took a held lock over after {}", millis(took));
            }
            saw.push(format!("{holder}: led again after {}", millis(took)));
            // The writes of the new term have to be there before the next stranger comes.
            renewed(fleet)?;
        }
        Ok(saw.join(", "))
    })
}

/// Waits for one renewal.
fn renewed(fleet: &Fleet<'_>) -> anyhow::Result<()> {
    let stamp = |f: &Fleet<'_>| Some(f.site.lease(&f.lock).ok()?["spec"]["renewTime"].clone());
    let before = fleet.until_seen("the lock", stamp)?;
    fleet.until_seen("a renewal", |f| stamp(f).filter(|now| *now != before).map(drop))
}
