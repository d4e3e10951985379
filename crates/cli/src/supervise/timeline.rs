//! When a child is told to end and when it is killed: a pure machine, one copy in the guardian, one in the
//! process that watches the guardian.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::boottime::BootTime;

/// A tree is killed at the latest this long before its hard deadline: time to kill, to reap, and for the other
/// process to step in.
pub(super) const KILL_MARGIN: Duration = Duration::from_millis(500);

/// Until when a child may run unless it is extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Deadlines {
    /// At this instant the child's process group is sent TERM, and the child cannot be extended any more.
    pub soft: BootTime,
    /// At this instant nothing of the child's tree lives. KILL goes out half a second earlier at the latest.
    pub hard: BootTime,
}

/// How a child is stopped before its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Stop {
    /// TERM now, KILL after `drain`. The deadlines go on to hold and may be extended meanwhile: whichever comes
    /// first kills.
    Planned {
        /// From TERM to KILL.
        drain: Duration,
    },
    /// TERM now, KILL after the stop grace, or before the hard deadline if that is sooner. Final.
    Loss,
    /// KILL now.
    Now,
}

/// Why a child's tree ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// The command ended before anybody asked it to.
    Itself,
    /// [`Stop::Planned`] was asked for.
    Planned,
    /// [`Stop::Loss`] or [`Stop::Now`] was asked for, or the caller let go of the child.
    Stopped,
    /// The soft deadline passed.
    Deadline,
    /// The guardian died, and the child with it.
    GuardianDied,
}

/// What is due at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Send TERM; then call [`Timeline::told`].
    Term,
    /// Kill the tree.
    Kill,
    /// Nothing before this instant.
    Until(BootTime),
}

/// The deadlines of one child and what was asked of it.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    deadlines: Deadlines,
    grace: Duration,
    drain_end: Option<BootTime>,
    /// Since when the child is past extending, and why.
    lost: Option<(BootTime, Cause)>,
    kill_now: Option<BootTime>,
    told: bool,
}

impl Timeline {
    pub(super) fn new(deadlines: Deadlines, grace: Duration) -> Timeline {
        Timeline {
            deadlines: within_hard_end(deadlines),
            grace,
            drain_end: None,
            lost: None,
            kill_now: None,
            told: false,
        }
    }

    /// Moves the deadlines later. Has no effect, and says so by `false`, if the extension was sent at or after
    /// the soft deadline, or the child is past extending: a deadline once passed is final. Deadlines never move
    /// earlier.
    pub(super) fn extend(&mut self, later: Deadlines, sent: BootTime) -> bool {
        if self.lost.is_some() || sent >= self.deadlines.soft {
            return false;
        }
        let later = within_hard_end(later);
        self.deadlines.soft = self.deadlines.soft.max(later.soft);
        self.deadlines.hard = self.deadlines.hard.max(later.hard);
        true
    }

    /// Applies `stop`, asked for at `asked`. Asking again can only bring the end closer.
    pub(super) fn stop(&mut self, stop: Stop, asked: BootTime) {
        match stop {
            Stop::Planned { drain } => {
                let end = asked + drain;
                self.drain_end = Some(self.drain_end.map_or(end, |e| e.min(end)));
            }
            Stop::Loss => {
                let _ = self.lost.get_or_insert((asked.min(self.deadlines.soft), Cause::Stopped));
            }
            Stop::Now => {
                let _ = self.lost.get_or_insert((asked.min(self.deadlines.soft), Cause::Stopped));
                let _ = self.kill_now.get_or_insert(asked);
            }
        }
    }

    /// What is due at `now`. Passing the soft deadline is remembered, so that nothing takes it back.
    pub(super) fn due(&mut self, now: BootTime) -> Due {
        if self.lost.is_none() && now >= self.deadlines.soft {
            self.lost = Some((self.deadlines.soft, Cause::Deadline));
        }
        let kill_at = self.kill_at();
        if kill_at.is_some_and(|at| now >= at) {
            return Due::Kill;
        }
        if !self.told && (self.lost.is_some() || self.drain_end.is_some()) {
            return Due::Term;
        }
        let soft = self.lost.is_none().then_some(self.deadlines.soft);
        // Without a loss there is a soft deadline ahead; with one there is an instant to kill at.
        Due::Until(kill_at.into_iter().chain(soft).min().unwrap_or(self.deadlines.soft))
    }

    /// TERM was sent.
    pub(super) fn told(&mut self) {
        self.told = true;
    }

    /// Why the tree ends, if it ends now.
    pub(super) fn cause(&self) -> Cause {
        match self.lost {
            Some((_, cause)) => cause,
            None if self.drain_end.is_some() => Cause::Planned,
            None => Cause::Itself,
        }
    }

    /// When the tree is killed, as far as that is settled.
    pub(super) fn kill_at(&self) -> Option<BootTime> {
        let after_loss = self.lost.map(|(since, _)| (since + self.grace).min(self.latest_kill()));
        after_loss.into_iter().chain(self.drain_end).chain(self.kill_now).min()
    }

    /// The latest instant at which KILL may go out.
    fn latest_kill(&self) -> BootTime {
        self.deadlines.hard - KILL_MARGIN
    }
}

/// A soft deadline that leaves no room to kill is brought forward.
fn within_hard_end(d: Deadlines) -> Deadlines {
    Deadlines { soft: d.soft.min(d.hard - KILL_MARGIN), hard: d.hard }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootTime {
        BootTime::from_nanos(ms * 1_000_000)
    }

    fn deadlines(soft: u64, hard: u64) -> Deadlines {
        Deadlines { soft: at(soft), hard: at(hard) }
    }

    fn timeline() -> Timeline {
        Timeline::new(deadlines(10_000, 14_850), Duration::from_secs(3))
    }

    #[test]
    fn the_soft_deadline_terminates_and_the_grace_kills() {
        let mut t = timeline();
        assert_eq!(t.due(at(9_999)), Due::Until(at(10_000)));
        assert_eq!(t.due(at(10_000)), Due::Term);
        t.told();
        assert_eq!(t.due(at(10_001)), Due::Until(at(13_000)));
        assert_eq!(t.due(at(13_000)), Due::Kill);
        assert_eq!(t.cause(), Cause::Deadline);
    }

    #[test]
    fn a_grace_beyond_the_hard_deadline_is_cut() {
        let mut t = Timeline::new(deadlines(10_000, 14_850), Duration::from_secs(60));
        assert_eq!(t.due(at(10_000)), Due::Term);
        t.told();
        assert_eq!(t.due(at(14_349)), Due::Until(at(14_350)));
        assert_eq!(t.due(at(14_350)), Due::Kill);
        // No room at all between the two: KILL still comes before the hard deadline.
        let mut t = Timeline::new(deadlines(10_000, 10_000), Duration::from_secs(3));
        assert_eq!(t.due(at(9_499)), Due::Until(at(9_500)));
        assert_eq!(t.due(at(9_500)), Due::Kill);
    }

    #[test]
    fn who_slept_through_everything_kills_at_once() {
        assert_eq!(timeline().due(at(60_000)), Due::Kill);
    }

    #[test]
    fn an_extension_counts_if_it_was_sent_in_time_and_the_deadline_was_not_seen_to_pass() {
        let mut t = timeline();
        assert!(t.extend(deadlines(20_000, 24_850), at(9_999)));
        assert_eq!(t.due(at(10_000)), Due::Until(at(20_000)));
        // Sent at the deadline: too late, even if nobody looked at the clock since.
        assert!(!t.extend(deadlines(30_000, 34_850), at(20_000)));
        // Sent in time, but the passing was already acted upon.
        assert_eq!(t.due(at(20_000)), Due::Term);
        assert!(!t.extend(deadlines(30_000, 34_850), at(19_999)));
        assert_eq!(t.due(at(23_000)), Due::Kill);
    }

    #[test]
    fn deadlines_never_move_earlier() {
        let mut t = timeline();
        assert!(t.extend(deadlines(5_000, 9_000), at(1)));
        assert_eq!(t.due(at(6_000)), Due::Until(at(10_000)));
    }

    #[test]
    fn a_planned_stop_may_outlast_the_first_deadline_while_it_is_extended() {
        let mut t = timeline();
        t.stop(Stop::Planned { drain: Duration::from_secs(25) }, at(5_000));
        assert_eq!(t.due(at(5_000)), Due::Term);
        t.told();
        assert!(t.extend(deadlines(18_000, 22_850), at(8_000)));
        assert_eq!(t.due(at(11_000)), Due::Until(at(18_000)));
        assert!(t.extend(deadlines(40_000, 44_850), at(17_000)));
        assert_eq!(t.due(at(29_999)), Due::Until(at(30_000)));
        assert_eq!(t.due(at(30_000)), Due::Kill);
        assert_eq!(t.cause(), Cause::Planned);
    }

    #[test]
    fn a_deadline_that_passes_in_a_planned_stop_kills_without_a_second_term() {
        let mut t = timeline();
        t.stop(Stop::Planned { drain: Duration::from_secs(25) }, at(5_000));
        t.told();
        assert_eq!(t.due(at(10_000)), Due::Until(at(13_000)));
        assert_eq!(t.due(at(13_000)), Due::Kill);
        assert_eq!(t.cause(), Cause::Deadline);
    }

    #[test]
    fn a_loss_is_final_and_asking_again_only_brings_the_end_closer() {
        let mut t = timeline();
        t.stop(Stop::Loss, at(4_000));
        assert!(!t.extend(deadlines(20_000, 24_850), at(4_001)));
        t.told();
        assert_eq!(t.due(at(4_001)), Due::Until(at(7_000)));
        t.stop(Stop::Loss, at(6_000));
        t.stop(Stop::Planned { drain: Duration::from_secs(60) }, at(6_000));
        assert_eq!(t.due(at(6_001)), Due::Until(at(7_000)));
        t.stop(Stop::Now, at(6_002));
        assert_eq!(t.due(at(6_002)), Due::Kill);
        assert_eq!(t.cause(), Cause::Stopped);
    }
}
