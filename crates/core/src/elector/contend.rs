//! The follower that wants to lead: takes over a free or expired lock, in order of rank (docs/protocol.md
//! §6, §9.2).

use std::time::Duration;

use super::{Elector, WriteKind};
use crate::rank;
use crate::record::Record;
use crate::time::Instant;

/// The step of the delay by which those ranked behind let those before them go first.
const RANK_STEP: Duration = Duration::from_millis(200);
const MAX_STEPS: u32 = 5;

/// When this process tries to take over the lock in its present state.
#[derive(Debug, Default)]
pub(super) struct Contention {
    /// The state of the lock it was computed for.
    epoch: Option<u64>,
    at: Instant,
    floor: Instant,
}

impl Contention {
    /// Not before `at`: the last try failed.
    pub(super) fn not_before(&mut self, at: Instant) {
        self.floor = self.floor.max(at);
    }
}

impl Elector {
    /// Whether this process wants to lead at present.
    pub(super) fn contends(&self) -> bool {
        self.ready && self.shutdown.is_none() && self.hold_back.is_none_or(|until| self.now.mono >= until)
    }

    /// Takes the lock over if it may be and it is this process's turn.
    pub(super) fn contend(&mut self) {
        let now = self.now.mono;
        if let Some(until) = self.hold_back {
            if now >= until {
                self.hold_back = None;
            } else {
                self.wake_at(until);
            }
        }
        if self.tenure.is_some()
            || self.term.is_some()
            || self.op.is_some()
            || self.sync.must_read
            || !self.contends()
        {
            return;
        }
        let Some(opening) = self.view.opening(self.now, &self.config) else { return };
        if opening.from > now {
            self.wake_at(opening.from);
            return;
        }
        if self.contention.epoch != Some(self.view.epoch()) {
            let delay = self.rank_delay(opening.expired);
            self.contention.epoch = Some(self.view.epoch());
            self.contention.at = now + delay;
        }
        let mut at = self.contention.at.max(self.contention.floor);
        if opening.expired {
            at = at.max(self.sync.grace);
        }
        if at > now {
            self.wake_at(at);
            return;
        }
        match self.view.record().cloned() {
            Some(base) => {
                let record = self.takeover(&base);
                self.write(WriteKind::Takeover, Some(&base), record);
            }
            None => {
                let record = self.takeover(&Record::default());
                self.write(WriteKind::Takeover, None, record);
            }
        }
    }

    /// min(rank, 5) × 200 ms ± 20 %. The last holder of an expired lock ranks last: it is most likely dead.
    fn rank_delay(&mut self, expired: bool) -> Duration {
        let own = self.config.identity.as_str();
        let contenders = self.contenders(self.now);
        let lock = self.view.record();
        let choice = rank::choose_strategy(lock, &contenders, self.now.wall);
        let dead = lock.and_then(Record::holder).filter(|_| expired);
        let ranked = rank::rank(&contenders, None, &choice, self.now.wall);
        let before = ranked
            .iter()
            .filter(|r| r.eligible && Some(r.candidate.identity.as_str()) != dead)
            .take_while(|r| r.candidate.identity != own)
            .count();
        let steps = u32::try_from(before).unwrap_or(MAX_STEPS).min(MAX_STEPS);
        self.rng.percent(RANK_STEP * steps, 80, 120)
    }
}
