//! The own candidate record on the lock (docs/protocol.md §7).

use std::time::Duration;

use super::{Command, Config, Elector, Op, OpId, OpKind, Outcome, Refusal, Report};
use crate::candidate::{Candidate, Readiness, annotation_key};
use crate::follow::Source;
use crate::marks;
use crate::record::{Record, Revision};
use crate::time::Instant;

/// The record is renewed this often, with jitter, so that judges know it is alive.
const BEAT: Duration = Duration::from_secs(300);

/// How the own record is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Means {
    /// Merge patch of the one annotation.
    Patch,
    /// Update of the whole lock, right after a renewal was seen: patching is not allowed.
    Update,
    /// Not at all: nothing may be written to a lock that another holds.
    None,
}

pub(super) struct OwnRecord {
    key: String,
    means: Means,
    patch: Option<(OpId, Instant, Option<String>)>,
    /// What the latest acknowledged patch left, and at which revision: the watch will tell.
    patched: Option<(Option<String>, Revision)>,
    retry_at: Instant,
    /// The record was seen on the lock: if it is missing now, it vanished.
    stood: bool,
    renewal_seen: bool,
    since: Option<Revision>,
    ack: Option<String>,
    warm: bool,
    warms_up: bool,
    /// The designation for which the warm-up was asked for.
    warming_for: Option<String>,
    beat: u64,
    next_beat: Instant,
}

impl OwnRecord {
    pub(super) fn new(config: &Config, now: Instant) -> OwnRecord {
        let warms_up = config.candidacy.warms_up;
        OwnRecord {
            key: annotation_key(&config.identity),
            means: Means::Patch,
            patch: None,
            patched: None,
            retry_at: now,
            stood: false,
            renewal_seen: false,
            since: None,
            ack: None,
            warm: !warms_up,
            warms_up,
            warming_for: None,
            beat: 0,
            next_beat: now + BEAT,
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn patch_in_flight(&self) -> Option<(OpId, Instant)> {
        self.patch.as_ref().map(|(id, deadline, _)| (*id, *deadline))
    }

    pub(super) fn stands_on(&self, record: Option<&Record>) -> bool {
        self.patch.is_some()
            || (self.means != Means::None
                && record.is_some_and(|r| {
                    let gone = matches!(&self.patched, Some((None, revision)) if r.revision < *revision);
                    r.annotations.contains_key(&self.key) && !gone
                }))
    }

    pub(super) fn saw(&mut self, revision: Revision) {
        self.since.get_or_insert(revision);
    }

    pub(super) fn saw_renewal(&mut self) {
        self.renewal_seen = true;
    }

    /// Changes the record.
    pub(super) fn show_life(&mut self) {
        self.beat += 1;
    }

    pub(super) fn warmed_up(&mut self) {
        self.warm = true;
    }

    pub(super) fn term_began(&mut self) {
        self.warm = true;
    }

    pub(super) fn term_ended(&mut self) {
        self.warm = !self.warms_up;
        self.warming_for = None;
    }
}

impl Elector {
    /// Whether this process cannot announce itself, so that the election is a plain one for it.
    pub fn is_plain(&self) -> bool {
        self.own.means == Means::None
    }

    /// This process as it announces itself.
    pub(super) fn own_candidate(&self) -> Candidate {
        let candidacy = &self.config.candidacy;
        let readiness = if self.shutdown.is_some() {
            Readiness::Stopping
        } else if !self.ready {
            Readiness::Paused
        } else if self.hold_back.is_some_and(|until| self.now.mono < until) {
            Readiness::Backoff
        } else {
            Readiness::Ready
        };
        Candidate {
            identity: self.config.identity.as_str().to_owned(),
            versions: candidacy.versions.clone(),
            strategies: candidacy.strategies.clone(),
            priority: candidacy.priority,
            priority_until: candidacy.priority_until,
            warm: self.own.warm,
            address: candidacy.address.clone(),
            labels: candidacy.labels.clone(),
            not_before: None,
            readiness,
            since: self.own.since.unwrap_or_default(),
            ack: self.own.ack.clone(),
            beat: self.own.beat,
        }
    }

    /// Puts the own record into a lock write, or takes it out of the last one.
    pub(super) fn put_own_candidate(&self, record: &mut Record) {
        if self.shutdown.is_some() && self.term.is_none() {
            record.annotations.remove(&self.own.key);
        } else {
            record.annotations.insert(self.own.key.clone(), self.own_candidate().to_annotation());
        }
    }

    /// Answers a ping and takes up a designation that stand on the lock.
    pub(super) fn notice_orders(&mut self) {
        let Some(record) = self.view.record() else { return };
        let own = self.config.identity.as_str();
        let ping = record.annotations.get(marks::PING).cloned();
        let designated = (marks::designated(record) == Some(own))
            .then(|| record.annotations.get(marks::DESIGNATED).cloned())
            .flatten();
        let holds = self.holds(record);
        if ping.is_some() && !holds && self.contends() {
            self.own.ack = ping;
        }
        if designated.is_none() {
            self.own.warming_for = None;
        }
        if designated.is_some() && !self.own.warm && self.own.warming_for != designated {
            self.own.warming_for = designated;
            self.out.push(Command::WarmUp);
        }
    }

    /// Writes the own record where it is not on the lock as it should be.
    pub(super) fn announce(&mut self) {
        let now = self.now.mono;
        if now >= self.own.next_beat {
            self.own.beat += 1;
            self.own.next_beat = now + self.rng.percent(BEAT, 90, 100);
        }
        let next_beat = self.own.next_beat;
        self.wake_at(next_beat);
        // A holder's record rides on its renewals.
        if self.tenure.is_some() || self.own.patch.is_some() || self.own.means == Means::None {
            return;
        }
        let leaving = self.shutdown.is_some() && self.term.is_none();
        let desired = if leaving { None } else { Some(self.own_candidate().to_annotation()) };
        let Some(record) = self.view.record() else { return };
        if self.holds(record) {
            return;
        }
        let present = record.annotations.get(&self.own.key);
        if present == desired.as_ref() {
            self.own.stood = present.is_some();
            return;
        }
        let told = self.view.highest();
        if let Some((patched, revision)) = &self.own.patched
            && told < *revision
            && *patched == desired
        {
            return;
        }
        let vanished = self.own.stood && present.is_none() && !leaving;
        if vanished {
            self.own.stood = false;
            let jitter = self.rng.percent(Duration::from_secs(1), 0, 100);
            self.own.retry_at = self.own.retry_at.max(now + jitter);
        }
        if self.own.retry_at > now {
            let at = self.own.retry_at;
            self.wake_at(at);
            return;
        }
        match self.own.means {
            // A takeover in flight would only be made to fail by it.
            Means::Patch if !self.is_writing() => self.send_patch(desired),
            Means::Update if self.op.is_none() && (self.own.renewal_seen || leaving) => {
                self.send_announcement(desired)
            }
            _ => {}
        }
    }

    fn is_writing(&self) -> bool {
        matches!(self.op, Some(Op { kind: OpKind::Write { .. }, .. }))
    }

    fn send_patch(&mut self, value: Option<String>) {
        let Some(uid) = self.view.record().map(|r| r.uid.clone()) else { return };
        let (id, deadline) = self.next_op();
        self.own.patch = Some((id, deadline, value.clone()));
        self.wake_at(deadline);
        self.out.push(Command::Patch { op: id, deadline, uid, key: self.own.key.clone(), value });
    }

    fn send_announcement(&mut self, value: Option<String>) {
        let Some(mut record) = self.view.record().cloned() else { return };
        match value {
            Some(value) => record.annotations.insert(self.own.key.clone(), value),
            None => record.annotations.remove(&self.own.key),
        };
        self.own.renewal_seen = false;
        let (id, deadline) = self.next_op();
        self.op = Some(Op { id, kind: OpKind::Announce, deadline, known: self.view.highest() });
        self.wake_at(deadline);
        self.out.push(Command::Update { op: id, deadline, record });
    }

    pub(super) fn patch_answered(&mut self, outcome: Outcome) {
        let Some((_, _, value)) = self.own.patch.take() else { return };
        let now = self.now.mono;
        match outcome {
            Outcome::Ok(record) => {
                self.own.patched = Some((value, record.revision));
                if self.sync.polls() {
                    if record.revision > self.view.highest() {
                        self.learn(record, Source::Gap);
                    }
                } else {
                    // It may hold changes by others that the watch has not told: the watch tells all in order.
                    self.expect_from_watch(record.revision);
                }
            }
            Outcome::NotFound | Outcome::Conflict => {
                self.own.retry_at = now + self.back_off();
                self.read_before_writing(Duration::ZERO);
            }
            Outcome::Refused { refusal: Refusal::Forbidden | Refusal::Invalid, message, .. } => {
                self.own.means = Means::Update;
                self.own.renewal_seen = true;
                self.report(Report::NoPatch(message));
            }
            Outcome::Refused { retry_after, .. } | Outcome::Unknown { retry_after, .. } => {
                let wait = self.back_off().max(retry_after.unwrap_or_default());
                self.own.retry_at = now + wait.min(self.config.timing.lease_duration());
            }
        }
    }

    pub(super) fn announce_answered(&mut self, outcome: Outcome) {
        let later = self.now.mono + self.rng.percent(Duration::from_secs(3), 34, 100);
        match outcome {
            Outcome::Ok(record) => {
                // Carried out on the very revision that was known: nothing can have come between.
                if record.revision > self.view.highest() {
                    self.learn(record, Source::Next);
                }
            }
            Outcome::Refused { refusal: Refusal::Forbidden | Refusal::Invalid, message, .. } => {
                self.own.means = Means::None;
                self.report(Report::PlainElection(message));
            }
            _ => self.own.retry_at = later,
        }
    }
}
