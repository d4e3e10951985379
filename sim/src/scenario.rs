//! What happens in one run, drawn from its seed.

use incumbent_core::{Profile, Strategy};

use crate::clock::{MILLI, SECOND, Time};
use crate::rng::Rng;

/// What a run is mainly about. Every kind draws its own intensities.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// No faults: replicas start one after the other, and that is all.
    Calm,
    /// No faults, but replicas are replaced by newer versions, yield, and become unready.
    Upgrade,
    /// Delay, loss, duplication, unknown outcomes, late commits, errors, broken and silent watches.
    Network,
    /// Leaders are cut off, in one direction or both, with work that does not want to end.
    Partition,
    /// Pauses, stuck executors, crashes, restarts, shutdowns.
    Processes,
    /// Wall clocks jump and stand hours apart.
    Clocks,
    /// Strangers wipe the lock and appoint whom they like.
    Strangers,
    /// Electors like client-go's take part.
    Plain,
    /// A coordinator judges by a wall clock that is off.
    Coordinator,
    /// The lock is deleted, while nobody takes part who has not seen it.
    Deletion,
    /// Everything at once.
    Storm,
}

impl Kind {
    /// All kinds, in the order in which seeds go through them.
    pub const ALL: [Kind; 11] = [
        Kind::Calm,
        Kind::Upgrade,
        Kind::Network,
        Kind::Partition,
        Kind::Processes,
        Kind::Clocks,
        Kind::Strangers,
        Kind::Plain,
        Kind::Coordinator,
        Kind::Deletion,
        Kind::Storm,
    ];
}

/// How bad the network is; chances are per mille of requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Net {
    /// The usual time of one way.
    pub(crate) latency: Time,
    pub(crate) slow: u32,
    pub(crate) not_sent: u32,
    pub(crate) lost_request: u32,
    pub(crate) lost_answer: u32,
    pub(crate) duplicated: u32,
    pub(crate) late: u32,
    pub(crate) error: u32,
    pub(crate) watch_stall: u32,
    pub(crate) watch_break: u32,
    pub(crate) stale_list: u32,
}

impl Net {
    fn calm(latency: Time) -> Net {
        Net { latency, ..Net::default() }
    }

    fn bad(latency: Time, rng: &mut Rng) -> Net {
        let mut up_to = |most: u64| rng.mostly_low(0, most) as u32;
        Net {
            latency,
            slow: up_to(150),
            not_sent: up_to(80),
            lost_request: up_to(150),
            lost_answer: up_to(250),
            duplicated: up_to(150),
            late: up_to(150),
            error: up_to(100),
            watch_stall: up_to(100),
            watch_break: up_to(60),
            stale_list: up_to(300),
        }
    }
}

/// What may happen to the world now and then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    CutNode,
    CutLeader,
    Pause,
    Stick,
    Crash,
    CrashLeader,
    Shutdown,
    ReplaceOldest,
    Yield,
    EndTerm,
    Unready,
    StepWall,
    ServerPause,
    ServerRestart,
    Compact,
    Wipe,
    Appoint,
    Delete,
    PlainStop,
    Elsewhere,
}

/// When strangers delete the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deletes {
    Never,
    /// Only while it has been free for longer than any work may live.
    WhenFree,
    /// Once, at any time; nobody takes part who has not seen the lock.
    WhenHeld,
    /// At any time: outside of what I1 promises.
    Anyhow,
}

/// How electors like client-go's behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlainRelease {
    Never,
    /// Releases what it holds.
    Checked,
    /// Releases late, and judges by memory whether it still holds.
    FromMemory,
}

/// All that is drawn before a run begins.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is about.
    pub kind: Kind,
    pub(crate) nodes: usize,
    pub(crate) profile: Profile,
    pub(crate) net: Net,
    /// The mean time between two acts, and which.
    pub(crate) act_every: Time,
    pub(crate) acts: Vec<(u32, Act)>,
    /// How work ends once it is cancelled: weights of at once, within seconds, late, never.
    pub(crate) work_end: [u32; 4],
    /// In how many of 1000 terms work ends by itself.
    pub(crate) work_ends_itself: u32,
    /// In how many of 1000 processes work lives in a child process of its own.
    pub(crate) wrapper: u32,
    pub(crate) edge_clocks: bool,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) versions: bool,
    pub(crate) priorities: bool,
    pub(crate) warm_ups: u32,
    pub(crate) settle: Time,
    pub(crate) no_watch: u32,
    pub(crate) no_patch: u32,
    pub(crate) plains: usize,
    pub(crate) plain_release: PlainRelease,
    pub(crate) coordinator: bool,
    pub(crate) deletes: Deletes,
    /// Whether a process that crashed or was shut down comes back, as a new one.
    pub(crate) comes_back: bool,
    /// Whether the last part of the run is without faults.
    pub(crate) quiet_tail: bool,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn of(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x5CE7_A210);
        let kind = Kind::ALL[(seed % Kind::ALL.len() as u64) as usize];
        Scenario::draw(kind, &mut rng)
    }

    /// A scenario of one kind.
    pub fn of_kind(seed: u64, kind: Kind) -> Scenario {
        Scenario::draw(kind, &mut Rng::new(seed ^ 0x5CE7_A210))
    }

    fn draw(kind: Kind, rng: &mut Rng) -> Scenario {
        let profile = match rng.below(40) {
            0 => Profile::Patient,
            1..=16 => Profile::Fast,
            _ => Profile::Default,
        };
        let latency = *rng.pick(&[MILLI / 5, 2 * MILLI, 20 * MILLI]);
        let strategy = match rng.below(8) {
            0 => None,
            1..=3 => Some(Strategy::OldestEmulationVersion),
            4..=6 => Some(Strategy::NewestVersion),
            _ => Some(Strategy::KeepIncumbent),
        };
        let mut s = Scenario {
            kind,
            nodes: rng.between(2, 5) as usize,
            profile,
            net: Net::calm(latency),
            act_every: rng.between(8, 40) * SECOND,
            acts: Vec::new(),
            work_end: [4, 4, 1, 0],
            work_ends_itself: 0,
            wrapper: *rng.pick(&[0, 500, 1000]),
            edge_clocks: rng.chance(700),
            versions: strategy.is_some(),
            strategy,
            priorities: rng.chance(200),
            warm_ups: if rng.chance(400) { 500 } else { 0 },
            settle: *rng.pick(&[0, 5 * SECOND]),
            no_watch: if rng.chance(200) { 400 } else { 0 },
            no_patch: if rng.chance(150) { 500 } else { 0 },
            plains: 0,
            plain_release: PlainRelease::Never,
            coordinator: false,
            deletes: Deletes::Never,
            comes_back: true,
            quiet_tail: rng.chance(600),
        };
        use Act::*;
        match kind {
            Kind::Calm => s.work_end = [1, 0, 0, 0],
            Kind::Upgrade => {
                s.acts = vec![(4, ReplaceOldest), (2, Yield), (1, Unready), (1, CrashLeader), (1, Elsewhere)];
                s.acts.push((1, EndTerm));
                s.work_end = [4, 3, 1, 0];
                s.work_ends_itself = if rng.chance(500) { 150 } else { 0 };
            }
            Kind::Network => {
                s.net = Net::bad(latency, rng);
                s.acts =
                    vec![(4, CutNode), (1, Compact), (1, ServerPause), (1, ServerRestart), (2, Elsewhere)];
                s.acts.extend([(1, Yield), (1, ReplaceOldest), (1, Shutdown)]);
                s.work_end = [2, 2, 1, 2];
            }
            Kind::Partition => {
                s.acts = vec![(8, CutLeader), (1, CutNode), (1, Yield), (1, Shutdown)];
                s.act_every = rng.between(10, 25) * SECOND;
                s.net.lost_answer = rng.mostly_low(0, 300) as u32;
                s.net.late = rng.mostly_low(0, 150) as u32;
                s.net.slow = rng.mostly_low(0, 200) as u32;
                s.work_end = [1, 1, 1, 5];
                s.edge_clocks = true;
                s.warm_ups = 0;
            }
            Kind::Processes => {
                s.acts =
                    vec![(4, Pause), (3, Stick), (2, Crash), (2, CrashLeader), (2, Shutdown), (1, Yield)];
                s.acts.extend([(1, Unready), (1, ReplaceOldest), (1, EndTerm)]);
                s.work_end = [2, 2, 2, 2];
                s.work_ends_itself = 150;
            }
            Kind::Clocks => {
                s.acts = vec![(6, StepWall), (2, CutLeader), (1, CrashLeader), (1, Pause), (1, Yield)];
                s.net.late = rng.mostly_low(0, 100) as u32;
                s.edge_clocks = true;
                s.work_end = [1, 1, 1, 3];
            }
            Kind::Strangers => {
                s.acts = vec![(5, Wipe), (5, Appoint), (2, CutLeader), (1, Crash), (1, Pause), (1, Yield)];
                s.acts.extend([(1, Elsewhere), (1, Shutdown)]);
                s.act_every = rng.between(3, 15) * SECOND;
                if rng.chance(500) {
                    s.net = Net::bad(latency, rng);
                }
                s.work_end = [1, 1, 2, 4];
            }
            Kind::Plain => {
                s.plains = rng.between(1, 3) as usize;
                s.plain_release = *rng.pick(&[
                    PlainRelease::Never,
                    PlainRelease::Checked,
                    PlainRelease::FromMemory,
                    PlainRelease::FromMemory,
                ]);
                s.acts = vec![(3, CutNode), (4, CutLeader), (3, PlainStop), (1, Shutdown), (1, Yield)];
                s.act_every = rng.between(5, 20) * SECOND;
                if rng.chance(400) {
                    s.net = Net::bad(latency, rng);
                }
                s.work_end = [1, 1, 1, 3];
            }
            Kind::Coordinator => {
                s.coordinator = true;
                s.acts = vec![(3, CutLeader), (1, Crash), (1, StepWall), (1, Yield), (1, Pause)];
                s.work_end = [1, 1, 2, 4];
            }
            Kind::Deletion => {
                s.deletes = *rng.pick(&[Deletes::WhenFree, Deletes::WhenHeld, Deletes::Anyhow]);
                s.comes_back = s.deletes != Deletes::WhenHeld;
                s.acts = vec![(5, Delete), (2, CutLeader), (1, CutNode)];
                match s.deletes {
                    Deletes::WhenFree => {
                        s.acts.extend([(3, Wipe), (4, Delete), (2, Shutdown), (1, Crash)]);
                        s.act_every = rng.between(4, 10) * SECOND;
                    }
                    Deletes::WhenHeld => s.nodes = rng.between(2, 4) as usize,
                    _ => s.acts.push((1, Wipe)),
                }
                if rng.chance(600) {
                    s.net = Net::bad(latency, rng);
                }
                if s.deletes == Deletes::WhenHeld {
                    // A creation carries no precondition: one that comes late creates what was deleted since.
                    (s.net.late, s.net.duplicated, s.net.slow) = (0, 0, 0);
                }
                s.work_end = [1, 1, 1, 3];
            }
            Kind::Storm => {
                s.net = Net::bad(latency, rng);
                s.coordinator = rng.chance(250);
                s.plains = rng.below(3) as usize;
                s.plain_release = *rng.pick(&[PlainRelease::Checked, PlainRelease::FromMemory]);
                s.acts =
                    vec![(2, CutNode), (2, CutLeader), (2, Pause), (2, Stick), (1, Crash), (1, Shutdown)];
                s.acts.extend([
                    (1, ReplaceOldest),
                    (1, Yield),
                    (1, Unready),
                    (1, StepWall),
                    (1, ServerPause),
                ]);
                s.acts.extend([(1, ServerRestart), (1, Compact), (1, Wipe), (1, Appoint), (1, PlainStop)]);
                s.act_every = rng.between(3, 20) * SECOND;
                s.work_end = [2, 2, 2, 2];
                s.work_ends_itself = 100;
            }
        }
        s
    }

    /// Whether strangers write the lock, so that §6's guard may be waited out.
    pub(crate) fn strangers(&self) -> bool {
        self.coordinator
            || self.plains > 0
            || self.deletes != Deletes::Never
            || self.acts.iter().any(|(_, a)| matches!(a, Act::Wipe | Act::Appoint))
    }

    /// Whether nothing is ever lost, slow or stopped, so that planned moves have exact bounds.
    pub(crate) fn gentle(&self) -> bool {
        matches!(self.kind, Kind::Calm | Kind::Upgrade)
    }

    /// Whether I1 is promised: not if a held lock is deleted while newcomers take part.
    pub(crate) fn excludes_overlap(&self) -> bool {
        self.deletes != Deletes::Anyhow
    }

    /// Whether our terms and those of electors like client-go's exclude each other: those protect nobody
    /// from a rewritten record, neither themselves nor us.
    pub(crate) fn excludes_plain_overlap(&self) -> bool {
        self.plain_release != PlainRelease::FromMemory
            && !self.coordinator
            && !self.acts.iter().any(|(_, a)| matches!(a, Act::Wipe | Act::Appoint | Act::Delete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_up_and_a_seed_has_one_scenario() {
        for (seed, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(Scenario::of(seed as u64).kind, *kind);
        }
        assert_eq!(format!("{:?}", Scenario::of(99)), format!("{:?}", Scenario::of(99)));
    }

    #[test]
    fn all_profiles_and_permissions_come_up() {
        let all: Vec<Scenario> = (0..2000).map(Scenario::of).collect();
        for profile in [Profile::Fast, Profile::Default, Profile::Patient] {
            assert!(all.iter().any(|s| s.profile == profile));
        }
        assert!(all.iter().any(|s| s.no_watch > 0) && all.iter().any(|s| s.no_patch > 0));
        assert!(all.iter().any(|s| s.deletes == Deletes::WhenHeld));
        assert!(all.iter().any(|s| s.plain_release == PlainRelease::FromMemory));
    }
}
