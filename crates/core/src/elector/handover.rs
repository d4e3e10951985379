//! The incumbent's decision, and the handover (docs/protocol.md §9.2, §10): ping, designate, warm up, drain,
//! transfer.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Elector, Report, StopReason};
use crate::candidate::{Candidate, Readiness};
use crate::identity::Identity;
use crate::marks;
use crate::rank::{self, Choice, Ineligible, Ranked};
use crate::record::Record;
use crate::strategy::Strategy;
use crate::time::Instant;

/// How long candidates may take to answer a ping.
const PING_WINDOW: Duration = Duration::from_secs(5);
/// How often candidates are pinged while somebody is to be handed the lock.
const PING_EVERY: Duration = Duration::from_secs(2);
/// No planned move returns to the previous holder before this; doubling with each that does.
const DAMPING: Duration = Duration::from_secs(60);
const LONGEST_DAMPING: Duration = Duration::from_secs(30 * 60);
/// A successor that did not become warm is barred for this long, doubling.
const BARRED: Duration = Duration::from_secs(300);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Phase {
    /// Nobody better is known.
    #[default]
    Idle,
    /// Somebody is better, and has to stay so for a while.
    Settling { to: String, since: Instant },
    /// Candidates were asked whether they are alive, by this ping or a later one.
    Pinging { first: u64 },
    /// A successor was named; `written` once the lock says so.
    Designated { to: String, since: Instant, written: bool },
    /// The term was cancelled in a planned stop; renewals and pings go on.
    Draining,
}

#[derive(Debug, Default)]
pub(super) struct Handover {
    phase: Phase,
    /// The owner asked to hand over to anybody.
    asked: bool,
    pings: u64,
    ping_wanted: bool,
    /// When pings whose write was acknowledged were sent.
    sent: BTreeMap<u64, Instant>,
    last_sent: Option<Instant>,
    barred: BTreeMap<String, (Instant, u32)>,
    /// Planned moves back to a previous holder: how many in a row, and when the last was.
    returns: BTreeMap<String, (u32, Instant)>,
}

impl Handover {
    pub(super) fn ask(&mut self) {
        self.asked = true;
    }

    /// The term is being stopped as planned: somebody alive is to be found.
    pub(super) fn ping_now(&mut self) {
        if self.phase != Phase::Draining {
            self.phase = Phase::Draining;
        }
    }

    pub(super) fn reset(&mut self) {
        self.phase = Phase::Idle;
        self.asked = false;
        self.ping_wanted = false;
        self.sent.clear();
        self.last_sent = None;
    }

    pub(super) fn designated(&self) -> Option<&str> {
        match &self.phase {
            Phase::Designated { to, .. } => Some(to),
            _ => None,
        }
    }

    fn pings_now(&self) -> bool {
        matches!(self.phase, Phase::Pinging { .. } | Phase::Designated { .. } | Phase::Draining)
    }

    /// When the next ping is to be written.
    pub(super) fn ping_due(&self, now: Instant) -> Option<Instant> {
        match self.last_sent {
            _ if !self.pings_now() => None,
            Some(last) if !self.ping_wanted => Some(last + PING_EVERY),
            _ => Some(now),
        }
    }

    /// The ping that the next renewal carries.
    pub(super) fn ping_value(&mut self, identity: &Identity) -> Option<String> {
        if !self.pings_now() {
            return None;
        }
        self.pings += 1;
        self.ping_wanted = false;
        Some(format!("{identity}/{}", self.pings))
    }

    /// A lock write that was sent at `sent` was acknowledged.
    pub(super) fn acknowledged(&mut self, record: &Record, sent: Instant) {
        if let Some(n) = ping_number(record.annotations.get(marks::PING)) {
            self.sent.insert(n, sent);
            self.last_sent = self.last_sent.max(Some(sent));
            while self.sent.len() > 16 {
                self.sent.pop_first();
            }
        }
        if let Phase::Designated { to, written, .. } = &mut self.phase {
            *written = *written || marks::designated(record) == Some(to);
        }
    }

    /// When the latest ping that this candidate answered was sent, and its number.
    fn answered(&self, candidate: &Candidate, own: &str) -> Option<(u64, Instant)> {
        let ack = candidate.ack.as_ref()?;
        if !ack.strip_prefix(own)?.starts_with('/') {
            return None;
        }
        let n = ping_number(Some(ack))?;
        Some((n, *self.sent.get(&n)?))
    }

    pub(super) fn barred(&self, identity: &str, now: Instant) -> Option<Ineligible> {
        self.barred.get(identity).filter(|(until, _)| now < *until).map(|_| Ineligible::NotWarm)
    }

    fn bar(&mut self, identity: &str, now: Instant) {
        let times = self.barred.get(identity).map_or(0, |(_, times)| *times);
        let span = BARRED.saturating_mul(1 << times.min(6));
        self.barred.insert(identity.to_owned(), (now + span, times + 1));
    }

    fn damping(&self, to: &str, now: Instant) -> Duration {
        let times = self
            .returns
            .get(to)
            .filter(|(_, at)| now.since(*at) < LONGEST_DAMPING * 2)
            .map_or(0, |(n, _)| *n);
        DAMPING.saturating_mul(1 << times.min(6)).min(LONGEST_DAMPING)
    }
}

fn ping_number(value: Option<&String>) -> Option<u64> {
    value?.rsplit_once('/')?.1.parse().ok()
}

impl Elector {
    /// Decides whether somebody else should lead, and takes the next step towards it.
    pub(super) fn decide(&mut self) {
        let now = self.now.mono;
        let leading = self.term.as_ref().is_some_and(|t| t.leads(now));
        if !leading || self.exit.is_some() || self.shutdown.is_some() {
            if self.term.is_none() {
                self.handover.asked = false;
            }
            return;
        }
        let better = self.better_candidates();
        let Some(best) = better.first() else {
            if std::mem::take(&mut self.handover.asked) {
                self.report(Report::NobodyAnswered);
            }
            self.drop_plan();
            return;
        };
        if matches!(self.handover.phase, Phase::Idle) {
            self.handover.phase = Phase::Settling { to: best.identity.clone(), since: now };
        }
        match self.handover.phase.clone() {
            Phase::Idle | Phase::Draining => {}
            Phase::Settling { to, since } => {
                let since = if to == best.identity { since } else { now };
                self.handover.phase = Phase::Settling { to: best.identity.clone(), since };
                let due = since + self.settle(best);
                if now < due {
                    self.wake_at(due);
                } else {
                    self.handover.phase = Phase::Pinging { first: self.handover.pings + 1 };
                    self.handover.ping_wanted = true;
                }
            }
            Phase::Pinging { first } => self.collect_answers(first, &better),
            Phase::Designated { to, since, written } => {
                let Some(successor) = better.iter().find(|c| c.identity == to) else {
                    self.drop_plan();
                    return;
                };
                let limit = since + self.config.warm_timeout;
                if successor.warm && written {
                    self.note_return(&to);
                    self.stop_term(StopReason::Transfer);
                } else if now >= limit {
                    self.handover.bar(&to, now);
                    self.drop_plan();
                } else {
                    self.wake_at(limit);
                }
            }
        }
    }

    /// The eligible candidates that rank before this process, best first; without those to which a move
    /// would return too soon.
    fn better_candidates(&self) -> Vec<Candidate> {
        let now = self.now;
        let own = self.config.identity.as_str();
        let asked = self.handover.asked || !self.ready;
        let mut contenders = self.contenders(now);
        if contenders.len() < 2 {
            return Vec::new();
        }
        // The incumbent is eligible while it leads, unless it wants to go.
        for c in contenders.iter_mut().filter(|c| c.candidate.identity == own) {
            c.candidate.readiness = if asked { Readiness::Paused } else { Readiness::Ready };
        }
        let choice = rank::choose_strategy(self.view.record(), &contenders, now.wall);
        if choice.strategy().is_none() && !asked {
            return Vec::new();
        }
        let ranking = rank::rank(&contenders, Some(own), &choice, now.wall);
        let own_priority = ranking
            .iter()
            .find(|r| r.candidate.identity == own)
            .map_or(0, |r| rank::priority(&r.candidate, Some(own), now.wall));
        let tenure = self.tenure.as_ref();
        let previous = tenure.and_then(|t| t.previous.as_deref());
        let began = tenure.map_or(now.mono, |t| t.began);
        let too_soon = |c: &Candidate| {
            !asked
                && previous == Some(c.identity.as_str())
                && now.mono < began + self.handover.damping(&c.identity, now.mono)
                && rank::priority(c, Some(own), now.wall) <= own_priority
                && !fault!(self.config, NoDamping)
        };
        ranking
            .into_iter()
            .take_while(|r| r.candidate.identity != own)
            .filter(|r| r.eligible && !too_soon(&r.candidate))
            .map(|r| r.candidate)
            .collect()
    }

    /// How long this candidate must stay better: not at all where it mends a version skew, or was asked for.
    fn settle(&self, best: &Candidate) -> Duration {
        let emulation = |v: &Option<crate::Versions>| v.as_ref().map(|v| v.emulation().clone());
        let own = emulation(&self.config.candidacy.versions);
        let (choice, _) = self.ranking(self.now);
        let mends_skew = choice == Choice::By(Strategy::OldestEmulationVersion)
            && match (emulation(&best.versions), own) {
                (Some(theirs), Some(own)) => theirs.cmp_precedence(&own).is_lt(),
                _ => false,
            };
        if mends_skew || self.handover.asked { Duration::ZERO } else { self.config.settle }
    }

    /// Chooses the first in rank that answered, as soon as nobody better is outstanding.
    fn collect_answers(&mut self, first: u64, better: &[Candidate]) {
        let now = self.now.mono;
        let own = self.config.identity.as_str();
        let Some((_, asked_at)) = self.handover.sent.range(first..).next() else { return };
        let window = *asked_at + PING_WINDOW;
        let mut missed = Vec::new();
        let mut chosen = None;
        for candidate in better {
            if self.handover.answered(candidate, own).is_some_and(|(n, _)| n >= first) {
                chosen = Some(candidate.identity.clone());
                break;
            }
            if now < window {
                self.wake_at(window);
                return;
            }
            missed.push(candidate.identity.clone());
        }
        for identity in &missed {
            self.book.missed_ping(identity);
        }
        match chosen {
            Some(to) => {
                self.handover.phase = Phase::Designated { to: to.clone(), since: now, written: false };
                self.renew_at = now;
                self.report(Report::Designated { successor: to });
            }
            None => {
                self.handover.asked = false;
                self.report(Report::NobodyAnswered);
                self.drop_plan();
            }
        }
    }

    fn drop_plan(&mut self) {
        if self.handover.designated().is_some() {
            self.renew_at = self.now.mono;
        }
        self.handover.phase = Phase::Idle;
    }

    fn note_return(&mut self, to: &str) {
        let now = self.now.mono;
        let previous = self.tenure.as_ref().and_then(|t| t.previous.as_deref());
        if previous == Some(to) && !self.handover.asked {
            let times = match self.handover.returns.get(to) {
                Some((n, at)) if now.since(*at) < LONGEST_DAMPING * 2 => *n,
                _ => 0,
            };
            self.handover.returns.insert(to.to_owned(), (times + 1, now));
        }
    }

    /// Whom to hand the lock: the first in rank whose answer is young enough to believe that it is alive.
    pub(super) fn successor(&self) -> Option<String> {
        let now = self.now.mono;
        let own = self.config.identity.as_str();
        let contenders: Vec<_> =
            self.contenders(self.now).into_iter().filter(|c| c.candidate.identity != own).collect();
        let choice = rank::choose_strategy(self.view.record(), &contenders, self.now.wall);
        let alive = |r: &Ranked| {
            r.eligible
                && self
                    .handover
                    .answered(&r.candidate, own)
                    .is_some_and(|(_, at)| now.since(at) < PING_WINDOW)
        };
        rank::rank(&contenders, None, &choice, self.now.wall)
            .into_iter()
            .find(alive)
            .map(|r| r.candidate.identity)
    }
}
