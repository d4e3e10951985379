//! One process of ours: an elector of `core`, and what it wants done.

use std::collections::VecDeque;
use std::time::Duration;

use incumbent_core::faults::Faults;
use incumbent_core::{
    Candidacy, Command, Config, Elector, Identity, Input, Instant, OpId, Outcome, Refusal, Request,
    StopReason, Versions, WallTime, WorkEnd,
};

use crate::clock::{MILLI, SECOND, Time};
use crate::event::{Ask, Event, Proc, Ticket, Told};
use crate::network::{Watch, refused};
use crate::trace::say;
use crate::work::Term;
use crate::world::World;

/// What of a process stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    No,
    /// All of it, with its work: SIGSTOP, a suspended machine.
    All,
    /// Only its elector, while its work goes on.
    Elector,
}

/// A lock write in the writer's own name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentWrite {
    pub(crate) stamp: Option<WallTime>,
    pub(crate) at: Instant,
    /// It was carried out, and changed what the coarsest follower sees.
    pub(crate) visible: bool,
}

/// One process.
pub(crate) struct Process {
    pub(crate) at: Proc,
    pub(crate) id: String,
    pub(crate) elector: Elector,
    pub(crate) stuck: Stuck,
    pub(crate) inbox: VecDeque<Input>,
    /// What happens to a stopped process as soon as it goes on.
    pub(crate) deferred: Vec<Event>,
    pub(crate) wake: Option<Time>,
    pub(crate) wakes: u64,
    pub(crate) watch: Watch,
    pub(crate) may_watch: bool,
    pub(crate) may_patch: bool,
    /// Work lives in a child, and is killed; otherwise in the process, which aborts.
    pub(crate) wrapper: bool,
    /// The lock request and the patch in flight, with what they are and when they are given up.
    pub(crate) lock_op: Option<(OpId, Instant)>,
    pub(crate) patch_op: Option<(OpId, Instant)>,
    pub(crate) term: Option<Term>,
    pub(crate) terms: u64,
    pub(crate) shutting_down: bool,
    pub(crate) ready: bool,
    pub(crate) has_seen_lock: bool,
    /// Was asked to yield, and has not led since.
    pub(crate) asked_to_yield: bool,
    /// When it failed or yielded, unless another has led since.
    pub(crate) backs_off_since: Option<Instant>,
    /// A warm-up that was asked for is not done in time.
    pub(crate) warms_badly: bool,
    pub(crate) requests: u64,
    /// A lock write met a conflict, and nothing was read or told since.
    pub(crate) contradicted: bool,
    /// Its latest writes in its own name.
    pub(crate) sent: VecDeque<SentWrite>,
    pub(crate) spins: (Instant, u32),
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Process {
    /// Whether a request was given up by its elector.
    pub(crate) fn given_up(&self, op: OpId, _now: Time) -> bool {
        let is = |o: Option<(OpId, Instant)>| o.is_some_and(|(o, _)| o == op);
        !is(self.lock_op) && !is(self.patch_op)
    }

    /// Whether work lives, and is not stopped beyond its hard end, when it counts as dead.
    pub(crate) fn works(&self, local: Instant) -> bool {
        self.term
            .as_ref()
            .is_some_and(|t| t.alive && !(self.stuck == Stuck::All && local >= t.validity.hard_end))
    }

    /// A term is over once its work has ended, its elector knows, and said so.
    fn close_term(&mut self) {
        self.term.take_if(|t| !t.alive && t.told && t.stopped.is_some());
    }

    /// Whether nothing but the lock keeps it from leading.
    pub(crate) fn terms_possible(&self) -> bool {
        self.term.is_none()
    }

    /// Whether it would lead if it could.
    pub(crate) fn willing(&self) -> bool {
        self.stuck == Stuck::No && self.ready && !self.shutting_down
    }
}

impl World {
    pub(crate) fn process(&self, at: Proc) -> Option<&Process> {
        self.slots[at.slot].process.as_ref().filter(|p| p.at == at)
    }

    pub(crate) fn process_mut(&mut self, at: Proc) -> Option<&mut Process> {
        self.slots[at.slot].process.as_mut().filter(|p| p.at == at)
    }

    /// What the clock of a process says.
    pub(crate) fn local(&self, at: Proc) -> Instant {
        self.slots[at.slot].clock.local(self.now)
    }

    /// Starts a process in an empty slot.
    pub(crate) fn start(&mut self, slot: usize) {
        if self.slots[slot].process.is_some() {
            return;
        }
        self.slots[slot].lives += 1;
        let at = Proc { slot, life: self.slots[slot].lives };
        let identity = match Identity::new(&format!("n{slot}"), self.rng.next()) {
            Ok(identity) => identity,
            Err(e) => unreachable!("a letter and a digit make a name: {e}"),
        };
        let s = &self.scenario;
        let binary = self.slots[slot].version;
        let emulation = binary - u64::from(self.rng.chance(300));
        let versions = s
            .versions
            .then(|| Versions::parse(&format!("1.{binary}.0"), Some(&format!("1.{emulation}.0"))).ok())
            .flatten();
        let priority = if s.priorities && self.rng.chance(400) { 1 + self.rng.below(2) as u32 } else { 0 };
        let candidacy = Candidacy {
            versions,
            strategies: s.strategy.clone().into_iter().collect(),
            priority,
            warms_up: self.rng.chance(s.warm_ups),
            ..Candidacy::default()
        };
        let mut config = Config::new(identity.clone(), self.timing.clone(), candidacy);
        config.settle = Duration::from_nanos(s.settle);
        config.faults = self.options.fault.map_or_else(Faults::default, Faults::one);
        let now = self.slots[slot].clock.now(self.now);
        let process = Process {
            at,
            id: identity.as_str().to_owned(),
            elector: Elector::new(config, now, self.rng.next()),
            stuck: Stuck::No,
            inbox: VecDeque::new(),
            deferred: Vec::new(),
            wake: None,
            wakes: 0,
            watch: Watch::default(),
            may_watch: !self.rng.chance(s.no_watch),
            may_patch: !self.rng.chance(s.no_patch),
            wrapper: self.rng.chance(s.wrapper),
            lock_op: None,
            patch_op: None,
            term: None,
            terms: 0,
            shutting_down: false,
            ready: true,
            has_seen_lock: false,
            asked_to_yield: false,
            backs_off_since: None,
            warms_badly: false,
            requests: 0,
            contradicted: false,
            sent: VecDeque::new(),
            spins: (now.mono, 0),
        };
        say!(
            self,
            "{at:?} starts: {} version 1.{binary}.0/1.{emulation}.0 priority {priority} wrapper {} watch {} patch {}",
            process.id,
            process.wrapper,
            process.may_watch,
            process.may_patch
        );
        self.slots[slot].process = Some(process);
        self.checks.stats.processes += 1;
        self.excuse_leaderless();
        self.feed(at, Input::Wake);
    }

    /// Tells an elector what happened, and does what it wants.
    pub(crate) fn feed(&mut self, at: Proc, input: Input) {
        let now = self.slots[at.slot].clock.now(self.now);
        let held_by = match &input {
            Input::WorkEnded(_) => self.api.get().and_then(|r| r.holder()).map(str::to_owned),
            _ => None,
        };
        let Some(p) = self.process_mut(at) else { return };
        if p.stuck != Stuck::No {
            p.inbox.push_back(input);
            return;
        }
        if matches!(input, Input::Watch(incumbent_core::WatchInput::Changed(_))) {
            p.contradicted = false;
        }
        if let Input::Answer { op, outcome } = &input {
            if p.lock_op.is_some_and(|(o, _)| o == *op) {
                match outcome {
                    Outcome::Conflict => p.contradicted = true,
                    Outcome::Ok(_) | Outcome::NotFound => p.contradicted = false,
                    _ => {}
                }
            }
            p.lock_op = p.lock_op.filter(|(o, _)| o != op);
            p.patch_op = p.patch_op.filter(|(o, _)| o != op);
        }
        if matches!(input, Input::WorkEnded(_))
            && let Some(t) = &mut p.term
        {
            t.told = true;
        }
        let commands = p.elector.handle(now, input.clone());
        if let Input::WorkEnded(end) = &input {
            let stop = commands.iter().rev().find_map(|c| match c {
                Command::StopTerm(stop) => Some(stop.reason),
                _ => None,
            });
            let reason = stop.or(p.term.as_ref().and_then(|t| t.stopped));
            // Who sees that another holds the lock has given it its chance already.
            let another = held_by.as_deref().is_some_and(|h| h != p.id);
            if !another && (*end == WorkEnd::Failed || reason == Some(StopReason::Transfer)) {
                p.backs_off_since = Some(now.mono);
            }
        }
        if self.trace.on() && (!commands.is_empty() || !matches!(input, Input::Wake)) {
            say!(self, "{at:?} {}", brief(&input));
        }
        for command in commands {
            self.obey(at, command);
            if !self.checks.violations.is_empty() {
                return;
            }
        }
        if let Some(p) = self.process_mut(at) {
            p.close_term();
            p.has_seen_lock |= p.elector.lock().is_some();
        }
        self.check_process(at);
        self.wake_later(at);
    }

    fn wake_later(&mut self, at: Proc) {
        let clock = self.slots[at.slot].clock.clone();
        let now = self.now;
        let local = clock.local(now);
        let lateness = if self.rng.chance(30) { 20 * MILLI } else { MILLI };
        let lateness = self.rng.mostly_low(0, lateness);
        let Some(p) = self.process_mut(at) else { return };
        let Some(wake) = p.elector.next_wake() else {
            self.violated("I11", format!("{at:?} waits for nothing any more, and has not shut down"));
            return;
        };
        let due = p.term.as_ref().filter(|t| t.alive).map(|t| match t.stopped {
            Some(reason) if reason.is_loss() => t.validity.hard_end,
            _ => t.validity.until,
        });
        if due.is_some_and(|due| local < due && due < wake) {
            self.violated("§3", format!("{at:?} sleeps until {wake:?}, past the end of its term"));
            return;
        }
        let Some(p) = self.process_mut(at) else { return };
        if p.spins.0 == local {
            p.spins.1 += 1;
            if p.spins.1 > 200 {
                self.violated("spin", format!("{at:?} wants to be woken at {wake:?} again and again"));
                return;
            }
        } else {
            p.spins = (local, 0);
        }
        let when = clock.when(wake).max(now);
        if p.wake == Some(when) {
            return;
        }
        p.wake = Some(when);
        p.wakes += 1;
        let generation = p.wakes;
        self.queue.push(when + lateness, Event::Wake { at, generation });
    }

    pub(crate) fn wake(&mut self, at: Proc, generation: u64) {
        let Some(p) = self.process_mut(at) else { return };
        if p.wakes == generation {
            p.wake = None;
            self.feed(at, Input::Wake);
        }
    }

    /// Carries out one command.
    fn obey(&mut self, at: Proc, command: Command) {
        if self.trace.on() {
            say!(self, "  {at:?} -> {}", brief_command(&command));
        }
        // It may have died of the command before.
        let Some(p) = self.process_mut(at) else { return };
        if matches!(command, Command::StartTerm(_) | Command::Finished) {
            p.close_term();
        }
        match command {
            Command::Read { op, deadline } => {
                p.requests += 1;
                self.check_in_flight(at, op, deadline, false);
                self.send(Ticket::Node(at, op), Ask::Get);
            }
            Command::Create { op, deadline, record } => {
                p.requests += 1;
                self.check_in_flight(at, op, deadline, false);
                self.check_write(at, &record);
                self.send(Ticket::Node(at, op), Ask::Create(record));
            }
            Command::Update { op, deadline, record } => {
                p.requests += 1;
                self.check_in_flight(at, op, deadline, false);
                self.check_write(at, &record);
                self.send(Ticket::Node(at, op), Ask::Update(record));
            }
            Command::Patch { op, deadline, uid, key, value } => {
                p.requests += 1;
                let allowed = p.may_patch;
                self.check_in_flight(at, op, deadline, true);
                if allowed {
                    self.send(Ticket::Node(at, op), Ask::Patch { uid, key, value });
                } else {
                    let delay = self.latency();
                    let outcome: Outcome = refused(Refusal::Forbidden, None);
                    self.after(delay, Event::Answer(Ticket::Node(at, op), Box::new(outcome)));
                }
            }
            Command::Watch { from } => {
                self.watches += 1;
                let watch = self.watches;
                let Some(p) = self.process_mut(at) else { return };
                p.watch = Watch { id: watch, ..Watch::default() };
                if p.may_watch {
                    self.send(Ticket::Watch(at, watch), Ask::Watch { from });
                } else {
                    let delay = self.latency();
                    self.after(delay, Event::Tell { at, watch, told: Told::Refused });
                }
            }
            Command::StartTerm(start) => self.start_term(at, start),
            Command::Extend(validity) => {
                self.check_backed(at, validity);
                let Some(p) = self.process_mut(at) else { return };
                if let Some(t) = &mut p.term {
                    t.validity = validity;
                    let term = t.number;
                    let when = self.slots[at.slot].clock.when(validity.hard_end);
                    self.queue.push(when.max(self.now), Event::Look { at, term });
                }
            }
            Command::StopTerm(stop) => self.stop_term(at, stop),
            Command::Abort => self.abort(at),
            Command::WarmUp => {
                let delay = match self.rng.below(10) {
                    0 => None,
                    1 => Some(self.rng.between(0, 90 * SECOND)),
                    _ => Some(self.rng.mostly_low(0, 8 * SECOND)),
                };
                match delay.filter(|d| *d < 55 * SECOND) {
                    Some(delay) => self.after(delay, Event::Warmed { at }),
                    None => {
                        if let Some(p) = self.process_mut(at) {
                            p.warms_badly = true;
                        }
                        self.after(70 * SECOND, Event::Warmed { at });
                    }
                }
            }
            Command::Report(_) => {}
            Command::Finished => {
                if !p.shutting_down {
                    self.violated("I11", format!("{at:?} finished without having been asked to"));
                } else if p.term.is_some() {
                    self.violated("I5", format!("{at:?} finished with a term"));
                } else {
                    self.remove(at, "has finished");
                }
            }
        }
    }

    /// A stopped or stuck process goes on.
    pub(crate) fn resume(&mut self, at: Proc) {
        let Some(p) = self.process_mut(at) else { return };
        if p.stuck == Stuck::No {
            return;
        }
        say!(self, "{at:?} goes on");
        let Some(p) = self.process_mut(at) else { return };
        p.stuck = Stuck::No;
        let wrapper = p.wrapper;
        let inbox = std::mem::take(&mut p.inbox);
        let deferred = std::mem::take(&mut p.deferred);
        self.check_is_leader(at);
        let guard_first = wrapper && self.rng.chance(500);
        let (before, after) = if guard_first { (deferred, Vec::new()) } else { (Vec::new(), deferred) };
        for event in before {
            self.happen_now(event);
        }
        // It looks at the clock before anything else.
        self.feed(at, Input::Wake);
        for input in inbox {
            self.feed(at, input);
        }
        for event in after {
            self.happen_now(event);
        }
        self.check_overlap(at);
        self.excuse_leaderless();
    }

    fn happen_now(&mut self, event: Event) {
        match event {
            Event::Look { at, term } => self.look(at, term),
            Event::Kill { at, term } => self.kill(at, term),
            Event::Ends { at, term, end } => self.ends(at, term, end),
            other => self.queue.push(self.now, other),
        }
    }

    /// The process and its work are gone.
    pub(crate) fn crash(&mut self, at: Proc, why: &str) {
        if let Some(p) = self.process_mut(at)
            && let Some(t) = p.term.take()
            && t.alive
        {
            self.worked(at, t.stopped);
        }
        self.remove(at, why);
    }

    fn remove(&mut self, at: Proc, why: &str) {
        say!(self, "{at:?} {why}");
        self.slots[at.slot].process = None;
        self.excuse_leaderless();
        if self.scenario.comes_back {
            let most = if self.quiet.is_some() { SECOND } else { 30 * SECOND };
            let delay = self.rng.mostly_low(SECOND / 10, most);
            self.after(delay, Event::Start { slot: at.slot });
        }
    }

    pub(crate) fn warmed(&mut self, at: Proc) {
        self.feed(at, Input::Request(Request::Warm));
    }

    pub(crate) fn ready_again(&mut self, at: Proc) {
        let Some(p) = self.process_mut(at) else { return };
        p.ready = true;
        self.feed(at, Input::Request(Request::Ready(true)));
        self.excuse_leaderless();
    }
}

fn brief(input: &Input) -> String {
    match input {
        Input::Answer { op, outcome: Outcome::Ok(r) } => {
            format!("is answered {op:?}: ok, revision {} holder {:?}", r.revision, r.holder)
        }
        Input::Watch(incumbent_core::WatchInput::Changed(r)) => {
            format!("sees revision {} holder {:?}", r.revision, r.holder)
        }
        other => format!("{other:?}"),
    }
}

fn brief_command(command: &Command) -> String {
    match command {
        Command::Create { op, record, .. } | Command::Update { op, record, .. } => {
            let what = if matches!(command, Command::Create { .. }) { "create" } else { "update" };
            format!(
                "{what} {op:?} on {} holder {:?} renewed {:?}",
                record.revision, record.holder, record.renew_time
            )
        }
        other => format!("{other:?}"),
    }
}
