//! Runs: one seed, or many.

use std::fmt;
use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use incumbent_core::faults::Fault;

use crate::clock::{MILLI, SECOND, Time};
use crate::scenario::{Kind, Scenario};
use crate::world::World;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How much simulated time a run takes.
    pub duration: Duration,
    /// One rule of the election to break.
    pub fault: Option<Fault>,
    /// Runs only scenarios of this kind; otherwise the seed decides.
    pub kind: Option<Kind>,
    /// Looks for violations of this rule only, and goes on after others.
    pub only: Option<&'static str>,
    /// Keeps what happened as text.
    pub trace: bool,
}

impl Default for Options {
    /// Five simulated minutes, nothing broken, no trace.
    fn default() -> Options {
        Options { duration: Duration::from_secs(300), fault: None, kind: None, only: None, trace: false }
    }
}

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// An invariant of docs/protocol.md §12, such as `I1`, or a section of that text, such as `§5`.
    pub rule: &'static str,
    /// When, in simulated nanoseconds.
    pub at: u64,
    /// What happened.
    pub what: String,
}

/// What happened, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Simulated time, in nanoseconds.
    pub simulated: Time,
    /// Of it, the time in which nobody's work lived.
    pub leaderless: Time,
    /// Terms of our electors.
    pub terms: u64,
    /// Times that an elector like client-go's began to lead.
    pub plain_terms: u64,
    /// Planned handovers, in scenarios without faults.
    pub handovers: u64,
    /// The time from the end of the work to the successor's term, summed over them.
    pub handover_gap: Time,
    /// Work that was ended by force at the hard end of its validity.
    pub hard_ends: u64,
    /// Processes that were started.
    pub processes: u64,
    /// Requests of our electors.
    pub requests: u64,
    /// Events of the simulation.
    pub events: u64,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, o: Stats) {
        self.simulated += o.simulated;
        self.leaderless += o.leaderless;
        self.terms += o.terms;
        self.plain_terms += o.plain_terms;
        self.handovers += o.handovers;
        self.handover_gap += o.handover_gap;
        self.hard_ends += o.hard_ends;
        self.processes += o.processes;
        self.requests += o.requests;
        self.events += o.events;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.leaderless as f64 * 100.0 / self.simulated.max(1) as f64;
        let gap = self.handover_gap / self.handovers.max(1) / MILLI;
        write!(
            f,
            "{} s simulated, {} events, {} processes, {} terms (+ {} of plain electors), {} requests, \
             {} hard ends, without a leader {share:.1} %, {} planned handovers without faults, {gap} ms each",
            self.simulated / SECOND,
            self.events,
            self.processes,
            self.terms,
            self.plain_terms,
            self.requests,
            self.hard_ends,
            self.handovers
        )
    }
}

/// What came of one seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What the run was about.
    pub kind: Kind,
    /// Broken rules; a run ends at the first.
    pub violations: Vec<Violation>,
    /// The same for the same seed, however often and wherever it runs.
    pub trace_hash: u64,
    /// What happened, if it was asked for.
    pub trace: String,
    /// In numbers.
    pub stats: Stats,
}

impl fmt::Display for Outcome {
    /// The seed, its violations, and the last part of the trace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} ({:?})", self.seed, self.kind)?;
        for v in &self.violations {
            writeln!(f, "  {} broken at {:.4} s: {}", v.rule, v.at as f64 / 1e9, v.what)?;
        }
        let lines: Vec<&str> = self.trace.lines().collect();
        for line in &lines[lines.len().saturating_sub(80)..] {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

/// Runs one seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    let mut world = World::new(seed, *options);
    world.run();
    let (trace, trace_hash) = world.trace.finish();
    Outcome {
        seed,
        kind: world.scenario.kind,
        violations: world.checks.violations,
        trace_hash,
        trace,
        stats: world.checks.stats,
    }
}

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many were run.
    pub seeds: u64,
    /// Those that broke a rule, by seed, each with its trace; at most [`Summary::KEPT`].
    pub broken: Vec<Outcome>,
    /// All numbers added up.
    pub stats: Stats,
}

impl Summary {
    /// How many broken runs are kept; after them no new seed is begun.
    pub const KEPT: usize = 5;
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outcome in &self.broken {
            writeln!(f, "{outcome}")?;
        }
        write!(f, "{} seeds, {} broken: {}", self.seeds, self.broken.len(), self.stats)
    }
}

/// Runs many seeds on `threads` threads. Runs that break a rule are run again with their trace.
pub fn simulate(seeds: Range<u64>, options: &Options, threads: usize) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let mut outcome = run(seed, options);
                    if !outcome.violations.is_empty() && !options.trace {
                        outcome = run(seed, &Options { trace: true, ..*options });
                    }
                    let Ok(mut summary) = summary.lock() else { break };
                    summary.seeds += 1;
                    summary.stats += outcome.stats;
                    if !outcome.violations.is_empty() {
                        summary.broken.push(outcome);
                    }
                    if summary.broken.len() >= Summary::KEPT {
                        break;
                    }
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    summary.broken.sort_by_key(|o| o.seed);
    summary
}

/// Finds the first seed, of at most `most` from `start`, in which a broken rule is noticed.
pub fn find(start: u64, most: u64, options: &Options) -> Option<Outcome> {
    (start..start + most).map(|seed| run(seed, options)).find(|o| !o.violations.is_empty())
}

/// Every fault, by name.
pub fn fault_named(name: &str) -> Option<Fault> {
    crate::FAULTS.iter().copied().find(|f| format!("{f:?}").eq_ignore_ascii_case(&name.replace('-', "")))
}

/// What `cargo xtask simulate` does: runs `seeds` seeds from `start`, prints broken ones and a summary.
/// Returns whether everything was as it should be: nothing broken, or, with a fault, something.
pub fn cli(seeds: u64, start: u64, fault: Option<&str>) -> Result<bool, String> {
    let fault = match fault {
        None => None,
        Some(name) => Some(fault_named(name).ok_or_else(|| {
            let known: Vec<String> = crate::FAULTS.iter().map(|f| format!("{f:?}")).collect();
            format!("no fault is named {name:?}; there are: {}", known.join(", "))
        })?),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { fault, ..Options::default() };
    let summary = simulate(start..start.saturating_add(seeds), &options, threads);
    println!("{summary}");
    Ok(summary.broken.is_empty() == fault.is_none())
}

/// The scenario of a seed, for people.
pub fn describe(seed: u64) -> String {
    format!("{:?}", Scenario::of(seed))
}
