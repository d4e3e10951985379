//! Taking in what requests brought (docs/protocol.md §5): a write of unknown outcome is settled by reading,
//! a conflict is judged from what was just read, never from memory.

use std::time::Duration;

use super::{Elector, Op, OpId, OpKind, Outcome, Refusal, Report, StopReason, WriteKind};
use crate::follow::Source;
use crate::marks;
use crate::record::{Record, Revision};
use crate::tenure::{Appointed, Sent, Tenure};

impl Elector {
    /// Gives up requests that were not answered in time. An answer that comes later is ignored.
    pub(super) fn give_up_late_requests(&mut self) {
        let now = self.now.mono;
        let late = || Outcome::Unknown {
            message: "no answer within the attempt timeout".to_owned(),
            retry_after: None,
        };
        if let Some(op) = &self.op {
            let (id, deadline) = (op.id, op.deadline);
            if now >= deadline {
                self.answered(id, late());
            } else {
                self.wake_at(deadline);
            }
        }
        if let Some((id, deadline)) = self.own.patch_in_flight() {
            if now >= deadline {
                self.answered(id, late());
            } else {
                self.wake_at(deadline);
            }
        }
    }

    pub(super) fn answered(&mut self, id: OpId, outcome: Outcome) {
        let is_patch = self.own.patch_in_flight().is_some_and(|(p, _)| p == id);
        if !is_patch && self.op.as_ref().is_none_or(|op| op.id != id) {
            return;
        }
        self.note_contact(&outcome);
        if is_patch {
            self.patch_answered(outcome);
            return;
        }
        let Some(op) = self.op.take() else { return };
        if fault!(self.config, ErrorEnds) && matches!(outcome, Outcome::Refused { .. }) {
            self.finished = true;
            return;
        }
        match op.kind {
            OpKind::Read => self.read_answered(op.known, outcome),
            OpKind::Announce => self.announce_answered(outcome),
            OpKind::Write { .. } => self.write_answered(op, outcome),
        }
    }

    fn note_contact(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Ok(_) | Outcome::NotFound | Outcome::Conflict => {
                self.last_contact = Some(self.now.mono);
                if self.last_failure.take().is_some() {
                    self.report(Report::Recovered);
                }
            }
            Outcome::Refused { message, refusal, .. } => {
                if *refusal != Refusal::NotSent {
                    self.last_contact = Some(self.now.mono);
                }
                self.note_failure("request to the lock", message.clone());
            }
            Outcome::Unknown { message, .. } => self.note_failure("request to the lock", message.clone()),
        }
    }

    fn note_failure(&mut self, what: &'static str, message: String) {
        if self.last_failure.as_ref() != Some(&message) {
            self.last_failure = Some(message.clone());
            self.report(Report::RequestFailed { what, message });
        }
    }

    fn read_answered(&mut self, known: Revision, outcome: Outcome) {
        match outcome {
            Outcome::Ok(record) => {
                if record.revision < known {
                    self.report(Report::RevisionWentBack { seen: known, now: record.revision });
                    self.view.went_back(record.revision);
                }
                let current = record.revision >= self.view.highest();
                if current {
                    let revision = record.revision;
                    self.learn(record, Source::Gap);
                    self.expect_from_watch(revision);
                }
                // If the watch has told of something later meanwhile, that is what is judged.
                self.settle_exit();
                self.read_succeeded();
            }
            Outcome::NotFound => {
                self.learn_absent();
                self.read_succeeded();
            }
            Outcome::Conflict => self.read_failed(false, None),
            Outcome::Refused { refusal, retry_after, .. } => {
                self.read_failed(refusal.is_lasting(), retry_after)
            }
            Outcome::Unknown { retry_after, .. } => self.read_failed(false, retry_after),
        }
    }

    /// A read was answered, and the newest that is known shows the lock in our name: if this tenure's acquireTime stands there, the transfer or
    /// release of unknown outcome was not carried out. (If another stands there, [`Elector::learn`] has made
    /// a new appointment of it.)
    fn settle_exit(&mut self) {
        let Some(record) = self.view.record() else { return };
        let ours = self.holds(record);
        let acquired = record.acquire_time;
        if let Some(tenure) = &mut self.tenure
            && ours
            && tenure.acquired == acquired
        {
            tenure.exit_unknown = false;
        }
    }

    fn write_answered(&mut self, op: Op, outcome: Outcome) {
        let OpKind::Write { kind, base, sent } = op.kind else { return };
        let exit = matches!(kind, WriteKind::Transfer { .. } | WriteKind::Release { .. });
        match outcome {
            Outcome::Ok(record) => {
                self.failures = 0;
                self.write_acknowledged(kind, base, sent, record);
            }
            Outcome::Conflict | Outcome::NotFound => {
                // Something between may have sent it twice: it may have been carried out all the same.
                self.unknown_outcome(exit, sent, Duration::ZERO);
            }
            Outcome::Refused { refusal, retry_after, .. } => {
                self.failures += 1;
                self.write_failed(retry_after);
                if refusal.is_lasting() && self.term.is_none() {
                    let rarely = self.rng.percent(Duration::from_secs(30), 90, 110);
                    self.contention.not_before(self.now.mono + rarely);
                }
                self.first_failure_ends();
            }
            Outcome::Unknown { retry_after, .. } => {
                self.failures += 1;
                let quick = self.now.mono.since(sent.at) < self.config.timing.attempt_timeout() / 2;
                let wait = if quick { self.back_off() } else { Duration::ZERO };
                self.write_failed(retry_after);
                self.unknown_outcome(exit, sent, wait.max(retry_after.unwrap_or_default()));
                self.first_failure_ends();
            }
        }
    }

    fn first_failure_ends(&mut self) {
        if fault!(self.config, FirstFailureEnds) {
            self.stop_term(StopReason::RenewDeadline);
        }
    }

    fn unknown_outcome(&mut self, exit: bool, sent: Sent, wait: Duration) {
        self.unsettled.push(sent);
        if exit && let Some(tenure) = &mut self.tenure {
            if fault!(self.config, ForgetUnknownTransfer) {
                self.exit = None;
                self.hold_back = None;
                self.renew_at = self.now.mono;
                return;
            }
            tenure.exit_unknown = true;
        }
        let wait = match &self.term {
            Some(term) => {
                let left = term.validity.until.since(self.now.mono);
                wait.min(left.saturating_sub(self.config.timing.attempt_timeout() * 2))
            }
            None => wait.min(self.config.timing.lease_duration()),
        };
        self.renew_at = self.now.mono;
        self.read_before_writing(wait);
    }

    fn write_acknowledged(&mut self, kind: WriteKind, base: Option<Revision>, sent: Sent, record: Record) {
        let newest = record.revision >= self.view.highest();
        if newest {
            self.observe(record.clone(), Source::Next);
            self.expect_from_watch(record.revision);
        }
        let ours_now = self.view.record().is_some_and(|r| self.holds(r));
        match kind {
            WriteKind::Takeover | WriteKind::Renewal => {
                if !ours_now {
                    return;
                }
                if self.tenure.is_none() {
                    let by = Appointed::Ourselves;
                    self.tenure =
                        Some(Tenure::new(by, record.acquire_time, self.last_other.clone(), self.now.mono));
                }
                self.acknowledged(&kind, sent, base, &record);
            }
            WriteKind::Transfer { .. } | WriteKind::Release { .. } => {
                self.acknowledged(&kind, sent, base, &record);
                if ours_now && !newest {
                    // Somebody has made us holder again before the answer came.
                    self.judge_ours();
                }
            }
        }
    }

    /// Takes a record into the view and the book.
    fn observe(&mut self, record: Record, source: Source) -> bool {
        let holder = |r: Option<&Record>| r.and_then(Record::holder).map(str::to_owned);
        let before = holder(self.view.record());
        let changed = self.view.observe(record, source, self.now, &self.config);
        let after = holder(self.view.record());
        if let Some(record) = self.view.record() {
            self.book.update(record, self.now.mono);
            self.own.saw(record.revision);
            let other = |who: &&str| *who != self.config.identity.as_str();
            let wrote = marks::holder(record).map(|(who, _)| who).filter(other);
            // Who wrote last tells of a holder that was missed.
            let missed = wrote.filter(|_| source == Source::Gap || self.last_other.is_none());
            if let Some(other) = record.holder().filter(other).or(missed) {
                self.last_other = Some(other.to_owned());
            }
        }
        if changed && let Some(seconds) = self.view.absurd_duration() {
            self.report(Report::AbsurdDuration(seconds));
        }
        if before != after {
            self.note_expiry(before.as_deref(), after.as_deref());
            self.report(Report::Holder { holder: after, before });
        }
        changed
    }

    /// A holder lost the lock to another without having handed it over: most likely it is dead. It is not
    /// waited for in the next election either, until its record changes.
    fn note_expiry(&mut self, before: Option<&str>, after: Option<&str>) {
        let own = self.config.identity.as_str();
        let handed_over = self.view.record().is_some_and(|r| marks::transferred(r).is_some());
        if let (Some(before), Some(_)) = (before, after)
            && before != own
            && !handed_over
        {
            self.book.missed_ping(before);
        }
    }

    /// Learns of the lock as it is, and judges from it who is holder.
    pub(super) fn learn(&mut self, record: Record, source: Source) {
        let changed = self.observe(record, source);
        let Some(record) = self.view.record() else { return };
        let ours = self.holds(record);
        let other = record.holder().is_some() && !ours;
        if ours {
            self.judge_ours();
        } else {
            let record = record.clone();
            self.unsettled.settle(&record);
            if self.tenure.is_some() && !fault!(self.config, JudgeFromMemory) {
                self.superseded();
            }
        }
        if other {
            self.hold_back = None;
            if changed {
                self.own.saw_renewal();
            }
        }
        self.notice_orders();
    }

    /// The lock is ours: by our own hand, by the previous holder's, or by somebody else's.
    fn judge_ours(&mut self) {
        let Some(record) = self.view.record().cloned() else { return };
        if let Some(Op { kind: OpKind::Write { sent, .. }, .. }) = &self.op
            && sent.left(&record)
        {
            // Our own write, told by the watch before its answer came.
            return;
        }
        let now = self.now.mono;
        let found = self.unsettled.settle(&record);
        let transfer = marks::transferred(&record) == Some(self.config.identity.as_str());
        let live = self.term.is_some();
        match (&mut self.tenure, found) {
            (None, Some(mut sent)) => {
                if fault!(self.config, UnknownCountsFromRead) {
                    sent.at = now;
                }
                self.tenure = Some(Tenure::new(
                    Appointed::Ourselves,
                    record.acquire_time,
                    self.last_other.clone(),
                    now,
                ));
                self.count_renewal(sent, true, &record);
                self.renew_at = now;
            }
            (Some(_), Some(mut sent)) => {
                if fault!(self.config, UnknownCountsFromRead) {
                    sent.at = now;
                }
                self.handover.acknowledged(&record, sent.at);
                self.count_renewal(sent, true, &record);
            }
            (None, None) => {
                let (by, acquired) = if transfer {
                    (Appointed::Transfer, record.acquire_time)
                } else {
                    (Appointed::Stranger, None)
                };
                self.tenure = Some(Tenure::new(by, acquired, self.last_other.clone(), now));
                self.renew_at = now;
            }
            (Some(tenure), None) if tenure.acquired.is_some_and(|a| record.acquire_time != Some(a)) => {
                // Somebody appointed us again, in a tenure of ours. Live work may go on; new work starts
                // only as after any other appointment. A transfer of unknown outcome was carried out, or
                // never will be: it is dropped.
                tenure.exit_unknown = false;
                self.exit = None;
                if live {
                    tenure.appointed = Appointed::Stranger;
                    tenure.acquired = record.acquire_time;
                    tenure.previous = self.last_other.clone();
                    tenure.began = now;
                } else {
                    let (by, acquired) = if transfer {
                        (Appointed::Transfer, record.acquire_time)
                    } else {
                        (Appointed::Stranger, None)
                    };
                    *tenure = Tenure::new(by, acquired, self.last_other.clone(), now);
                }
                self.renew_at = now;
            }
            (Some(tenure), None) => {
                if tenure.stamped.is_some() && tenure.stamped != record.renew_time {
                    tenure.stamped = record.renew_time;
                    self.report(Report::DuplicateIdentity);
                }
            }
        }
    }

    /// There is no lock.
    pub(super) fn learn_absent(&mut self) {
        let before = self.view.record().and_then(Record::holder).map(str::to_owned);
        self.view.observe_absent(self.now.mono);
        if before.is_some() {
            self.report(Report::Holder { holder: None, before });
        }
        let live = self.term.is_some();
        match &self.tenure {
            // The holder creates it again at once and keeps its term.
            Some(tenure) if live && !tenure.exit_unknown => self.renew_at = self.now.mono,
            Some(_) => self.superseded(),
            None => {}
        }
    }
}
