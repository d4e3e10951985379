//! Ranking: a pure, total order over candidates, with reasons.

use std::cmp::Ordering;
use std::time::Duration;

use crate::candidate::{Candidate, Readiness};
use crate::marks;
use crate::record::Record;
use crate::strategy::Strategy;
use crate::time::WallTime;

/// How far apart two wall clocks may be when an end that people set is held against them.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// Why a candidate is not eligible.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ineligible {
    /// Its record has not changed for half an hour.
    Silent,
    /// It did not answer a ping, and nothing was heard of it since.
    MissedPing,
    /// It is not to be chosen yet.
    NotBefore,
    /// It waits after a failure or a yield.
    Backoff,
    /// It is shutting down.
    Stopping,
    /// It was paused.
    Paused,
    /// It was designated and did not become warm in time.
    NotWarm,
}

impl Ineligible {
    /// A short reason for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Ineligible::Silent => "silent for 30 minutes",
            Ineligible::MissedPing => "missed a ping",
            Ineligible::NotBefore => "not before its time",
            Ineligible::Backoff => "backing off",
            Ineligible::Stopping => "stopping",
            Ineligible::Paused => "paused",
            Ineligible::NotWarm => "did not warm up",
        }
    }
}

/// A candidate as its judge knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contender {
    /// What it announced.
    pub candidate: Candidate,
    /// What the judge found against it on its own clock; what the record itself says is added by [`rank`].
    pub observed: Option<Ineligible>,
}

/// What put a contender behind the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// It is the first.
    First,
    /// It is not eligible.
    NotEligible(Ineligible),
    /// Its priority is lower.
    Priority,
    /// Its emulation version is not preferred.
    EmulationVersion,
    /// Its binary version is not preferred.
    BinaryVersion,
    /// It announced no versions.
    NoVersions,
    /// The one before it leads.
    Incumbent,
    /// Its record is younger.
    Age,
    /// Its identity sorts later.
    Identity,
}

impl Reason {
    /// A short reason for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::First => "first in rank",
            Reason::NotEligible(why) => why.as_str(),
            Reason::Priority => "lower priority",
            Reason::EmulationVersion => "emulation version",
            Reason::BinaryVersion => "binary version",
            Reason::NoVersions => "no versions announced",
            Reason::Incumbent => "the one before leads",
            Reason::Age => "younger record",
            Reason::Identity => "identity sorts later",
        }
    }
}

/// One place in the ranking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranked {
    /// The candidate.
    pub candidate: Candidate,
    /// Whether it may lead.
    pub eligible: bool,
    /// What decided against the place before.
    pub reason: Reason,
}

/// How the strategy of a lock was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Rank by this strategy.
    By(Strategy),
    /// An operator switched coordination off: whoever takes the lock keeps it.
    Off,
    /// Eligible candidates with the highest binary version prefer different strategies: the holder stays.
    Conflict(Vec<Strategy>),
    /// No candidate prefers any, or nobody here knows what the operator set: the holder stays.
    Unknown(Option<String>),
}

impl Choice {
    /// The strategy's name for people.
    pub fn describe(&self) -> String {
        match self {
            Choice::By(s) => s.to_string(),
            Choice::Off => "none".to_owned(),
            Choice::Conflict(s) => {
                format!("conflict: {}", s.iter().map(Strategy::as_str).collect::<Vec<_>>().join(", "))
            }
            Choice::Unknown(Some(name)) => format!("unknown: {name}"),
            Choice::Unknown(None) => "-".to_owned(),
        }
    }

    /// The strategy to rank by, if planned moves are to be made at all.
    pub fn strategy(&self) -> Option<&Strategy> {
        match self {
            Choice::By(Strategy::ThirdParty(_)) => None,
            Choice::By(s) => Some(s),
            _ => None,
        }
    }
}

/// Finds the strategy of a lock: what an operator set, else the first preference of the eligible candidates
/// with the highest binary version.
pub fn choose_strategy(lock: Option<&Record>, contenders: &[Contender], wall: WallTime) -> Choice {
    if let Some(set) = lock.and_then(|r| r.annotations.get(marks::STRATEGY)) {
        if set == "none" {
            return Choice::Off;
        }
        return set.parse().map_or_else(|_| Choice::Unknown(Some(set.clone())), Choice::By);
    }
    let eligible: Vec<&Candidate> =
        contenders.iter().filter(|c| ineligible(c, wall).is_none()).map(|c| &c.candidate).collect();
    let highest = eligible
        .iter()
        .filter_map(|c| c.versions.as_ref())
        .map(|v| v.binary())
        .max_by(|a, b| a.cmp_precedence(b));
    let mut firsts: Vec<Strategy> = eligible
        .iter()
        .filter(|c| match (highest, c.versions.as_ref()) {
            (Some(h), Some(v)) => v.binary().cmp_precedence(h).is_eq(),
            (None, None) => true,
            _ => false,
        })
        .filter_map(|c| c.strategies.first().cloned())
        .collect();
    firsts.sort();
    firsts.dedup();
    match firsts.len() {
        0 => Choice::Unknown(None),
        1 => Choice::By(firsts.remove(0)),
        _ => Choice::Conflict(firsts),
    }
}

/// Why a contender may not lead at this time, if so.
pub fn ineligible(contender: &Contender, wall: WallTime) -> Option<Ineligible> {
    match contender.candidate.readiness {
        Readiness::Backoff => return Some(Ineligible::Backoff),
        Readiness::Stopping => return Some(Ineligible::Stopping),
        Readiness::Paused => return Some(Ineligible::Paused),
        Readiness::Ready => {}
    }
    if contender.candidate.not_before.is_some_and(|t| wall < t) {
        return Some(Ineligible::NotBefore);
    }
    contender.observed
}

/// The priority that counts now. An end counts until 60 s before it for gaining the lock, and until 60 s
/// after it for keeping it, so that two clocks a minute apart do not pull a lock back and forth.
pub(crate) fn priority(candidate: &Candidate, holder: Option<&str>, wall: WallTime) -> u32 {
    let Some(end) = candidate.priority_until else {
        return candidate.priority;
    };
    let micros = CLOCK_TOLERANCE.as_micros() as i64;
    let keeps = holder == Some(candidate.identity.as_str());
    let end =
        if keeps { end.as_micros().saturating_add(micros) } else { end.as_micros().saturating_sub(micros) };
    if wall.as_micros() < end { candidate.priority } else { 0 }
}

/// Ranks contenders, best first. Total, and independent of the order of its input.
///
/// The order: eligible; priority; the strategy (where there is one to rank by); the incumbent; the older
/// record; the identity. `holder` is the identity that leads, if one does.
pub fn rank(contenders: &[Contender], holder: Option<&str>, choice: &Choice, wall: WallTime) -> Vec<Ranked> {
    let mut all: Vec<(&Contender, Option<Ineligible>)> =
        contenders.iter().map(|c| (c, ineligible(c, wall))).collect();
    all.sort_by(|a, b| compare(a, b, holder, choice, wall).0);
    let mut ranked = Vec::with_capacity(all.len());
    for (i, (contender, why)) in all.iter().enumerate() {
        let reason = match (i, why) {
            (_, Some(why)) => Reason::NotEligible(*why),
            (0, None) => Reason::First,
            (_, None) => compare(&all[i - 1], &all[i], holder, choice, wall).1,
        };
        ranked.push(Ranked { candidate: contender.candidate.clone(), eligible: why.is_none(), reason });
    }
    ranked
}

type Judged<'c> = (&'c Contender, Option<Ineligible>);

fn compare(
    (a, a_why): &Judged<'_>,
    (b, b_why): &Judged<'_>,
    holder: Option<&str>,
    choice: &Choice,
    wall: WallTime,
) -> (Ordering, Reason) {
    let (a, b) = (&a.candidate, &b.candidate);
    let eligible = a_why.is_some().cmp(&b_why.is_some());
    if eligible.is_ne() {
        return (eligible, Reason::NotEligible(b_why.or(*a_why).unwrap_or(Ineligible::Silent)));
    }
    let leads = |c: &Candidate| holder != Some(c.identity.as_str());
    let by_priority = priority(b, holder, wall).cmp(&priority(a, holder, wall));
    if by_priority.is_ne() {
        return (by_priority, Reason::Priority);
    }
    let (by_strategy, reason) = compare_by_strategy(a, b, choice);
    if by_strategy.is_ne() {
        return (by_strategy, reason);
    }
    let by_incumbent = leads(a).cmp(&leads(b));
    if by_incumbent.is_ne() {
        return (by_incumbent, Reason::Incumbent);
    }
    let by_age = a.since.cmp(&b.since);
    if by_age.is_ne() {
        return (by_age, Reason::Age);
    }
    (a.identity.cmp(&b.identity), Reason::Identity)
}

fn compare_by_strategy(a: &Candidate, b: &Candidate, choice: &Choice) -> (Ordering, Reason) {
    let equal = (Ordering::Equal, Reason::Identity);
    let Some(strategy) = choice.strategy() else { return equal };
    if !strategy.compares_versions() {
        return equal;
    }
    let (Some(va), Some(vb)) = (&a.versions, &b.versions) else {
        return (a.versions.is_none().cmp(&b.versions.is_none()), Reason::NoVersions);
    };
    let binary = va.binary().cmp_precedence(vb.binary());
    match strategy {
        Strategy::OldestEmulationVersion => {
            let emulation = va.emulation().cmp_precedence(vb.emulation());
            if emulation.is_ne() {
                (emulation, Reason::EmulationVersion)
            } else {
                (binary, Reason::BinaryVersion)
            }
        }
        _ => (binary.reverse(), Reason::BinaryVersion),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy as Generator, any, prop_assert_eq, proptest};

    use super::*;
    use crate::record::Revision;
    use crate::strategy::Strategy;
    use crate::version::Versions;

    const WALL: WallTime = WallTime::from_micros(1_000_000_000_000);

    fn contender(id: &str, binary: &str, emulation: &str, since: u64) -> Contender {
        Contender {
            candidate: Candidate {
                identity: id.into(),
                versions: (!binary.is_empty()).then(|| Versions::parse(binary, Some(emulation)).unwrap()),
                strategies: vec![Strategy::OldestEmulationVersion],
                priority: 0,
                priority_until: None,
                warm: true,
                address: None,
                labels: Default::default(),
                not_before: None,
                readiness: Readiness::Ready,
                since: Revision(since),
                ack: None,
                beat: 0,
            },
            observed: None,
        }
    }

    fn order(contenders: &[Contender], holder: Option<&str>, choice: &Choice) -> Vec<String> {
        rank(contenders, holder, choice, WALL).into_iter().map(|r| r.candidate.identity).collect()
    }

    fn by(s: Strategy) -> Choice {
        Choice::By(s)
    }

    #[test]
    fn oldest_emulation_then_oldest_binary_then_age() {
        let all = [
            contender("a", "1.31.0", "1.31.0", 1),
            contender("b", "1.31.0", "1.30.0", 2),
            contender("c", "1.30.0", "1.30.0", 3),
            contender("d", "1.30.0", "1.30.0", 2),
            contender("e", "", "", 0),
        ];
        assert_eq!(order(&all, Some("a"), &by(Strategy::OldestEmulationVersion)), ["d", "c", "b", "a", "e"]);
        let reasons: Vec<_> = rank(&all, Some("a"), &by(Strategy::OldestEmulationVersion), WALL)
            .into_iter()
            .map(|r| r.reason)
            .collect();
        use Reason::*;
        assert_eq!(reasons, [First, Age, BinaryVersion, EmulationVersion, NoVersions]);
    }

    #[test]
    fn newest_version_and_keep_incumbent() {
        let all = [contender("a", "1.9.0", "1.9.0", 1), contender("b", "1.10.0", "1.9.0", 2)];
        assert_eq!(order(&all, Some("a"), &by(Strategy::NewestVersion)), ["b", "a"]);
        assert_eq!(order(&all, Some("b"), &by(Strategy::KeepIncumbent)), ["b", "a"]);
        assert_eq!(order(&all, None, &by(Strategy::KeepIncumbent)), ["a", "b"]);
    }

    #[test]
    fn an_equal_incumbent_stays() {
        let all = [contender("a", "1.0.0", "1.0.0", 1), contender("b", "1.0.0", "1.0.0", 2)];
        assert_eq!(order(&all, Some("b"), &by(Strategy::OldestEmulationVersion)), ["b", "a"]);
    }

    #[test]
    fn priority_comes_before_the_strategy_and_ends() {
        let mut all = [contender("a", "1.0.0", "1.0.0", 1), contender("b", "2.0.0", "2.0.0", 2)];
        all[1].candidate.priority = 1;
        let choice = by(Strategy::OldestEmulationVersion);
        assert_eq!(order(&all, Some("a"), &choice), ["b", "a"]);
        // 30 s before its end it no longer gains the lock, but keeps it; 61 s after its end it does neither.
        all[1].candidate.priority_until = Some(WallTime::from_micros(WALL.as_micros() + 30_000_000));
        assert_eq!(order(&all, Some("a"), &choice), ["a", "b"]);
        assert_eq!(order(&all, Some("b"), &choice), ["b", "a"]);
        all[1].candidate.priority_until = Some(WallTime::from_micros(WALL.as_micros() - 61_000_000));
        assert_eq!(order(&all, Some("b"), &choice), ["a", "b"]);
    }

    #[test]
    fn who_is_not_eligible_comes_last_with_its_reason() {
        let mut all = [contender("a", "1.0.0", "1.0.0", 1), contender("b", "2.0.0", "2.0.0", 2)];
        all[0].observed = Some(Ineligible::MissedPing);
        let ranked = rank(&all, None, &by(Strategy::OldestEmulationVersion), WALL);
        assert_eq!(ranked[0].candidate.identity, "b");
        assert_eq!(ranked[1].reason, Reason::NotEligible(Ineligible::MissedPing));
        assert!(!ranked[1].eligible);
        all[0].observed = None;
        all[0].candidate.not_before = Some(WallTime::from_micros(WALL.as_micros() + 1));
        assert_eq!(order(&all, None, &by(Strategy::OldestEmulationVersion)), ["b", "a"]);
    }

    #[test]
    fn the_highest_binary_versions_choose_the_strategy() {
        let mut all = [contender("a", "1.0.0", "1.0.0", 1), contender("b", "2.0.0", "2.0.0", 2)];
        all[1].candidate.strategies = vec![Strategy::NewestVersion];
        assert_eq!(choose_strategy(None, &all, WALL), by(Strategy::NewestVersion));
        let mut c = contender("c", "2.0.0", "1.0.0", 3);
        all[0] = c.clone();
        assert!(matches!(choose_strategy(None, &all, WALL), Choice::Conflict(s) if s.len() == 2));
        c.candidate.readiness = Readiness::Paused;
        all[0] = c;
        assert_eq!(choose_strategy(None, &all, WALL), by(Strategy::NewestVersion));
        let mut lock = Record::default();
        for (set, want) in [
            ("none", Choice::Off),
            ("OldestEmulationVersion", by(Strategy::OldestEmulationVersion)),
            ("nonsense", Choice::Unknown(Some("nonsense".into()))),
        ] {
            lock.annotations.insert(marks::STRATEGY.into(), set.into());
            assert_eq!(choose_strategy(Some(&lock), &all, WALL), want);
        }
        assert_eq!(choose_strategy(None, &[], WALL), Choice::Unknown(None));
    }

    #[test]
    fn a_third_partys_strategy_ranks_nobody_by_version() {
        let all = [contender("b", "1.0.0", "1.0.0", 1), contender("a", "2.0.0", "2.0.0", 2)];
        let choice = by(Strategy::ThirdParty("example.com/x".into()));
        assert_eq!(choice.strategy(), None);
        assert_eq!(order(&all, None, &choice), ["b", "a"]);
    }

    fn arbitrary() -> impl Generator<Value = Contender> {
        (0u32..6, 0u64..3, 0u64..3, 0u32..2, 0u64..3, any::<bool>()).prop_map(|(id, b, e, p, since, ok)| {
            let emulation = format!("1.{}.0", e.min(b));
            let mut c = contender(&format!("id{id}"), &format!("1.{b}.0"), &emulation, since);
            c.candidate.priority = p;
            c.observed = (!ok).then_some(Ineligible::Silent);
            c
        })
    }

    proptest! {
        #[test]
        fn the_order_does_not_depend_on_the_input(
            mut all in proptest::collection::vec(arbitrary(), 0..7),
            newest in any::<bool>(),
            seed in any::<u64>(),
        ) {
            all.sort_by(|a, b| a.candidate.identity.cmp(&b.candidate.identity));
            all.dedup_by(|a, b| a.candidate.identity == b.candidate.identity);
            let choice = by(if newest { Strategy::NewestVersion } else { Strategy::OldestEmulationVersion });
            let first = order(&all, Some("id1"), &choice);
            let mut shuffled = all.clone();
            let mut state = seed;
            for i in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                shuffled.swap(i, (state >> 33) as usize % (i + 1));
            }
            prop_assert_eq!(order(&shuffled, Some("id1"), &choice), first);
        }
    }
}
