//! How requests and answers travel, and how the server answers them.

use std::rc::Rc;
use std::time::Duration;

use incumbent_core::{Input, Outcome, Record, Refusal, Revision, WatchInput};

use crate::api::{Change, Denied, Effect, Replay};
use crate::clock::{MILLI, SECOND, Time};
use crate::event::{Ask, Event, Flight, Proc, Ticket, Told};
use crate::trace::say;
use crate::world::World;

/// One process's watch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) id: u64,
    pub(crate) open: bool,
    /// Since when.
    pub(crate) since: Time,
    /// Tells nothing any more, without having said so.
    pub(crate) dead: bool,
    /// When its latest event arrives: they never overtake one another.
    pub(crate) last: Time,
}

/// Who wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writer {
    /// One of our slots; the process may be gone by now.
    Ours(Proc),
    Plain(usize),
    Stranger,
}

impl World {
    fn line_of(&self, ticket: Ticket) -> usize {
        match ticket {
            Ticket::Node(at, _) | Ticket::Watch(at, _) => at.slot,
            Ticket::Plain { index, .. } => self.scenario.nodes + index,
        }
    }

    /// Sends a request into the network.
    pub(crate) fn send(&mut self, ticket: Ticket, ask: Ask) {
        let line = self.lines[self.line_of(ticket)];
        let net = self.net().clone();
        let cut = line.cut_out > self.now;
        if (cut && self.rng.chance(500)) || self.rng.chance(net.not_sent) {
            let delay = self.latency();
            return self.answer_later(ticket, delay, refused(Refusal::NotSent, None));
        }
        if cut || self.rng.chance(net.lost_request) {
            say!(self, "  request of {ticket:?} is lost");
            return self.perhaps_reset(ticket);
        }
        let mut delay = self.latency();
        if self.rng.chance(net.slow) {
            delay += self.rng.mostly_low(50 * MILLI, 3 * SECOND);
        }
        if self.rng.chance(net.late) {
            delay += self.rng.mostly_low(SECOND, 45 * SECOND);
            say!(self, "  request of {ticket:?} is late by {} ms", delay / MILLI);
        }
        let write = matches!(ask, Ask::Create(_) | Ask::Update(_) | Ask::Patch { .. });
        if write && self.rng.chance(net.duplicated) {
            let again = delay + self.rng.mostly_low(0, 30 * SECOND);
            let flight = Flight { ticket, ask: ask.clone(), muted: true };
            self.after(again, Event::Arrive(Box::new(flight)));
        }
        self.after(delay, Event::Arrive(Box::new(Flight { ticket, ask, muted: false })));
    }

    /// A connection that is gone is noticed at once, or never.
    fn perhaps_reset(&mut self, ticket: Ticket) {
        if self.rng.chance(300) {
            let delay = self.rng.mostly_low(0, 3 * SECOND);
            self.answer_later(ticket, delay, unknown("connection reset", None));
        }
    }

    fn answer_later(&mut self, ticket: Ticket, delay: Time, outcome: Outcome) {
        self.after(delay, Event::Answer(ticket, Box::new(outcome)));
    }

    /// A request reaches the server.
    pub(crate) fn arrive(&mut self, flight: Flight) {
        let Flight { ticket, ask, muted } = flight;
        if self.server_stands > self.now {
            let delay = self.server_stands - self.now + self.rng.mostly_low(0, 50 * MILLI);
            return self.after(delay, Event::Arrive(Box::new(Flight { ticket, ask, muted })));
        }
        if let (Ticket::Watch(at, id), Ask::Watch { from }) = (ticket, &ask) {
            return self.open_watch(at, id, *from);
        }
        let error = self.net().error;
        let outcome = if self.rng.chance(error) {
            let soon = self.rng.chance(500).then(|| Duration::from_secs(1));
            match self.rng.below(7) {
                0 | 1 => refused(Refusal::Throttled, soon),
                2 | 3 => unknown("503", soon),
                4 => unknown("500", None),
                5 => {
                    self.execute(ticket, &ask);
                    unknown("500 after the write", None)
                }
                _ => refused(Refusal::Forbidden, None),
            }
        } else {
            self.execute(ticket, &ask)
        };
        if muted {
            return;
        }
        let cut = self.lines[self.line_of(ticket)].cut_in > self.now;
        let lost = self.net().lost_answer;
        if cut || self.rng.chance(lost) {
            say!(self, "  answer to {ticket:?} is lost");
            return self.perhaps_reset(ticket);
        }
        let slow = self.net().slow;
        let mut delay = self.latency();
        if self.rng.chance(slow) {
            delay += self.rng.mostly_low(50 * MILLI, 12 * SECOND);
        }
        self.answer_later(ticket, delay, outcome);
    }

    fn execute(&mut self, ticket: Ticket, ask: &Ask) -> Outcome {
        let before = self.api.get().cloned();
        let writer = match ticket {
            Ticket::Node(at, _) | Ticket::Watch(at, _) => Writer::Ours(at),
            Ticket::Plain { index, .. } => Writer::Plain(index),
        };
        if self.rng.chance(100) {
            let times = self.rng.between(1, 3);
            self.api.write_elsewhere(times);
        }
        let result = match ask {
            Ask::Get => {
                return before.map_or(Outcome::NotFound, |r| Outcome::Ok((*r).clone()));
            }
            Ask::Create(record) => self.api.create(record),
            Ask::Update(record) => self.api.update(record),
            Ask::Patch { uid, key, value } => self.api.patch(uid, key, value.as_deref()),
            Ask::Watch { .. } => return Outcome::NotFound,
        };
        match result {
            Ok((record, effect)) => {
                if effect != Effect::Nothing {
                    self.committed(writer, before.as_ref(), effect);
                }
                Outcome::Ok((*record).clone())
            }
            Err(Denied::Conflict) => Outcome::Conflict,
            Err(Denied::NotFound) => Outcome::NotFound,
        }
    }

    /// A stranger changes the lock, if there is one.
    pub(crate) fn scribble(&mut self, write: impl FnOnce(&mut Record)) {
        let Some(before) = self.api.get().cloned() else { return };
        let mut next = (*before).clone();
        write(&mut next);
        if let Ok((_, effect)) = self.api.update(&next)
            && effect != Effect::Nothing
        {
            self.committed(Writer::Stranger, Some(&before), effect);
        }
    }

    /// A stranger deletes the lock.
    pub(crate) fn delete(&mut self) {
        let before = self.api.get().cloned();
        if self.api.delete().is_some() {
            say!(self, "stranger deletes the lock");
            self.committed(Writer::Stranger, before.as_ref(), Effect::Updated);
        }
    }

    /// The lock was changed: checks it, and tells the watches.
    pub(crate) fn committed(&mut self, writer: Writer, before: Option<&Rc<Record>>, effect: Effect) {
        let Some(change) = self.api.last().cloned() else { return };
        self.trace.mix(change.revision().0);
        if self.trace.on()
            && let Change::Put(r) = &change
        {
            let (holder, duration) = (r.holder.as_deref().unwrap_or("-"), r.duration_seconds);
            let mut notes: Vec<String> = r
                .annotations
                .iter()
                .filter(|(k, v)| {
                    before.is_none_or(|b| b.annotations.get(*k) != Some(*v))
                        || k.starts_with("incumbent.dev/")
                })
                .map(|(k, v)| format!("{}={v}", k.rsplit('/').next().unwrap_or(k)))
                .collect();
            notes.sort();
            let time = |t: Option<incumbent_core::WallTime>| {
                t.map_or("-".to_owned(), |t| t.to_string()[11..26].to_owned())
            };
            say!(
                self,
                "  COMMIT {} by {writer:?} {effect:?}: holder {holder:?} {duration:?} acquired {} renewed {} transitions {:?} {notes:?}",
                r.revision,
                time(r.acquire_time),
                time(r.renew_time),
                r.transitions
            );
        }
        self.check_commit(writer, before.map(|r| &**r), effect);
        for slot in 0..self.slots.len() {
            if let Some(p) = &self.slots[slot].process
                && p.watch.open
                && !p.watch.dead
            {
                let at = p.at;
                self.tell(
                    at,
                    match &change {
                        Change::Put(r) => Told::Changed(r.clone()),
                        Change::Deleted(r) => Told::Deleted(*r),
                    },
                );
            }
        }
        if self.delete_when_free && self.quiet.is_none() && self.may_delete() {
            self.delete_when_free = false;
            self.delete();
        }
    }

    /// The server opens a watch.
    fn open_watch(&mut self, at: Proc, id: u64, from: Option<Revision>) {
        let stale_list = self.net().stale_list;
        let stale = if from.is_none() && self.rng.chance(stale_list) { self.rng.between(1, 4) } else { 0 };
        let cut = self.lines[at.slot].cut_in > self.now;
        let replay = match from {
            Some(revision) => self.api.replay(revision),
            None => Replay::From(self.api.replay_present(stale as usize)),
        };
        let now = self.now;
        let Some(p) = self.process_mut(at) else { return };
        if p.watch.id != id || p.watch.open {
            return;
        }
        p.watch.open = true;
        p.watch.since = now;
        match replay {
            Replay::Gone => {
                self.tell(at, Told::Broken);
            }
            Replay::From(changes) => {
                if cut {
                    return self.let_die(at);
                }
                self.tell(at, Told::Opened);
                for change in changes {
                    self.tell(
                        at,
                        match change {
                            Change::Put(r) => Told::Changed(r),
                            Change::Deleted(r) => Told::Deleted(r),
                        },
                    );
                }
            }
        }
    }

    /// The watch tells nothing any more; sooner or later, or never, that is noticed.
    fn let_die(&mut self, at: Proc) {
        let noticed = self.rng.chance(850).then(|| self.rng.mostly_low(SECOND, 60 * SECOND));
        let now = self.now;
        let Some(p) = self.process_mut(at) else { return };
        p.watch.dead = true;
        let (watch, last) = (p.watch.id, p.watch.last);
        if let Some(delay) = noticed {
            self.queue.push(last.max(now + delay), Event::Tell { at, watch, told: Told::Broken });
        }
    }

    /// Sends something down a watch.
    pub(crate) fn tell(&mut self, at: Proc, told: Told) {
        if self.lines[at.slot].cut_in > self.now {
            return self.let_die(at);
        }
        let net = self.net().clone();
        let breaks = self.rng.chance(net.watch_break);
        let mut delay = self.latency();
        if self.rng.chance(net.watch_stall) {
            delay += self.rng.mostly_low(50 * MILLI, 20 * SECOND);
        }
        let now = self.now;
        let Some(p) = self.process_mut(at) else { return };
        p.watch.last = p.watch.last.max(now + delay);
        let (watch, last) = (p.watch.id, p.watch.last);
        let told = if breaks { Told::Broken } else { told };
        if matches!(told, Told::Broken) {
            p.watch.dead = true;
        }
        self.queue.push(last, Event::Tell { at, watch, told });
    }

    /// Something comes out of a watch.
    pub(crate) fn told(&mut self, at: Proc, watch: u64, told: Told) {
        let Some(p) = self.process_mut(at) else { return };
        if p.watch.id != watch {
            return;
        }
        let input = match told {
            Told::Opened => WatchInput::Opened,
            Told::Changed(record) => WatchInput::Changed((*record).clone()),
            Told::Deleted(revision) => WatchInput::Deleted(revision),
            Told::Broken => {
                p.watch = Watch::default();
                WatchInput::Broken
            }
            Told::Refused => {
                p.watch = Watch::default();
                WatchInput::Refused("403: may not watch".to_owned())
            }
        };
        self.feed(at, Input::Watch(input));
    }

    /// Breaks every watch.
    pub(crate) fn break_watches(&mut self) {
        for slot in 0..self.slots.len() {
            let delay = self.latency() + self.rng.mostly_low(0, SECOND);
            let now = self.now;
            if let Some(p) = &mut self.slots[slot].process
                && p.watch.id != 0
            {
                p.watch.dead = true;
                let (at, watch, when) = (p.at, p.watch.id, p.watch.last.max(now + delay));
                self.queue.push(when, Event::Tell { at, watch, told: Told::Broken });
            }
        }
    }

    /// An answer reaches whoever asked.
    pub(crate) fn answered(&mut self, ticket: Ticket, outcome: Outcome) {
        match ticket {
            Ticket::Node(at, op) => {
                // A transport drops a request at its deadline; one that is stuck may still deliver.
                let drops = self.rng.chance(500);
                let now = self.now;
                let Some(p) = self.process_mut(at) else { return };
                if drops && p.given_up(op, now) {
                    return;
                }
                self.feed(at, Input::Answer { op, outcome });
            }
            Ticket::Watch(at, watch) => {
                if self.process_mut(at).is_some_and(|p| p.watch.id == watch && !p.watch.open) {
                    self.told(at, watch, Told::Broken);
                }
            }
            Ticket::Plain { index, attempt } => self.plain_answered(index, attempt, outcome),
        }
    }
}

pub(crate) fn refused(refusal: Refusal, retry_after: Option<Duration>) -> Outcome {
    Outcome::Refused { refusal, message: String::new(), retry_after }
}

fn unknown(message: &str, retry_after: Option<Duration>) -> Outcome {
    Outcome::Unknown { message: message.to_owned(), retry_after }
}
