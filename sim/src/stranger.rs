//! What happens to the world now and then: faults, strangers, operators, and the end of all faults.

use incumbent_core::{Input, Request, candidate, marks};

use crate::clock::{SECOND, Time};
use crate::event::{Event, Proc, Told};
use crate::process::Stuck;
use crate::scenario::{Act, Deletes};
use crate::trace::say;
use crate::world::World;

impl World {
    /// One act, and the next one later.
    pub(crate) fn act(&mut self) {
        if self.quiet.is_some() {
            return;
        }
        let weights: Vec<u32> = self.scenario.acts.iter().map(|(w, _)| *w).collect();
        let act = self.scenario.acts[self.rng.weighted(&weights)].1;
        say!(self, "ACT {act:?}");
        self.note_act();
        self.play(act);
        let delay = self.rng.between(self.scenario.act_every / 10, self.scenario.act_every * 19 / 10);
        self.after(delay, Event::Act);
    }

    fn processes(&self) -> Vec<Proc> {
        self.slots.iter().filter_map(|s| s.process.as_ref()).map(|p| p.at).collect()
    }

    fn some_process(&mut self) -> Option<Proc> {
        let all = self.processes();
        if all.is_empty() { None } else { Some(*self.rng.pick(&all)) }
    }

    /// The process whose term's work lives, else any.
    fn some_leader(&mut self) -> Option<Proc> {
        let leader = self.slots.iter().filter_map(|s| s.process.as_ref()).find(|p| p.term.is_some());
        match leader.map(|p| p.at) {
            Some(at) => Some(at),
            None => self.some_process(),
        }
    }

    /// About the time that matters here: around the deadlines of a lease.
    fn a_while(&mut self) -> Time {
        let p = u64::from(self.timing.lease_seconds()) * SECOND;
        match self.rng.below(4) {
            0 => self.rng.between(0, 3 * SECOND),
            1 => self.rng.between(p / 2, p * 3 / 2),
            _ => self.rng.between(SECOND, 3 * p),
        }
    }

    fn play(&mut self, act: Act) {
        let span = self.a_while();
        match act {
            Act::CutNode => {
                let line = self.rng.below(self.lines.len() as u64) as usize;
                self.cut(line, span);
            }
            Act::CutLeader => {
                if let Some(index) = self.plains.iter().position(|p| p.leads) {
                    self.cut(self.scenario.nodes + index, span);
                } else if let Some(at) = self.some_leader() {
                    self.cut(at.slot, span);
                }
            }
            Act::Pause | Act::Stick => {
                let at = if self.rng.chance(600) { self.some_leader() } else { self.some_process() };
                let stuck = if act == Act::Pause { Stuck::All } else { Stuck::Elector };
                if let Some(p) = at.and_then(|at| self.process_mut(at))
                    && p.stuck == Stuck::No
                {
                    p.stuck = stuck;
                    let at = p.at;
                    say!(self, "{at:?} {stuck:?} for {} ms", span / 1_000_000);
                    self.after(span, Event::Resume { at });
                }
            }
            Act::Crash => {
                if let Some(at) = self.some_process() {
                    self.crash(at, "crashes");
                }
            }
            Act::CrashLeader => {
                if let Some(at) = self.some_leader() {
                    self.crash(at, "crashes");
                }
            }
            Act::Shutdown => {
                if let Some(at) = self.some_process() {
                    self.shut_down(at);
                }
            }
            Act::ReplaceOldest => {
                let oldest = self
                    .slots
                    .iter()
                    .enumerate()
                    .filter(|(_, s)| s.process.as_ref().is_some_and(|p| !p.shutting_down))
                    .min_by_key(|(_, s)| s.version)
                    .map(|(i, _)| i);
                if let Some(slot) = oldest {
                    self.slots[slot].version += 1;
                    if let Some(at) = self.slots[slot].process.as_ref().map(|p| p.at) {
                        self.shut_down(at);
                    }
                }
            }
            Act::Yield => {
                if let Some(at) = self.some_leader()
                    && let Some(p) = self.process_mut(at)
                {
                    p.asked_to_yield = p.term.is_some();
                    self.feed(at, Input::Request(Request::Yield));
                }
            }
            Act::EndTerm => {
                if let Some(at) = self.some_leader() {
                    self.feed(at, Input::Request(Request::EndTerm));
                }
            }
            Act::Unready => {
                let at = if self.rng.chance(500) { self.some_leader() } else { self.some_process() };
                if let Some(p) = at.and_then(|at| self.process_mut(at))
                    && p.ready
                    && p.stuck == Stuck::No
                    && !p.shutting_down
                {
                    p.ready = false;
                    // Ready again in the middle of it, it hands over all the same.
                    p.asked_to_yield |= p.term.is_some();
                    let at = p.at;
                    self.feed(at, Input::Request(Request::Ready(false)));
                    self.after(span, Event::ReadyAgain { at });
                }
            }
            Act::StepWall => self.step_wall(),
            Act::ServerPause => self.server_stands = self.now + span.min(20 * SECOND),
            Act::ServerRestart => {
                self.server_stands = self.now + self.rng.between(0, 4 * SECOND);
                self.break_watches();
            }
            Act::Compact => self.api.compact(),
            Act::Wipe => {
                let wall = self.slots[0].clock.wall(self.now);
                let how = self.rng.below(3);
                self.scribble(|r| {
                    r.holder = if how == 2 { None } else { Some(String::new()) };
                    if how == 1 {
                        r.renew_time = Some(wall);
                    }
                });
            }
            Act::Appoint => self.appoint(),
            Act::Delete => self.wants_deletion(),
            Act::PlainStop => {
                if !self.plains.is_empty() {
                    let index = self.plains.iter().position(|p| p.leads);
                    let any = self.rng.below(self.plains.len() as u64) as usize;
                    self.plain_cancelled(index.unwrap_or(any));
                }
            }
            Act::Elsewhere => {
                let times = self.rng.between(1, 1000);
                self.api.write_elsewhere(times);
                self.scribble(|r| {
                    r.annotations.insert("example.com/note".to_owned(), times.to_string());
                });
            }
        }
    }

    fn cut(&mut self, line: usize, span: Time) {
        let until = self.now + span;
        let how = self.rng.below(4);
        let late = self.rng.below(2) * self.rng.below(SECOND);
        let line = &mut self.lines[line];
        if how != 1 {
            line.cut_out = line.cut_out.max(until);
        }
        if how != 0 {
            line.cut_in = line.cut_in.max(until + late);
        }
        say!(self, "cut {how}: {line:?}");
    }

    fn shut_down(&mut self, at: Proc) {
        let Some(p) = self.process_mut(at) else { return };
        if p.stuck == Stuck::No {
            p.shutting_down = true;
            self.feed(at, Input::Request(Request::Shutdown));
        }
    }

    fn step_wall(&mut self) {
        let slot = self.rng.below(self.slots.len() as u64) as usize;
        let most = *self.rng.pick(&[500_000, 5_000_000, 60_000_000, 7_200_000_000]);
        let step = self.rng.between(0, most) as i64 * if self.rng.chance(500) { 1 } else { -1 };
        self.slots[slot].clock.step_wall(step);
        if let Some(p) = &mut self.slots[slot].process {
            if let Some(t) = &mut p.term {
                t.clock_jumped = true;
            }
            // Whatever is still queued for a process that stands is handled after the jump as well.
            let at = p.at;
            self.feed(at, Input::Wake);
        }
    }

    /// Somebody with kubectl writes a holder.
    fn appoint(&mut self) {
        let Some(at) = self.some_process() else { return };
        let who = match self.rng.below(5) {
            0 => "somebody-else".to_owned(),
            _ => self.process(at).map(|p| p.id.clone()).unwrap_or_default(),
        };
        let wall = self.slots[at.slot].clock.wall(self.now);
        let (how, seconds) = (self.rng.below(4), *self.rng.pick(&[1, 5, 15]));
        say!(self, "stranger appoints {who} ({how}, {seconds} s)");
        self.scribble(|r| {
            r.holder = Some(who);
            match how {
                0 => {}
                1 => {
                    r.renew_time = Some(wall);
                    r.duration_seconds = Some(seconds);
                }
                2 => {
                    r.renew_time = Some(wall);
                    r.acquire_time = None;
                    r.duration_seconds = Some(seconds);
                }
                _ => {
                    r.acquire_time = Some(wall);
                    r.transitions = r.transitions.map(|t| t.saturating_add(1));
                }
            }
        });
    }

    /// A coordinator like upstream's, whose wall clock is that of the last machine.
    pub(crate) fn coordinate(&mut self) {
        if self.quiet.is_some() {
            return;
        }
        let delay = self.rng.between(500_000_000, 8 * SECOND);
        self.after(delay, Event::Coordinate);
        let clock = self.slots[self.slots.len() - 1].clock.clone();
        let wall = clock.wall(self.now);
        let Some(lock) = self.api.get().cloned() else { return };
        let ids: Vec<String> = candidate::on_lock(&lock).map(|(_, c)| c.identity).collect();
        if ids.is_empty() {
            return;
        }
        let who = self.rng.pick(&ids).clone();
        let expired = match (lock.renew_time, lock.duration()) {
            (Some(t), Some(d)) => t.plus(d) < wall,
            _ => true,
        };
        if lock.holder().is_none() || expired {
            say!(self, "coordinator elects {who}");
            self.scribble(|r| {
                r.holder = Some(who);
                r.renew_time = Some(wall);
                r.duration_seconds = Some(5);
                r.acquire_time = None;
                r.preferred_holder = None;
            });
        } else if self.rng.chance(100) && lock.holder() != Some(who.as_str()) {
            say!(self, "coordinator prefers {who}");
            self.scribble(|r| r.preferred_holder = Some(who));
        }
    }

    fn wants_deletion(&mut self) {
        match self.scenario.deletes {
            Deletes::Never => {}
            Deletes::WhenFree if self.may_delete() => self.delete(),
            Deletes::WhenFree => self.delete_when_free = true,
            Deletes::WhenHeld => {
                let all_know = self.slots.iter().all(|s| s.process.as_ref().is_none_or(|p| p.has_seen_lock));
                let all_started = self.slots.iter().all(|s| s.lives > 0);
                if all_know && all_started && !self.deleted {
                    self.deleted = true;
                    self.delete();
                }
            }
            Deletes::Anyhow => self.delete(),
        }
    }

    /// Whether the lock is one that may be deleted: released by its holder, and nobody works.
    pub(crate) fn may_delete(&self) -> bool {
        self.api.get().is_some_and(|r| marks::released(r).is_some())
            && self
                .slots
                .iter()
                .filter_map(|s| s.process.as_ref())
                .all(|p| p.term.as_ref().is_none_or(|t| !t.alive))
    }

    /// From now on there are no faults.
    pub(crate) fn grow_quiet(&mut self) {
        say!(self, "QUIET");
        self.quiet = Some(self.now);
        self.server_stands = 0;
        for line in &mut self.lines {
            *line = Default::default();
        }
        for index in 0..self.plains.len() {
            self.plain_dies(index);
        }
        for slot in 0..self.slots.len() {
            self.settle_slot(slot);
        }
        self.excuse_leaderless();
    }

    fn settle_slot(&mut self, slot: usize) {
        let Some(p) = &self.slots[slot].process else {
            if !self.scenario.comes_back {
                return;
            }
            let delay = self.rng.between(0, SECOND);
            return self.after(delay, Event::Start { slot });
        };
        let at = p.at;
        if p.watch.id != 0 && (p.watch.dead || !p.watch.open) {
            let watch = p.watch.id;
            let delay = self.rng.between(0, SECOND);
            self.after(delay, Event::Tell { at, watch, told: Told::Broken });
        }
        if self.process(at).is_some_and(|p| p.term.as_ref().is_some_and(|t| t.stopped.is_some())) {
            let term = self.process(at).map_or(0, |p| p.terms);
            let delay = self.rng.between(0, 5 * SECOND);
            self.after(delay, Event::Ends { at, term, end: incumbent_core::WorkEnd::Done });
        }
        self.resume(at);
        if self.process(at).is_some_and(|p| !p.ready) {
            self.ready_again(at);
        }
    }
}
