//! The world: machines, the server, and the loop that lets events happen.

use incumbent_core::Timing;

use crate::api::Api;
use crate::checks::Checks;
use crate::clock::{Clock, MILLI, SECOND, Time};
use crate::event::{Event, Queue};
use crate::plain::Plain;
use crate::process::Process;
use crate::rng::Rng;
use crate::run::Options;
use crate::scenario::{Kind, Net, Scenario};
use crate::trace::{Trace, say};

/// A machine's connection to the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// Until when nothing gets out.
    pub(crate) cut_out: Time,
    /// Until when nothing gets in.
    pub(crate) cut_in: Time,
}

/// A place in which processes of ours run, one after the other.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) clock: Clock,
    pub(crate) process: Option<Process>,
    pub(crate) lives: u32,
    /// The minor version that the next process here will have.
    pub(crate) version: u64,
}

/// Everything that a run consists of.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) options: Options,
    pub(crate) timing: Timing,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    pub(crate) end: Time,
    pub(crate) queue: Queue,
    pub(crate) api: Api,
    pub(crate) slots: Vec<Slot>,
    pub(crate) plains: Vec<Plain>,
    /// One line per slot, then one per plain elector.
    pub(crate) lines: Vec<Line>,
    /// Until when the server answers nothing.
    pub(crate) server_stands: Time,
    /// Since when there are no faults any more.
    pub(crate) quiet: Option<Time>,
    /// A stranger deletes the lock as soon as it has been released.
    pub(crate) delete_when_free: bool,
    /// A held lock was deleted; once is enough.
    pub(crate) deleted: bool,
    pub(crate) watches: u64,
    pub(crate) calm: Net,
    pub(crate) checks: Checks,
    pub(crate) trace: Trace,
}

/// How long the quiet last part of a run is.
const TAIL: Time = 120 * SECOND;

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> World {
        let scenario = options.kind.map_or_else(|| Scenario::of(seed), |kind| Scenario::of_kind(seed, kind));
        let mut rng = Rng::new(seed);
        let timing = incumbent_core::TimingConfig::from(scenario.profile)
            .check()
            .unwrap_or_else(|e| unreachable!("profiles hold together: {e}"));
        let machines = scenario.nodes + scenario.plains;
        let clocks: Vec<Clock> = (0..machines).map(|_| draw_clock(&scenario, &mut rng)).collect();
        let slots = clocks[..scenario.nodes]
            .iter()
            .map(|clock| Slot { clock: clock.clone(), process: None, lives: 0, version: 30 })
            .collect();
        let plains =
            clocks[scenario.nodes..].iter().enumerate().map(|(i, c)| Plain::new(i, c.clone())).collect();
        let end = options.duration.as_nanos() as Time;
        let calm = Net { latency: scenario.net.latency, ..Net::default() };
        let mut world = World {
            checks: Checks::new(&scenario, &timing),
            trace: Trace::new(options.trace),
            timing,
            rng,
            now: 0,
            end,
            queue: Queue::default(),
            api: Api::default(),
            slots,
            plains,
            lines: vec![Line::default(); machines],
            server_stands: 0,
            quiet: None,
            delete_when_free: false,
            deleted: false,
            watches: 0,
            calm,
            scenario,
            options,
        };
        world.prepare();
        world
    }

    fn prepare(&mut self) {
        say!(self, "scenario {:?}", self.scenario);
        if self.rng.chance(300) {
            let revision = self.rng.between(1, 1_000_000);
            self.api.write_elsewhere(revision);
        }
        for slot in 0..self.slots.len() {
            let at = self.rng.mostly_low(0, 20 * SECOND);
            if self.scenario.versions {
                self.slots[slot].version += self.rng.below(2);
            }
            self.queue.push(at, Event::Start { slot });
        }
        for index in 0..self.plains.len() {
            let at = self.rng.between(0, 20 * SECOND);
            self.queue.push(at, Event::PlainBack { index });
        }
        if !self.scenario.acts.is_empty() {
            self.queue.push(10 * SECOND, Event::Act);
        }
        if self.scenario.coordinator {
            self.queue.push(self.rng.between(0, 5 * SECOND), Event::Coordinate);
        }
        if self.scenario.quiet_tail && self.end > TAIL {
            self.queue.push(self.end - TAIL, Event::Quiet);
        }
    }

    /// Lets everything happen, up to the end or to the first violation.
    pub(crate) fn run(&mut self) {
        while self.checks.violations.is_empty() {
            let Some((at, event)) = self.queue.pop() else { break };
            if at >= self.end {
                break;
            }
            self.now = at;
            self.checks.stats.events += 1;
            self.trace.mix(at);
            self.trace.mix(event.number());
            self.happen(event);
        }
        if self.checks.violations.is_empty() {
            self.now = self.end;
            self.check_end();
        }
        self.checks.finish(self.now);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(flight) => self.arrive(*flight),
            Event::Answer(ticket, outcome) => self.answered(ticket, *outcome),
            Event::Tell { at, watch, told } => self.told(at, watch, told),
            Event::Wake { at, generation } => self.wake(at, generation),
            Event::Look { at, term } => self.look(at, term),
            Event::Kill { at, term } => self.kill(at, term),
            Event::Dies { at, term } => self.dies(at, term),
            Event::Ends { at, term, end } => self.ends(at, term, end),
            Event::Resume { at } => self.resume(at),
            Event::Warmed { at } => self.warmed(at),
            Event::ReadyAgain { at } => self.ready_again(at),
            Event::Start { slot } => self.start(slot),
            Event::PlainTick { index, attempt } => self.plain_tick(index, attempt),
            Event::PlainDeadline { index } => self.plain_deadline(index),
            Event::PlainRelease { index } => self.plain_release(index),
            Event::PlainBack { index } => self.plain_back(index),
            Event::Act => self.act(),
            Event::Coordinate => self.coordinate(),
            Event::Quiet => self.grow_quiet(),
        }
    }

    pub(crate) fn after(&mut self, delay: Time, event: Event) {
        self.queue.push(self.now.saturating_add(delay), event);
    }

    /// How bad the network is at present.
    pub(crate) fn net(&self) -> &Net {
        if self.quiet.is_some() { &self.calm } else { &self.scenario.net }
    }

    /// The time of one way, without what goes wrong.
    pub(crate) fn latency(&mut self) -> Time {
        let usual = self.net().latency;
        self.rng.between(usual / 2, usual * 3 / 2)
    }
}

fn draw_clock(scenario: &Scenario, rng: &mut Rng) -> Clock {
    let rate = match scenario.edge_clocks {
        true => *rng.pick(&[-5000, 5000]),
        false => rng.between(0, 10_000) as i64 - 5000,
    };
    let origin = rng.between(SECOND, 1_000_000 * SECOND);
    let apart = match rng.below(4) {
        0 => rng.between(0, 2 * MILLI),
        1 => rng.between(0, 5 * SECOND),
        2 => rng.between(0, 120 * SECOND),
        _ => rng.between(0, 20 * 3600 * SECOND),
    } / 1000;
    let apart = apart as i64 * if rng.chance(500) { 1 } else { -1 };
    let slew = match scenario.kind {
        Kind::Clocks => *rng.pick(&[0, 500, -500, -200_000]),
        _ => *rng.pick(&[0, 0, 500, -500]),
    };
    Clock::new(rate, origin, 1_770_000_000_000_000 + apart, slew)
}
