//! An elector like client-go's: it polls, compares whole seconds, writes plainly, and keeps annotations.
//!
//! Its work ends at its own renew deadline, counted from the send: it is as good as its kind can be. What it
//! does not do is wait for anybody whose record was rewritten.

use std::time::Duration;

use incumbent_core::{Instant, Outcome, Record};

use crate::clock::{Clock, MILLI, SECOND};
use crate::event::{Ask, Event, Ticket};
use crate::scenario::PlainRelease;
use crate::trace::say;
use crate::world::World;

/// What it compares: all that its kind sees of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    holder: String,
    duration: Option<i32>,
    acquired: Option<i64>,
    renewed: Option<i64>,
    transitions: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    Get,
    Write,
    ReleaseGet,
    Release,
}

#[derive(Debug)]
pub(crate) struct Plain {
    id: String,
    clock: Clock,
    alive: bool,
    seen: Option<Seen>,
    seen_at: Instant,
    base: Option<Record>,
    pub(crate) leads: bool,
    /// When the latest acknowledged write was sent.
    renewed: Instant,
    sent: Instant,
    attempt: u64,
    stage: Stage,
}

impl Plain {
    pub(crate) fn new(index: usize, clock: Clock) -> Plain {
        let seen_at = clock.local(0);
        Plain {
            id: format!("plain-{index}"),
            clock,
            alive: false,
            seen: None,
            seen_at,
            base: None,
            leads: false,
            renewed: seen_at,
            sent: seen_at,
            attempt: 0,
            stage: Stage::Idle,
        }
    }

    fn observe(&mut self, record: Record, now: Instant) {
        let second = |t: Option<incumbent_core::WallTime>| t.map(|t| t.second());
        let seen = Seen {
            holder: record.holder().unwrap_or_default().to_owned(),
            duration: record.duration_seconds,
            acquired: second(record.acquire_time),
            renewed: second(record.renew_time),
            transitions: record.transitions,
        };
        if self.seen.as_ref() != Some(&seen) {
            self.seen = Some(seen);
            self.seen_at = now;
        }
        self.base = Some(record);
    }

    /// Whether another holds the lock, as far as it knows.
    fn blocked(&self, now: Instant) -> bool {
        self.seen.as_ref().is_some_and(|s| {
            let valid = Duration::from_secs(u64::try_from(s.duration.unwrap_or(0)).unwrap_or(0));
            !s.holder.is_empty() && s.holder != self.id && now < self.seen_at + valid
        })
    }
}

impl World {
    /// It starts, or starts again.
    pub(crate) fn plain_back(&mut self, index: usize) {
        if self.quiet.is_some() {
            return;
        }
        let now = self.plains[index].clock.local(self.now);
        let p = &mut self.plains[index];
        if !p.alive {
            p.alive = true;
            p.seen = None;
            p.base = None;
            p.seen_at = now;
            self.plain_next(index, 0);
        }
    }

    /// It ends, with its work.
    pub(crate) fn plain_dies(&mut self, index: usize) {
        self.plain_stops(index, "dies");
        let p = &mut self.plains[index];
        p.alive = false;
        p.attempt += 1;
        p.stage = Stage::Idle;
    }

    fn plain_next(&mut self, index: usize, delay: u64) {
        let attempt = self.plains[index].attempt;
        self.after(delay, Event::PlainTick { index, attempt });
    }

    fn plain_send(&mut self, index: usize, stage: Stage, ask: Ask) {
        let now = self.plains[index].clock.local(self.now);
        let p = &mut self.plains[index];
        p.attempt += 1;
        p.stage = stage;
        p.sent = now;
        let attempt = p.attempt;
        self.send(Ticket::Plain { index, attempt }, ask);
        // Unanswered, it tries again.
        self.after(5 * SECOND, Event::PlainTick { index, attempt });
    }

    /// The next attempt.
    pub(crate) fn plain_tick(&mut self, index: usize, attempt: u64) {
        let p = &self.plains[index];
        if !p.alive || p.attempt != attempt {
            return;
        }
        if p.leads && p.base.is_some() {
            self.plain_write(index);
        } else {
            self.plain_send(index, Stage::Get, Ask::Get);
        }
    }

    fn plain_write(&mut self, index: usize) {
        let now = self.plains[index].clock.now(self.now);
        let seconds = i32::from(self.timing.lease_seconds());
        let p = &self.plains[index];
        let base = p.base.clone().unwrap_or_default();
        let create = base.revision.0 == 0;
        let mine = base.holder() == Some(p.id.as_str());
        let record = Record {
            holder: Some(p.id.clone()),
            duration_seconds: Some(seconds),
            renew_time: Some(now.wall),
            acquire_time: if mine { base.acquire_time } else { Some(now.wall) },
            transitions: Some(base.transitions.unwrap_or(0) + i32::from(!mine && !create)),
            strategy: None,
            preferred_holder: None,
            ..base
        };
        let ask = if create { Ask::Create(record) } else { Ask::Update(record) };
        self.plain_send(index, Stage::Write, ask);
    }

    fn plain_done(&mut self, index: usize) {
        let p = &mut self.plains[index];
        p.stage = Stage::Idle;
        p.attempt += 1;
        let r = self.timing.retry_period().as_nanos() as u64;
        let delay = if p.leads { r } else { self.rng.between(r, r * 22 / 10) };
        self.plain_next(index, delay);
    }

    /// An answer reaches it.
    pub(crate) fn plain_answered(&mut self, index: usize, attempt: u64, outcome: Outcome) {
        let now = self.plains[index].clock.local(self.now);
        let deadline = self.timing.renew_deadline();
        let p = &mut self.plains[index];
        if !p.alive || p.attempt != attempt {
            return;
        }
        match (p.stage, outcome) {
            (Stage::Get, Outcome::Ok(record)) => {
                p.observe(record, now);
                if p.blocked(now) {
                    self.plain_done(index);
                } else {
                    self.plain_write(index);
                }
            }
            (Stage::Get, Outcome::NotFound) => {
                p.base = None;
                self.plain_write(index);
            }
            (Stage::Write, Outcome::Ok(record)) => {
                let sent = p.sent;
                p.observe(record, now);
                if now < sent + deadline {
                    p.renewed = sent;
                    let first = !p.leads;
                    p.leads = true;
                    let when = p.clock.when(sent + deadline);
                    self.queue.push(when, Event::PlainDeadline { index });
                    if first {
                        say!(self, "plain {index} leads");
                        self.check_plain_start(index);
                    }
                }
                self.plain_done(index);
            }
            (Stage::ReleaseGet, Outcome::Ok(record)) => {
                let mine = record.holder() == Some(p.id.as_str());
                if mine || self.scenario.plain_release == PlainRelease::FromMemory {
                    let wall = p.clock.wall(self.now);
                    let released = Record {
                        holder: Some(String::new()),
                        duration_seconds: Some(1),
                        renew_time: Some(wall),
                        acquire_time: Some(wall),
                        strategy: None,
                        preferred_holder: None,
                        ..record
                    };
                    self.plain_send(index, Stage::Release, Ask::Update(released));
                } else {
                    self.plain_done(index);
                }
            }
            _ => {
                p.base = None;
                self.plain_done(index);
            }
        }
    }

    /// At its renew deadline its work ends, and it may release.
    pub(crate) fn plain_deadline(&mut self, index: usize) {
        let p = &self.plains[index];
        if p.leads && p.clock.local(self.now) >= p.renewed + self.timing.renew_deadline() {
            self.plain_stops(index, "meets its deadline");
            self.plain_may_release(index);
        }
    }

    fn plain_may_release(&mut self, index: usize) {
        let delay = match self.scenario.plain_release {
            PlainRelease::Never => return,
            PlainRelease::Checked => 0,
            PlainRelease::FromMemory => self.rng.between(0, 12 * SECOND),
        };
        // Busy with its release, it does nothing else.
        self.plains[index].attempt += 1;
        self.plains[index].stage = Stage::Idle;
        self.after(delay, Event::PlainRelease { index });
    }

    pub(crate) fn plain_release(&mut self, index: usize) {
        if self.plains[index].alive && !self.plains[index].leads {
            self.plain_send(index, Stage::ReleaseGet, Ask::Get);
        }
    }

    /// It is cancelled: its work ends at once, then it may release; later it comes back.
    pub(crate) fn plain_cancelled(&mut self, index: usize) {
        if self.plains[index].leads {
            self.plain_stops(index, "is cancelled");
            self.plain_may_release(index);
        } else if self.rng.chance(300) {
            self.plain_dies(index);
            let delay = self.rng.between(100 * MILLI, 20 * SECOND);
            self.after(delay, Event::PlainBack { index });
        }
    }

    fn plain_stops(&mut self, index: usize, why: &str) {
        if std::mem::take(&mut self.plains[index].leads) {
            say!(self, "plain {index} {why}");
            self.plains[index].base = None;
            self.plain_worked();
        }
    }
}
