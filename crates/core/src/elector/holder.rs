//! The holder: renewals, releases and transfers (docs/protocol.md §3, §5, §10).

use std::time::Duration;

use super::{Command, Elector, Op, OpKind, Report, StopReason, WriteKind};
use crate::candidate;
use crate::marks;
use crate::record::Record;
use crate::tenure::{Appointed, Sent};
use crate::time::Instant;

/// The lock is to be given up: the work has ended.
#[derive(Debug)]
pub(super) struct Exit {
    pub(super) since: Instant,
    retry_at: Instant,
}

impl Elector {
    /// The lock is to be released or transferred, as soon as no request is in flight.
    pub(super) fn plan_exit(&mut self) {
        if self.tenure.is_some() && self.exit.is_none() {
            self.exit = Some(Exit { since: self.now.mono, retry_at: self.now.mono });
        }
    }

    /// Sends the release or transfer that is due.
    pub(super) fn leave(&mut self) {
        // Appointed while it does not want to lead: it releases at once.
        if self.term.is_none() && (self.shutdown.is_some() || !self.contends()) {
            self.plan_exit();
        }
        let Some(exit) = &self.exit else { return };
        let retry_at = exit.retry_at;
        let Some(tenure) = &self.tenure else {
            self.exit = None;
            return;
        };
        if tenure.exit_unknown && !self.sync.must_read {
            self.read_before_writing(Duration::ZERO);
            return;
        }
        if self.op.is_some() || self.sync.must_read {
            return;
        }
        if retry_at > self.now.mono {
            self.wake_at(retry_at);
            return;
        }
        let Some(base) = self.view.record().cloned() else {
            // There is no lock to give up; others wait out its absence.
            if self.view.is_absent() {
                self.tenure = None;
                self.exit = None;
            }
            return;
        };
        let guarded = self.view.guarded(self.now.mono) && tenure.appointed != Appointed::Transfer;
        let successor = if guarded { None } else { self.successor() };
        let (kind, record) = match successor {
            Some(successor) => {
                let record = self.transfer(&base, &successor);
                (WriteKind::Transfer { successor }, record)
            }
            None => {
                let marked = !guarded || fault!(self.config, MarkDespiteGuard);
                (WriteKind::Release { marked }, self.release(&base, marked))
            }
        };
        self.write(kind, Some(&base), record);
    }

    /// Sends the renewal that is due.
    pub(super) fn renew(&mut self) {
        let Some(tenure) = &self.tenure else { return };
        if self.exit.is_some() || self.op.is_some() || self.sync.must_read {
            return;
        }
        let allowed = match &self.term {
            None => true,
            Some(term) if term.lost() => {
                fault!(self.config, NoHardEnd) || fault!(self.config, LateAckRevives)
            }
            Some(term) => term.stopping.is_none() || !fault!(self.config, NoRenewalInDrain),
        };
        if !allowed || (tenure.exit_unknown && !fault!(self.config, ForgetUnknownTransfer)) {
            return;
        }
        let due = match self.handover.ping_due(self.now.mono) {
            Some(ping) => self.renew_at.min(ping),
            None => self.renew_at,
        }
        .max(self.retry_floor);
        if due > self.now.mono {
            self.wake_at(due);
            return;
        }
        match self.view.record().cloned() {
            Some(base) => {
                let record = self.renewal(&base);
                self.write(WriteKind::Renewal, Some(&base), record);
            }
            None if self.view.is_absent() && self.term.is_some() => {
                // Deleted under its holder: created again at once, in the same tenure.
                let acquired = tenure.acquired;
                let mut record = self.renewal(&Record::default());
                record.acquire_time = acquired.or(record.acquire_time);
                self.write(WriteKind::Renewal, None, record);
            }
            None => {
                if self.view.is_absent() {
                    self.tenure = None;
                }
            }
        }
    }

    /// The fields that every write of a holder carries.
    fn own_write(&mut self, base: &Record) -> Record {
        let own = self.config.identity.as_str().to_owned();
        let seconds = self.config.timing.lease_seconds();
        let mut record = base.clone();
        record.annotations.insert(marks::HOLDER.to_owned(), marks::holder_value(&own, seconds));
        record.holder = Some(own);
        record.duration_seconds = Some(i32::from(seconds));
        record.renew_time =
            Some(if fault!(self.config, BareWallStamp) { self.now.wall } else { self.stamps.next(self.now) });
        record
    }

    /// What a change of holder removes.
    fn clear_orders(record: &mut Record) {
        record.preferred_holder = None;
        for key in [marks::DESIGNATED, marks::RELEASED, marks::TRANSFERRED, marks::PING] {
            record.annotations.remove(key);
        }
    }

    /// A takeover of a free or expired lock, or its creation.
    pub(super) fn takeover(&mut self, base: &Record) -> Record {
        let mut record = self.own_write(base);
        Elector::clear_orders(&mut record);
        // Whoever let the lock expire is most likely dead, and must not be waited for in the next election. If
        // it lives, its record is back within two seconds.
        let dead = candidate::on_lock(base).find(|(_, c)| Some(c.identity.as_str()) == base.holder());
        if let Some((key, _)) = dead {
            record.annotations.remove(key);
        }
        record.acquire_time = record.renew_time;
        record.transitions = Some(base.transitions.map_or(0, |t| t.saturating_add(1)));
        self.put_own_candidate(&mut record);
        record
    }

    fn renewal(&mut self, base: &Record) -> Record {
        let mut record = self.own_write(base);
        let tenure = self.tenure.as_ref();
        if tenure.is_some_and(|t| t.written.is_none()) {
            // The first write of an appointed tenure: a follower that compares whole seconds must see it.
            let second = |r: &Record| r.renew_time.map(|t| t.second());
            if second(&record) == second(base) {
                record.renew_time = self.stamps.add_second().or(record.renew_time);
            }
        }
        if tenure.is_some_and(|t| t.acquired.is_none()) {
            record.acquire_time = record.renew_time;
            record.transitions = Some(base.transitions.unwrap_or(0).saturating_add(1));
            Elector::clear_orders(&mut record);
        }
        let designated = match (self.handover.designated(), record.acquire_time) {
            (Some(successor), Some(acquired)) => Some(marks::stamped(successor, acquired)),
            _ => None,
        };
        set(&mut record, marks::DESIGNATED, designated);
        let ping = self.handover.ping_value(&self.config.identity);
        set(&mut record, marks::PING, ping);
        for key in self.book.dead(self.own.key(), self.now.mono) {
            record.annotations.remove(key);
        }
        self.put_own_candidate(&mut record);
        record
    }

    fn transfer(&mut self, base: &Record, successor: &str) -> Record {
        let mut record = self.own_write(base);
        Elector::clear_orders(&mut record);
        record.holder = Some(successor.to_owned());
        record.duration_seconds = Some(i32::from(self.config.timing.transfer_seconds()));
        record.acquire_time = record.renew_time;
        record.transitions = Some(base.transitions.unwrap_or(0).saturating_add(1));
        let mark = record.acquire_time.map(|t| marks::stamped(successor, t));
        set(&mut record, marks::TRANSFERRED, mark);
        self.put_own_candidate(&mut record);
        record
    }

    fn release(&mut self, base: &Record, marked: bool) -> Record {
        let mut record = self.own_write(base);
        Elector::clear_orders(&mut record);
        record.holder = Some(String::new());
        record.duration_seconds = Some(1);
        record.acquire_time = record.renew_time;
        let own = self.config.identity.as_str();
        let mark = record.acquire_time.filter(|_| marked).map(|t| marks::stamped(own, t));
        set(&mut record, marks::RELEASED, mark);
        self.put_own_candidate(&mut record);
        record
    }

    /// Sends a lock write.
    pub(super) fn write(&mut self, kind: WriteKind, base: Option<&Record>, mut record: Record) {
        let (id, deadline) = self.next_op();
        let sent = Sent::new(base, &record, self.now.mono);
        let known = self.view.highest();
        let base = base.map(|b| b.revision);
        if base.is_some() && fault!(self.config, UpdateWithoutUid) {
            record.uid = String::new();
        }
        self.op = Some(Op { id, kind: OpKind::Write { kind, base, sent }, deadline, known });
        self.wake_at(deadline);
        self.out.push(match base {
            Some(_) => Command::Update { op: id, deadline, record },
            None => Command::Create { op: id, deadline, record },
        });
    }

    /// A lock write was acknowledged.
    pub(super) fn acknowledged(
        &mut self,
        kind: &WriteKind,
        sent: Sent,
        base: Option<crate::Revision>,
        record: &Record,
    ) {
        let changed = base != Some(record.revision);
        match kind {
            WriteKind::Transfer { successor } => {
                self.end_tenure();
                self.report(Report::Transferred { successor: successor.clone() });
            }
            WriteKind::Release { marked } => {
                self.end_tenure();
                self.report(Report::Released { marked: *marked });
            }
            WriteKind::Takeover | WriteKind::Renewal => {
                if changed {
                    self.handover.acknowledged(record, sent.at);
                }
                self.count_renewal(sent, changed, record);
                self.renew_at = sent.at + self.retry_period();
            }
        }
    }

    /// Moves the validity on, if this write is one that everybody sees and was answered in time.
    pub(super) fn count_renewal(&mut self, sent: Sent, changed: bool, record: &Record) {
        let deadline = self.config.timing.renew_deadline();
        let now = self.now.mono;
        let counts = (changed && sent.seen_by_all) || fault!(self.config, NoOpExtends);
        let in_time = now < sent.at + deadline || fault!(self.config, LateAckRevives);
        let Some(tenure) = &mut self.tenure else { return };
        tenure.acquired = record.acquire_time;
        tenure.stamped = record.renew_time;
        if changed {
            tenure.written = tenure.written.max(Some(record.revision));
        }
        if counts && in_time {
            let from = if fault!(self.config, ValidFromAnswer) { now } else { sent.at };
            tenure.renewed = tenure.renewed.max(Some(from));
            tenure.fresh = true;
            self.extend_term();
        }
    }

    /// We are no longer holder, by our own write.
    fn end_tenure(&mut self) {
        self.tenure = None;
        self.exit = None;
        self.handover.reset();
    }

    /// The lock has another holder, or none, and not by our own hand.
    pub(super) fn superseded(&mut self) {
        if self.exit.is_none() {
            // Others may take this process for dead: its record says that it is not.
            self.own.show_life();
        }
        self.end_tenure();
        self.stop_term(StopReason::Superseded);
    }

    /// A write failed: when to try again.
    pub(super) fn write_failed(&mut self, retry_after: Option<Duration>) {
        let wait = self.back_off().max(retry_after.unwrap_or_default());
        let now = self.now.mono;
        let wait = match &self.term {
            // Up to the time left: the last attempt must still fit before the deadline.
            Some(term) => {
                let left =
                    term.validity.until.since(now).saturating_sub(self.config.timing.attempt_timeout());
                if left.is_zero() { self.back_off() } else { wait.min(left) }
            }
            None => wait.min(self.config.timing.lease_duration()),
        };
        self.renew_at = now + wait;
        self.retry_floor = now + wait;
        if let Some(exit) = &mut self.exit {
            exit.retry_at = now + wait;
        }
        self.contention.not_before(now + wait);
    }
}

/// Sets or removes an annotation.
fn set(record: &mut Record, key: &str, value: Option<String>) {
    match value {
        Some(value) => {
            record.annotations.insert(key.to_owned(), value);
        }
        None => {
            record.annotations.remove(key);
        }
    }
}
