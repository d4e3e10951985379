//! What must hold once all is quiet: somebody leads, the right one, and nobody asks for more than it needs.

use super::LAST;
use crate::clock::SECOND;
use crate::world::World;

impl World {
    /// What must be true at the end of a run: I6, I8, I10.
    pub(crate) fn check_end(&mut self) {
        let Some(quiet) = self.quiet else { return };
        if let Some(since) = self.checks.leaderless_since {
            self.check_wait(since);
        }
        let settled = self.checks.excused_at.max(self.checks.last_start).max(quiet);
        if settled + LAST > self.now || !self.checks.violations.is_empty() {
            return;
        }
        if settled + LAST + 20 * SECOND < self.now && self.checks.announced_at + 20 * SECOND < self.now {
            self.check_leader_is_first();
        }
        self.check_idle_requests();
    }

    /// I8.
    fn check_leader_is_first(&mut self) {
        let leader = self.slots.iter().filter_map(|s| s.process.as_ref()).find(|p| p.term.is_some());
        let Some(leader) = leader.filter(|p| p.term.as_ref().is_some_and(|t| t.stopped.is_none())) else {
            return;
        };
        let (at, id) = (leader.at, leader.id.clone());
        let ranked = self.ranking(Some(&id));
        let Some(first) = ranked.first().filter(|r| r.eligible) else { return };
        let first = first.candidate.identity.clone();
        // What its judge has against it on its own clock, no record tells.
        let wall = self.slots[at.slot].clock.now(self.now);
        let barred = !self.scenario.gentle()
            && self.process(at).is_some_and(|p| {
                p.elector.ranking(wall).1.iter().any(|r| r.candidate.identity == first && !r.eligible)
            });
        // Damping doubles with each move back.
        let previous = self.checks.holders.iter().rev().nth(1).is_some_and(|(h, _)| *h == first);
        let damped = previous && !self.checks.moved_from.is_empty();
        let excused = barred
            || damped
            || self.checks.moved_from.contains_key(&first)
            || self.slots.iter().filter_map(|s| s.process.as_ref()).any(|p| p.id == first && p.warms_badly);
        if first != id && !excused {
            self.violated("I8", format!("{at:?} leads after quiet, and {first} is first in rank"));
        }
    }

    /// I10.
    fn check_idle_requests(&mut self) {
        if self.checks.pinged_at + LAST > self.now {
            return;
        }
        let p = u64::from(self.timing.lease_seconds());
        let bound = (LAST / SECOND).div_ceil(p) + 2;
        let busy = self.slots.iter().enumerate().find_map(|(i, s)| {
            let p = s.process.as_ref()?;
            let idle = p.term.is_none() && p.may_watch && p.may_patch;
            let sent = self.checks.late_requests[i];
            (idle && sent > bound).then_some((p.at, sent))
        });
        if let Some((at, sent)) = busy {
            self.violated("I10", format!("{at:?} followed idly and sent {sent} requests in a minute"));
        }
    }
}
