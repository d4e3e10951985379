//! The invariants of docs/protocol.md §12, checked while a run goes on.

mod settled;

use std::collections::{BTreeMap, VecDeque};

use incumbent_core::candidate;
use incumbent_core::marks::{self, CANDIDATE_PREFIX};
use incumbent_core::rank::{self, Contender, Ranked};
use incumbent_core::{Instant, OpId, Record, StopReason, TermStart, TermStop, Timing, Validity};

use crate::api::Effect;
use crate::clock::{MILLI, SECOND, Time};
use crate::event::Proc;
use crate::network::Writer;
use crate::process::{SentWrite, Stuck};
use crate::run::{Stats, Violation};
use crate::scenario::Scenario;
use crate::trace::say;
use crate::world::World;

/// What the checks remember.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) violations: Vec<Violation>,
    pub(crate) stats: Stats,
    last_token: u64,
    /// Since when no work lives.
    leaderless_since: Option<Time>,
    /// When something happened that entitles everybody to wait anew.
    excused_at: Time,
    last_act: Time,
    /// When the lock last changed in what followers time, and for how long it is valid from then on.
    changed_at: Time,
    /// The latest records and when they were written: one that a stranger puts back is no change to those
    /// who did not look in between.
    recent: VecDeque<(Record, Time)>,
    valid_for: Time,
    /// Since when one must have watched to know that.
    valid_since: Time,
    last_worked: Time,
    last_start: Time,
    /// Who was handed the lock, until a term starts.
    handed_to: Option<String>,
    /// The holders of the lock, one after the other, and when each became it.
    holders: Vec<(String, Time)>,
    /// The same of those of ours who wrote it as holders: one that was only named never led.
    writers: Vec<(String, Time)>,
    /// The present holder was named by a stranger, perhaps over several others that it never saw.
    appointed: bool,
    /// Who was moved away from by rank, and how often.
    moved_from: BTreeMap<String, u32>,
    /// How long it may take at most until somebody leads, without faults.
    bound: Time,
    /// When candidates were last asked whether they are alive: they are not idle then.
    pinged_at: Time,
    /// When a candidate last changed what it announces.
    announced_at: Time,
    /// Requests of each slot in the last minute.
    late_requests: Vec<u64>,
}

impl Checks {
    pub(crate) fn new(scenario: &Scenario, timing: &Timing) -> Checks {
        let p = u64::from(timing.lease_seconds()) * SECOND;
        // A strangers' record without a duration counts as at least 15 s.
        let p = if scenario.strangers() { p.max(15 * SECOND) } else { p };
        let waits = if scenario.strangers() { 2 } else { 1 };
        let r = timing.retry_period().as_nanos() as Time;
        let a = timing.attempt_timeout().as_nanos() as Time;
        // P·(1+ρ) on a clock at 1−ρ, then 2R + 1 s; a request under way when faults end is waited out.
        let bound = waits * (p + p / 90) + 2 * r * 12 / 10 + SECOND + a + r;
        Checks {
            violations: Vec::new(),
            stats: Stats::default(),
            last_token: 0,
            leaderless_since: Some(0),
            excused_at: 0,
            last_act: 0,
            changed_at: 0,
            recent: VecDeque::new(),
            valid_for: 0,
            valid_since: 0,
            last_worked: 0,
            last_start: 0,
            handed_to: None,
            holders: Vec::new(),
            writers: Vec::new(),
            appointed: false,
            moved_from: BTreeMap::new(),
            bound,
            pinged_at: 0,
            announced_at: 0,
            late_requests: vec![0; scenario.nodes],
        }
    }

    pub(crate) fn finish(&mut self, now: Time) {
        if let Some(since) = self.leaderless_since.take() {
            self.stats.leaderless += now - since;
        }
        self.stats.simulated += now;
    }
}

/// The part of a run in which I10 and the absence of changes are checked.
const LAST: Time = 60 * SECOND;

impl World {
    pub(crate) fn violated(&mut self, rule: &'static str, what: String) {
        say!(self, "VIOLATION {rule}: {what}");
        if self.options.only.is_some_and(|only| only != rule) {
            return;
        }
        self.checks.violations.push(Violation { rule, at: self.now, what });
    }

    /// Something happened after which waiting begins anew.
    pub(crate) fn excuse_leaderless(&mut self) {
        self.checks.excused_at = self.now;
    }

    pub(crate) fn note_act(&mut self) {
        self.checks.last_act = self.now;
    }

    /// A request is about to be sent: I10, and one request in flight.
    pub(crate) fn check_in_flight(&mut self, at: Proc, op: OpId, deadline: Instant, patch: bool) {
        let local = self.local(at);
        let last = self.end.saturating_sub(LAST);
        let late = self.quiet.is_some() && self.now >= last;
        self.checks.stats.requests += 1;
        self.checks.late_requests[at.slot] += u64::from(late);
        let Some(p) = self.process_mut(at) else { return };
        let slot = if patch { &mut p.patch_op } else { &mut p.lock_op };
        if let Some((before, until)) = slot.replace((op, deadline))
            && local < until
        {
            self.violated("§5", format!("{at:?} sends {op:?} while {before:?} is in flight"));
        }
    }

    /// A lock write is about to be sent: I3.
    pub(crate) fn check_write(&mut self, at: Proc, record: &Record) {
        let local = self.local(at);
        let Some(p) = self.process(at) else { return };
        let base = p.elector.lock().filter(|l| l.uid == record.uid && l.revision == record.revision);
        if base.is_some_and(|b| b.holder() == record.holder()) && record.holder() != Some(p.id.as_str()) {
            // Its own candidate record, on a lock that it does not hold.
            return;
        }
        let keeps = record.holder() == Some(p.id.as_str());
        let alive = p.term.as_ref().is_some_and(|t| t.alive);
        let lost = p.term.as_ref().and_then(|t| t.stopped).is_some_and(StopReason::is_loss);
        if !keeps && alive {
            let to = record.holder.clone();
            self.violated("I3", format!("{at:?} gives the lock to {to:?} while its work lives"));
        } else if !keeps && p.elector.is_leader(local) {
            self.violated("§4", format!("{at:?} leads while it gives the lock away"));
        } else if keeps && alive && lost {
            self.violated("§3", format!("{at:?} renews after its term was lost, while its work lives"));
        } else if keeps {
            let stamp = record.renew_time;
            if p.sent.back().is_some_and(|last| stamp <= last.stamp) {
                return self
                    .violated("§3", format!("{at:?} stamps {stamp:?}, which is no later than before"));
            }
            let Some(p) = self.process_mut(at) else { return };
            if p.sent.len() == 32 {
                p.sent.pop_front();
            }
            p.sent.push_back(SentWrite { stamp, at: local, visible: false });
        }
    }

    /// §3: a lead counts from the send of a write that everybody can have seen.
    pub(crate) fn check_backed(&mut self, at: Proc, validity: Validity) {
        let Some(p) = self.process(at) else { return };
        let since = validity.until - self.timing.renew_deadline();
        if !p.sent.iter().any(|w| w.visible && w.at == since) {
            self.violated("§3", format!("{at:?} leads until {:?}, which no write backs", validity.until));
        }
    }

    /// A term is about to start: I1, I2, I5, and who may not start one.
    pub(crate) fn check_start(&mut self, at: Proc, start: &TermStart) {
        let local = self.local(at);
        let retry = self.timing.retry_period();
        let Some(p) = self.process(at) else { return };
        let (terms, id) = (p.terms, p.id.clone());
        if p.term.is_some() {
            return self.violated("I5", format!("{at:?} starts a term while it has one"));
        }
        if start.number != terms + 1 {
            return self.violated("I5", format!("{at:?} starts term {} after {terms}", start.number));
        }
        if p.shutting_down || !p.ready {
            return self.violated("§4", format!("{at:?} starts a term though it shuts down or is not ready"));
        }
        if p.contradicted {
            return self
                .violated("§5", format!("{at:?} starts a term after a conflict, and has read nothing"));
        }
        if p.backs_off_since.is_some_and(|t| local < t + retry * 2) {
            return self.violated("§4", format!("{at:?} starts a term while it has to hold back"));
        }
        let token = start.token.as_u64();
        if token <= self.checks.last_token && self.scenario.excludes_overlap() {
            let last = self.checks.last_token;
            return self.violated("I2", format!("{at:?} starts with token {token} after {last}"));
        }
        self.checks.last_token = self.checks.last_token.max(token);
        self.check_handover_gap(at, &id);
    }

    /// I9: from the end of a drain to the successor's term.
    fn check_handover_gap(&mut self, at: Proc, id: &str) {
        let handed = self.checks.handed_to.take();
        if !self.scenario.gentle() || handed.as_deref() != Some(id) {
            return;
        }
        let gap = self.now - self.checks.last_worked;
        let watches = self.process(at).is_some_and(|p| p.may_watch);
        let polls = self.timing.retry_period().as_nanos() as Time * 13 / 10;
        let bound = 30 * self.calm.latency + 300 * MILLI + if watches { 0 } else { polls };
        self.checks.stats.handovers += 1;
        self.checks.stats.handover_gap += gap;
        if gap > bound {
            self.violated("I9", format!("{at:?} leads {} ms after the drain had ended", gap / MILLI));
        }
    }

    /// A term has started.
    pub(crate) fn leads(&mut self, at: Proc) {
        self.checks.stats.terms += 1;
        self.checks.last_start = self.now;
        self.end_leaderless();
        self.check_overlap(at);
    }

    fn end_leaderless(&mut self) {
        if let Some(since) = self.checks.leaderless_since.take() {
            self.checks.stats.leaderless += self.now - since;
            self.check_wait(since);
        }
    }

    /// I6: how long nobody led.
    fn check_wait(&mut self, since: Time) {
        let Some(quiet) = self.quiet else { return };
        let waited = self.now - since.max(quiet).max(self.checks.excused_at).min(self.now);
        let anybody =
            self.slots.iter().any(|s| s.process.as_ref().is_some_and(|p| p.willing() && p.terms_possible()));
        if waited > self.checks.bound && anybody {
            self.violated("I6", format!("nobody led for {} ms without faults", waited / MILLI));
        }
    }

    /// Work has ended.
    pub(crate) fn worked(&mut self, at: Proc, _stopped: Option<StopReason>) {
        self.checks.last_worked = self.now;
        self.checks.excused_at = self.now;
        self.trace.mix(at.slot as u64);
        if !self.anybody_works() {
            self.checks.leaderless_since.get_or_insert(self.now);
        }
    }

    pub(crate) fn plain_worked(&mut self) {
        if !self.anybody_works() {
            self.checks.leaderless_since.get_or_insert(self.now);
        }
    }

    fn anybody_works(&self) -> bool {
        self.plains.iter().any(|p| p.leads)
            || self
                .slots
                .iter()
                .any(|s| s.process.as_ref().is_some_and(|p| p.term.as_ref().is_some_and(|t| t.alive)))
    }

    /// I1: whether work of anybody else lives beside that of `at`.
    pub(crate) fn check_overlap(&mut self, at: Proc) {
        let works = |slot: usize| {
            let p = self.slots[slot].process.as_ref()?;
            p.works(self.slots[slot].clock.local(self.now)).then_some(p.at)
        };
        if works(at.slot) != Some(at) {
            return;
        }
        let other = (0..self.slots.len()).filter(|s| *s != at.slot).find_map(works);
        let plain = self.plains.iter().position(|p| p.leads);
        if let Some(other) = other
            && self.scenario.excludes_overlap()
        {
            self.violated("I1", format!("work of {at:?} and of {other:?} lives at one instant"));
        } else if let Some(index) = plain
            && self.scenario.excludes_plain_overlap()
        {
            self.violated("I1", format!("work of {at:?} and of plain {index} lives at one instant"));
        }
    }

    pub(crate) fn check_plain_start(&mut self, index: usize) {
        self.checks.stats.plain_terms += 1;
        self.end_leaderless();
        let other = self.slots.iter().filter_map(|s| {
            let p = s.process.as_ref()?;
            p.works(s.clock.local(self.now)).then_some(p.at)
        });
        if let Some(other) = other.into_iter().next()
            && self.scenario.excludes_plain_overlap()
        {
            self.violated("I1", format!("work of plain {index} and of {other:?} lives at one instant"));
        }
    }

    /// A term is about to stop: I5, I7, and whether the reason is true.
    pub(crate) fn check_stop(&mut self, at: Proc, stop: &TermStop) {
        let local = self.local(at);
        let reason = stop.reason;
        let gentle = self.scenario.gentle();
        let Some(p) = self.process(at) else { return };
        let Some(t) = p.term.as_ref().filter(|t| t.number == stop.number) else {
            return self.violated("I5", format!("{at:?} stops term {}, which does not run", stop.number));
        };
        if let Some(before) = t.stopped
            && (before.is_loss() || !reason.is_loss())
        {
            return self.violated("I5", format!("{at:?} stops term {} again: {reason:?}", stop.number));
        }
        let unfounded = match reason {
            StopReason::RenewDeadline => local < t.validity.until,
            StopReason::Superseded => !t.superseded,
            StopReason::ClockJump => !t.clock_jumped,
            _ => false,
        };
        if unfounded {
            return self.violated("I7", format!("{at:?} stops its term for no reason: {reason:?}"));
        }
        if gentle && reason.is_loss() {
            return self.violated("I7", format!("{at:?} loses its term without any fault: {reason:?}"));
        }
        let asked = p.asked_to_yield || !p.ready || p.shutting_down;
        let id = p.id.clone();
        if reason == StopReason::Transfer && !asked {
            self.check_planned_move(at, &id);
        }
    }

    /// I7: a planned move needs somebody better, and is damped.
    fn check_planned_move(&mut self, at: Proc, id: &str) {
        *self.checks.moved_from.entry(id.to_owned()).or_default() += 1;
        let undisturbed = self.checks.excused_at.max(self.checks.last_act) + 2 * SECOND < self.now;
        if self.scenario.gentle() && undisturbed {
            let ranked = self.ranking(Some(id));
            if ranked.first().is_some_and(|r| r.candidate.identity == id) {
                return self.violated("I7", format!("{at:?} plans a move though it is first in rank"));
            }
        }
        let mut holders = self.checks.holders.iter().rev();
        let (Some((now_holds, since)), Some((before, _))) = (holders.next(), holders.next()) else { return };
        let wrote = self.checks.writers.iter().rev().find(|(who, _)| who != id);
        if self.checks.appointed || wrote.is_none_or(|(who, _)| who != before) {
            return;
        }
        let lock = self.api.get();
        let designated = lock.and_then(|r| marks::designated(r));
        // A priority is an operator's order, and not damped.
        let priority = |id: &str| {
            lock.and_then(|r| candidate::on_lock(r).find(|(_, c)| c.identity == id))
                .map_or(0, |(_, c)| c.priority)
        };
        let ordered = priority(before) > priority(id);
        if now_holds == id && designated == Some(before) && !ordered && self.now - since < 59 * SECOND {
            let text =
                format!("{at:?} moves the lock back to {before} after {} ms", (self.now - since) / MILLI);
            self.violated("§9", text);
        }
    }

    /// What anybody with all knowledge would rank.
    fn ranking(&self, holder: Option<&str>) -> Vec<Ranked> {
        let Some(lock) = self.api.get() else { return Vec::new() };
        let alive = |id: &str| self.slots.iter().any(|s| s.process.as_ref().is_some_and(|p| p.id == id));
        let contenders: Vec<Contender> = candidate::on_lock(lock)
            .filter(|(_, c)| alive(&c.identity))
            .map(|(_, candidate)| Contender { candidate, observed: None })
            .collect();
        let wall = self.slots[0].clock.wall(self.now);
        let choice = rank::choose_strategy(Some(lock), &contenders, wall);
        if choice.strategy().is_none() && holder.is_some() {
            return Vec::new();
        }
        rank::rank(&contenders, holder, &choice, wall)
    }

    /// After every step of an elector: what it says of itself.
    pub(crate) fn check_process(&mut self, at: Proc) {
        self.check_is_leader(at);
    }

    pub(crate) fn check_is_leader(&mut self, at: Proc) {
        let local = self.local(at);
        let Some(p) = self.process(at) else { return };
        if p.stuck != Stuck::No {
            return;
        }
        let says = p.elector.is_leader(local);
        let may = p.term.as_ref().is_some_and(|t| t.stopped.is_none() && !t.told && local < t.validity.until);
        if says && !may {
            self.violated("§3", format!("{at:?} says that it leads, and may not"));
        } else if may && !says {
            self.violated("§4", format!("{at:?} says that it does not lead, and works"));
        }
    }

    /// The lock was changed: I4, §5.
    pub(crate) fn check_commit(&mut self, writer: Writer, before: Option<&Record>, effect: Effect) {
        let after = self.api.get().cloned();
        let holder = after.as_ref().and_then(|r| r.holder()).map(str::to_owned);
        for slot in &mut self.slots {
            let Some(p) = &mut slot.process else { continue };
            let holds = holder.as_deref() == Some(p.id.as_str());
            if let Some(t) = &mut p.term {
                t.superseded |= !holds;
            }
            if holder.is_some() && !holds {
                // Another holds the lock: it was given its chance.
                p.backs_off_since = None;
            }
        }
        if let Writer::Ours(at) = writer {
            self.check_own_commit(at, before, effect);
        }
        if let Some(after) = &after {
            if before.is_none_or(|b| !candidate_records(b).eq(candidate_records(after))) {
                self.checks.announced_at = self.now;
            }
            let ping = |r: &Record| r.annotations.get(marks::PING).cloned();
            if ping(after).is_some() && before.and_then(ping) != ping(after) {
                self.checks.pinged_at = self.now;
            }
            if before.is_none_or(|b| b.differs(after)) {
                let published = published(after);
                let before_that = std::mem::replace(&mut self.checks.changed_at, self.now);
                let moved = before.is_some_and(|b| b.holder() != after.holder());
                // A stranger that writes another holder does not end the work of the one before.
                let longer = moved && writer == Writer::Stranger;
                let again = self.checks.recent.iter().find(|(r, _)| !r.differs(after));
                if let Some((_, first)) = again.filter(|_| writer == Writer::Stranger) {
                    self.checks.changed_at = *first;
                }
                if self.checks.recent.len() == 16 {
                    self.checks.recent.pop_front();
                }
                self.checks.recent.push_back(((**after).clone(), self.now));
                if longer && self.checks.valid_for > published {
                    if self.checks.valid_since == 0 {
                        self.checks.valid_since = before_that;
                    }
                } else {
                    self.checks.valid_for = published;
                    self.checks.valid_since = 0;
                }
            }
            if before.is_none_or(|b| b.holder() != after.holder()) {
                self.checks.appointed = writer == Writer::Stranger;
            }
            note(&mut self.checks.holders, after.holder(), self.now);
            note(&mut self.checks.writers, marks::holder(after).map(|(who, _)| who), self.now);
            if before.is_none_or(|b| b.holder() != after.holder()) {
                self.checks.handed_to = marks::transferred(after).map(str::to_owned);
            }
        } else {
            // Nothing tells any more who held it.
            self.checks.holders.clear();
            self.checks.writers.clear();
            self.checks.changed_at = self.now;
        }
    }

    fn check_own_commit(&mut self, at: Proc, before: Option<&Record>, effect: Effect) {
        let Some(after) = self.api.get().cloned() else { return };
        if effect == Effect::CreatedByUpdate {
            return self.violated("§5", format!("{at:?} created a deleted lock again by an update"));
        }
        if after.holder().is_some() && after.duration().is_none() {
            return self.violated("§5", format!("{at:?} wrote a duration of {:?}", after.duration_seconds));
        }
        let stamp = after.renew_time;
        if let Some(p) = self.process_mut(at)
            && before.is_none_or(|b| b.differs_coarsely(&after))
            && let Some(sent) = p.sent.iter_mut().find(|w| w.stamp == stamp)
        {
            sent.visible = true;
        }
        self.check_takeover(at, before, &after);
        let Some(before) = before else { return };
        let ours = |key: &str| key.starts_with(CANDIDATE_PREFIX) || key.starts_with("incumbent.dev/");
        let lost = before.annotations.iter().find(|(k, v)| !ours(k) && after.annotations.get(*k) != Some(v));
        if let Some((key, _)) = lost {
            return self.violated("§5", format!("{at:?} lost the annotation {key}"));
        }
        if before.holder() == after.holder() {
            return;
        }
        if after.preferred_holder.is_some() || marks::designated(&after).is_some() {
            return self.violated("§5", format!("{at:?} left an order to the holder before"));
        }
        if let (Some(_), Some(was)) = (after.holder(), before.transitions)
            && after.transitions != Some(was.saturating_add(1))
        {
            return self.violated("§5", format!("{at:?} counted {:?} after {was}", after.transitions));
        }
        let by_holder = before.holder().is_some_and(|h| h.starts_with(&format!("n{}_", at.slot)));
        if before.holder().is_some() && !by_holder {
            // Nobody's clock runs faster than 1+ρ, and everybody waits P·(1+ρ) on it.
            let watched = self
                .process(at)
                .is_some_and(|p| p.watch.open && !p.watch.dead && p.watch.since < self.checks.valid_since);
            // Who did not see what was there before cannot know that it was valid for longer.
            let valid = if watched { self.checks.valid_for } else { published(before) };
            if self.now < self.checks.changed_at + valid {
                let left = (self.checks.changed_at + valid - self.now) / MILLI;
                self.violated("I4", format!("{at:?} takes a lock that is valid for {left} ms yet"));
            }
        }
    }

    /// §6, before I1 is in danger: nobody takes the lock while work of another of ours lives.
    fn check_takeover(&mut self, at: Proc, before: Option<&Record>, after: &Record) {
        let id = format!("n{}_", at.slot);
        let own = |r: &Record| r.holder().is_some_and(|h| h.starts_with(&id));
        if !own(after) || before.is_some_and(own) || !self.scenario.excludes_overlap() {
            return;
        }
        let other = self.slots.iter().enumerate().filter(|(i, _)| *i != at.slot).find_map(|(_, s)| {
            let p = s.process.as_ref()?;
            p.works(s.clock.local(self.now)).then_some(p.at)
        });
        if let Some(other) = other {
            self.violated("§6", format!("{at:?} takes the lock while work of {other:?} lives"));
        }
    }
}

fn note(list: &mut Vec<(String, Time)>, who: Option<&str>, at: Time) {
    if let Some(who) = who
        && list.last().is_none_or(|(last, _)| last != who)
    {
        list.push((who.to_owned(), at));
    }
}

fn published(record: &Record) -> Time {
    record.duration().map_or(0, |d| d.as_nanos() as Time)
}

fn candidate_records(record: &Record) -> impl Iterator<Item = (&String, &String)> {
    record.annotations.iter().filter(|(key, _)| key.starts_with(CANDIDATE_PREFIX))
}
