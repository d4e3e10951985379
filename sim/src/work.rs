//! The work of a term: how it starts and ends, and who sees to it that it ends in time.

use std::time::Duration;

use incumbent_core::{Input, StopReason, TermStart, TermStop, Validity, WorkEnd};

use crate::clock::{MILLI, SECOND};
use crate::event::{Event, Proc};
use crate::process::Stuck;
use crate::trace::say;
use crate::world::World;

/// A term, as the owner of the work knows it.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) number: u64,
    pub(crate) validity: Validity,
    pub(crate) stopped: Option<StopReason>,
    pub(crate) alive: bool,
    /// Whether the elector was told that work has ended.
    pub(crate) told: bool,
    /// Whether the lock has named somebody else, or nobody, or was gone, since it began.
    pub(crate) superseded: bool,
    pub(crate) clock_jumped: bool,
}

impl World {
    pub(crate) fn start_term(&mut self, at: Proc, start: TermStart) {
        self.check_start(at, &start);
        self.check_backed(at, start.validity);
        let itself = self.scenario.work_ends_itself;
        let ends = (self.quiet.is_none() && self.rng.chance(itself)).then(|| {
            let end = if self.rng.chance(600) { WorkEnd::Failed } else { WorkEnd::Done };
            (self.rng.mostly_low(0, 60 * SECOND), end)
        });
        let holder = self.api.get().and_then(|r| r.holder()).map(str::to_owned);
        let Some(p) = self.process_mut(at) else { return };
        let superseded = holder.as_deref() != Some(p.id.as_str());
        p.terms = start.number;
        p.asked_to_yield = false;
        p.term = Some(Term {
            number: start.number,
            validity: start.validity,
            stopped: None,
            alive: true,
            told: false,
            superseded,
            clock_jumped: false,
        });
        let when = self.slots[at.slot].clock.when(start.validity.hard_end);
        self.queue.push(when.max(self.now), Event::Look { at, term: start.number });
        if let Some((delay, end)) = ends {
            self.after(delay, Event::Ends { at, term: start.number, end });
        }
        self.leads(at);
    }

    pub(crate) fn stop_term(&mut self, at: Proc, stop: TermStop) {
        self.check_stop(at, &stop);
        let draw = self.rng.weighted(&self.scenario.work_end);
        let delay = match draw {
            0 => Some(self.rng.mostly_low(0, 50 * MILLI)),
            1 => Some(self.rng.between(100 * MILLI, 8 * SECOND)),
            2 => Some(self.rng.between(10 * SECOND, 60 * SECOND)),
            _ if self.quiet.is_some() => Some(self.rng.between(0, 30 * SECOND)),
            _ => None,
        };
        let when = self.slots[at.slot].clock.when(stop.kill_at).max(self.now);
        let now = self.now;
        let Some(p) = self.process_mut(at) else { return };
        let wrapper = p.wrapper;
        let Some(t) = &mut p.term else { return };
        let first = t.stopped.is_none();
        t.stopped = Some(stop.reason);
        let alive = t.alive;
        if !alive {
            return;
        }
        if first && let Some(delay) = delay {
            self.queue.push(now + delay, Event::Ends { at, term: stop.number, end: WorkEnd::Done });
        }
        if wrapper {
            self.queue.push(when, Event::Kill { at, term: stop.number });
        }
        self.trace.mix(stop.number);
    }

    fn term(&self, at: Proc, number: u64) -> Option<&Term> {
        self.process(at)?.term.as_ref().filter(|t| t.number == number && t.alive)
    }

    /// Puts an event off if the process stands still.
    fn put_off(&mut self, at: Proc, event: Event) -> Option<Event> {
        match self.process_mut(at) {
            Some(p) if p.stuck == Stuck::All => {
                p.deferred.push(event);
                None
            }
            Some(_) => Some(event),
            None => None,
        }
    }

    /// Work has ended by itself, or after its cancellation.
    pub(crate) fn ends(&mut self, at: Proc, term: u64, end: WorkEnd) {
        if self.term(at, term).is_some() && self.put_off(at, Event::Ends { at, term, end }).is_some() {
            self.work_over(at, term, end, "ends");
        }
    }

    /// The wrapper kills its child: it takes a moment to die.
    pub(crate) fn kill(&mut self, at: Proc, term: u64) {
        let Some(t) = self.term(at, term) else { return };
        // A later stop may have put it off.
        if t.stopped.is_none() {
            return;
        }
        if self.put_off(at, Event::Kill { at, term }).is_some() {
            let delay = self.rng.mostly_low(0, 900 * MILLI);
            self.after(delay, Event::Dies { at, term });
        }
    }

    pub(crate) fn dies(&mut self, at: Proc, term: u64) {
        if self.term(at, term).is_some() {
            self.work_over(at, term, WorkEnd::Done, "was killed");
        }
    }

    /// Whoever guards the work ends it at its hard end.
    pub(crate) fn look(&mut self, at: Proc, term: u64) {
        let local = self.local(at);
        let gentle = self.scenario.gentle();
        let Some(t) = self.term(at, term) else { return };
        if local < t.validity.hard_end {
            return;
        }
        let planned = t.stopped.is_none_or(|r| !r.is_loss());
        if self.put_off(at, Event::Look { at, term }).is_none() {
            return;
        }
        if planned && gentle {
            return self.violated(
                "§10",
                format!("work of {at:?} met its hard end in a planned stop without faults"),
            );
        }
        let Some(p) = self.process(at) else { return };
        if p.wrapper {
            self.checks.stats.hard_ends += 1;
            self.work_over(at, term, WorkEnd::Done, "is killed at its hard end");
        } else if p.stuck == Stuck::Elector {
            self.checks.stats.hard_ends += 1;
            self.crash(at, "is aborted by its guard at the hard end");
        } else if local >= p.term.as_ref().map_or(local, |t| t.validity.hard_end + Duration::from_millis(40))
        {
            self.violated(
                "I1",
                format!("work of {at:?} outlives its hard end and its elector did not abort"),
            );
        } else {
            // Its own elector has to see to it.
            self.after(45 * MILLI, Event::Look { at, term });
        }
    }

    pub(crate) fn abort(&mut self, at: Proc) {
        let Some(p) = self.process(at) else { return };
        // Work that ended at the last moment is not known to have ended before the clock was looked at.
        let Some(t) = p.term.as_ref().filter(|t| t.alive) else { return };
        let (number, planned) = (t.number, t.stopped.is_none_or(|r| !r.is_loss()));
        if planned && self.scenario.gentle() {
            return self.violated("§10", format!("{at:?} aborts in a planned stop without faults"));
        }
        self.checks.stats.hard_ends += 1;
        if self.process(at).is_some_and(|p| p.wrapper) {
            self.after(0, Event::Dies { at, term: number });
        } else {
            self.crash(at, "aborts");
        }
    }

    fn work_over(&mut self, at: Proc, term: u64, end: WorkEnd, how: &str) {
        say!(self, "{at:?} work of term {term} {how} ({end:?})");
        let Some(p) = self.process_mut(at) else { return };
        let Some(t) = &mut p.term else { return };
        t.alive = false;
        let stopped = t.stopped;
        self.worked(at, stopped);
        self.feed(at, Input::WorkEnded(end));
    }
}
