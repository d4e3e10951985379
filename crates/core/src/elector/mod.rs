//! The elector: one process's part in one election.
//!
//! One file per role: [`sync`] keeps the view fresh, [`answers`] takes in what requests brought,
//! [`contend`] is the follower that wants to lead, [`holder`] renews and leaves, [`term`] starts and stops
//! work, [`handover`] decides who should lead and hands over, [`candidacy`] keeps the own record on the lock.

mod answers;
mod candidacy;
mod contend;
mod handover;
mod holder;
mod io;
mod sync;
mod term;

pub use io::*;

use std::time::Duration;

use crate::book::Book;
use crate::rank::{self, Choice, Contender, Ranked};
use crate::record::{Record, Revision};
use crate::rng::Rng;
use crate::tenure::{Sent, Stamps, Tenure, Unsettled};
use crate::time::{Instant, Now};

use crate::follow::View;
use candidacy::OwnRecord;
use contend::Contention;
use handover::Handover;
use holder::Exit;
use sync::Sync;
use term::Term;

/// A lock request in flight.
#[derive(Debug)]
struct Op {
    id: OpId,
    kind: OpKind,
    deadline: Instant,
    /// The highest revision known when it was sent: an uncached read that answers with less has seen the
    /// store go back.
    known: Revision,
}

#[derive(Debug)]
enum OpKind {
    Read,
    Write { kind: WriteKind, base: Option<Revision>, sent: Sent },
    Announce,
}

/// What a lock write is for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum WriteKind {
    Takeover,
    Renewal,
    Transfer { successor: String },
    Release { marked: bool },
}

/// One process's part in the election of one lock. See the [crate] documentation for how to drive it.
pub struct Elector {
    config: Config,
    rng: Rng,
    now: Now,
    view: View,
    book: Book,
    sync: Sync,
    op: Option<Op>,
    ops: u64,
    tenure: Option<Tenure>,
    term: Option<Term>,
    terms: u64,
    stamps: Stamps,
    unsettled: Unsettled,
    exit: Option<Exit>,
    /// The last holder other than this process that was seen.
    last_other: Option<String>,
    renew_at: Instant,
    /// No renewal before this: the last one failed.
    retry_floor: Instant,
    /// Failed lock requests in a row.
    failures: u32,
    contention: Contention,
    /// Does not contend before this, or before another has led.
    hold_back: Option<Instant>,
    ready: bool,
    handover: Handover,
    own: OwnRecord,
    shutdown: Option<Instant>,
    /// When the work of the last term had ended.
    work_ended_at: Instant,
    finished: bool,
    last_contact: Option<Instant>,
    last_failure: Option<String>,
    wake: Option<Instant>,
    out: Vec<Command>,
}

impl Elector {
    /// A new elector. `seed` feeds its jitter; draw it at random outside of tests.
    pub fn new(config: Config, now: Now, seed: u64) -> Elector {
        let own = OwnRecord::new(&config, now.mono);
        let view = View::new(&config);
        Elector {
            rng: Rng::new(seed),
            now,
            view,
            book: Book::default(),
            sync: Sync::new(now.mono),
            op: None,
            ops: 0,
            tenure: None,
            term: None,
            terms: 0,
            stamps: Stamps::default(),
            unsettled: Unsettled::default(),
            exit: None,
            last_other: None,
            renew_at: now.mono,
            retry_floor: now.mono,
            failures: 0,
            contention: Contention::default(),
            hold_back: None,
            ready: true,
            handover: Handover::default(),
            own,
            shutdown: None,
            work_ended_at: now.mono,
            finished: false,
            last_contact: None,
            last_failure: None,
            wake: Some(now.mono),
            out: Vec::new(),
            config,
        }
    }

    /// Tells the elector what happened, and when it was noticed; returns what to do, in this order.
    ///
    /// `now` must never go back. Call it with [`Input::Wake`] at or after [`Elector::next_wake`].
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Command> {
        if self.finished {
            return Vec::new();
        }
        // Time first: whoever was stopped or suspended looks at the clock before it believes anything.
        self.look_at_clock(now);
        match input {
            Input::Wake => {}
            Input::Answer { op, outcome } => self.answered(op, outcome),
            Input::Watch(event) => self.watched(event),
            Input::WorkEnded(how) => self.work_ended(how),
            Input::Request(request) => self.requested(request),
        }
        self.advance();
        std::mem::take(&mut self.out)
    }

    /// When to call [`Elector::handle`] with [`Input::Wake`], if nothing happens before.
    pub fn next_wake(&self) -> Option<Instant> {
        self.wake
    }

    /// Whether this process leads at `now`: a term was started, was not cancelled, and is still valid.
    ///
    /// Computed on every call: a process that was stopped or suspended sees the truth on its first look.
    pub fn is_leader(&self, now: Instant) -> bool {
        self.term.as_ref().is_some_and(|t| t.leads(now))
    }

    /// Until when the present term may act; `None` without a term whose work may still live.
    pub fn validity(&self) -> Option<Validity> {
        self.term.as_ref().map(|t| t.validity)
    }

    /// What this elector is doing.
    pub fn role(&self, now: Instant) -> Role {
        match (&self.term, &self.tenure) {
            _ if self.finished => Role::Finished,
            (Some(term), _) if term.leads(now) => Role::Leading,
            (Some(_), _) => Role::Stopping,
            (None, Some(_)) => Role::Waiting,
            (None, None) if self.view.is_known() => Role::Follower,
            (None, None) => Role::Starting,
        }
    }

    /// The lock as it was last seen.
    pub fn lock(&self) -> Option<&Record> {
        self.view.record()
    }

    /// When the lock expires for others if it is not renewed, on our clock; `None` if it is not held.
    pub fn expires(&self) -> Option<Instant> {
        self.view.expires(&self.config)
    }

    /// Until when nobody may take the lock over, because work of a former holder may still live.
    pub fn guarded_until(&self) -> Option<Instant> {
        self.view.guard().filter(|g| self.now.mono < *g)
    }

    /// The strategy of the lock, and the candidates as this elector ranks them, best first.
    pub fn ranking(&self, now: Now) -> (Choice, Vec<Ranked>) {
        let contenders = self.contenders(now);
        let choice = rank::choose_strategy(self.view.record(), &contenders, now.wall);
        let holder = self.view.record().and_then(Record::holder);
        let ranked = rank::rank(&contenders, holder, &choice, now.wall);
        (choice, ranked)
    }

    /// When the server last answered a request, whatever it answered, or the watch last told something.
    pub fn last_contact(&self) -> Option<Instant> {
        self.last_contact
    }

    /// What went wrong with the latest request; `None` once one succeeded.
    pub fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The candidates that stand on the lock, and this process as it would announce itself now.
    fn contenders(&self, now: Now) -> Vec<Contender> {
        let own = self.config.identity.as_str();
        let mut all: Vec<Contender> =
            self.book.contenders(now.mono).filter(|c| c.candidate.identity != own).collect();
        for contender in &mut all {
            if contender.observed.is_none() {
                contender.observed = self.handover.barred(&contender.candidate.identity, now.mono);
            }
        }
        all.push(Contender { candidate: self.own_candidate(), observed: None });
        all
    }

    fn holds(&self, record: &Record) -> bool {
        record.holder() == Some(self.config.identity.as_str())
    }

    /// Does everything that is due, and finds out when the next thing is.
    fn advance(&mut self) {
        self.wake = None;
        self.give_up_late_requests();
        self.guard_term();
        self.start_term();
        self.leave();
        self.decide();
        self.renew();
        self.contend();
        self.announce();
        self.keep_in_sync();
        self.finish();
    }

    /// Asks to be woken at `at`.
    fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |w| w.min(at)));
    }

    fn next_op(&mut self) -> (OpId, Instant) {
        self.ops += 1;
        (OpId(self.ops), self.now.mono + self.config.timing.attempt_timeout())
    }

    /// The retry period with jitter: one to 1.2 times.
    fn retry_period(&mut self) -> Duration {
        self.rng.percent(self.config.timing.retry_period(), 100, 120)
    }

    /// A delay that doubles with each failure in a row, up to the retry period.
    fn back_off(&mut self) -> Duration {
        let longest = self.config.timing.retry_period();
        let first = (longest / 16).max(Duration::from_millis(20));
        let delay = first.saturating_mul(1 << self.failures.min(10)).min(longest);
        self.rng.percent(delay, 80, 120)
    }

    fn report(&mut self, report: Report) {
        self.out.push(Command::Report(report));
    }

    fn look_at_clock(&mut self, now: Now) {
        let before = std::mem::replace(&mut self.now, now);
        let passed = now.mono.since(before.mono).as_micros() as i128;
        let wall_passed = i128::from(now.wall.as_micros()) - i128::from(before.wall.as_micros());
        let jump = (wall_passed - passed).unsigned_abs();
        self.guard_term();
        if jump > self.config.timing.renew_deadline().as_micros() {
            self.stop_term(StopReason::ClockJump);
        }
    }

    fn requested(&mut self, request: Request) {
        match request {
            Request::Yield => self.handover.ask(),
            Request::Shutdown => {
                if self.shutdown.is_none() {
                    self.shutdown = Some(self.now.mono);
                    self.handover.ping_now();
                    self.renew_at = self.now.mono;
                    self.stop_term(StopReason::Shutdown);
                }
            }
            Request::EndTerm => self.stop_term(StopReason::WorkEnded),
            Request::Warm => self.own.warmed_up(),
            Request::Ready(ready) => {
                self.ready = ready;
                if !ready && self.term.is_some() {
                    self.handover.ask();
                }
            }
        }
    }

    /// After a shutdown was asked for: whether everything is done that can be done.
    fn finish(&mut self) {
        let Some(since) = self.shutdown else { return };
        if self.term.is_some() {
            return;
        }
        let ended = self.exit.as_ref().map_or(since, |e| e.since).max(since).max(self.work_ended_at);
        let limit = ended + self.config.timing.attempt_timeout() * 3;
        let done = self.tenure.is_none() && self.exit.is_none() && !self.own.stands_on(self.view.record());
        let writing = matches!(self.op, Some(Op { kind: OpKind::Write { .. }, .. }));
        if (done && !writing && !self.sync.must_read) || self.now.mono >= limit {
            self.finished = true;
            self.wake = None;
            self.out.push(Command::Finished);
        } else {
            self.wake_at(limit);
        }
    }
}
