//! What a holder knows (docs/protocol.md §3, §5): how long its lead is valid, what it stamped, and which of
//! its writes may yet turn out to have been carried out.

use std::time::Duration;

use crate::record::{Record, Revision};
use crate::time::{Instant, Now, WallTime};

/// Who made us holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Appointed {
    /// We took the lock over, or created it.
    Ourselves,
    /// The previous holder, after its work had ended.
    Transfer,
    /// Somebody else wrote our name.
    Stranger,
}

/// The time from becoming holder to somebody else, or nobody, becoming it.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) appointed: Appointed,
    /// The acquireTime that identifies this tenure; `None` until our first write of an appointment by a
    /// stranger is acknowledged.
    pub(crate) acquired: Option<WallTime>,
    /// When the latest acknowledged renewal was sent (`s` of the rules).
    pub(crate) renewed: Option<Instant>,
    /// The revision of the latest acknowledged write.
    pub(crate) written: Option<Revision>,
    /// The renewTime of the latest acknowledged write.
    pub(crate) stamped: Option<WallTime>,
    /// A write was acknowledged since the last term of this tenure ended.
    pub(crate) fresh: bool,
    /// A transfer or a release was sent, and nobody knows whether it was carried out.
    pub(crate) exit_unknown: bool,
    /// Who held the lock before.
    pub(crate) previous: Option<String>,
    /// When it began, on our clock.
    pub(crate) began: Instant,
}

impl Tenure {
    pub(crate) fn new(
        appointed: Appointed,
        acquired: Option<WallTime>,
        previous: Option<String>,
        now: Instant,
    ) -> Tenure {
        Tenure {
            appointed,
            acquired,
            renewed: None,
            written: None,
            stamped: None,
            fresh: false,
            exit_unknown: false,
            previous,
            began: now,
        }
    }

    /// Whether our own write was acknowledged in this tenure and is recent enough at `now`.
    pub(crate) fn valid(&self, now: Instant, renew_deadline: Duration) -> bool {
        self.renewed.is_some_and(|s| now < s + renew_deadline)
    }
}

/// A write in our name that was sent: what to recognise it by, should it turn up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// Its renewTime.
    stamp: Option<WallTime>,
    /// Its acquireTime.
    pub(crate) acquired: Option<WallTime>,
    /// When it was sent.
    pub(crate) at: Instant,
    /// Whether the coarsest follower sees the change it makes.
    pub(crate) seen_by_all: bool,
    /// The revision it replaces: once a later one is known, it has been carried out or never will be.
    base: Revision,
}

impl Sent {
    pub(crate) fn new(base: Option<&Record>, record: &Record, at: Instant) -> Sent {
        Sent {
            stamp: record.renew_time,
            acquired: record.acquire_time,
            at,
            seen_by_all: base.is_none_or(|b| b.differs_coarsely(record)),
            base: base.map_or(Revision(0), |b| b.revision),
        }
    }

    /// Whether `record` is what this write left behind.
    pub(crate) fn left(&self, record: &Record) -> bool {
        record.renew_time == self.stamp && record.acquire_time == self.acquired
    }
}

/// Writes of unknown outcome.
#[derive(Debug, Default)]
pub(crate) struct Unsettled(Vec<Sent>);

impl Unsettled {
    /// Remembers a write. Only the latest few can still matter: each is tied to one revision.
    pub(crate) fn push(&mut self, sent: Sent) {
        if self.0.len() == 16 {
            self.0.remove(0);
        }
        self.0.push(sent);
    }

    /// Finds the write that left `record` behind, and forgets all that can no longer be carried out.
    pub(crate) fn settle(&mut self, record: &Record) -> Option<Sent> {
        let found = self.0.iter().position(|s| s.left(record)).map(|i| self.0.remove(i));
        self.0.retain(|s| s.base >= record.revision);
        found
    }
}

/// Makes time stamps that never stand still: each differs from the one before by at least the time that
/// passed on our own clock, whatever the wall clock does.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    last: Option<(WallTime, Instant)>,
}

impl Stamps {
    pub(crate) fn next(&mut self, now: Now) -> WallTime {
        let stamp = match self.last {
            None => now.wall,
            Some((last, at)) => {
                let passed = last.plus(now.mono.since(at));
                now.wall.max(passed).max(last.plus(Duration::from_micros(1)))
            }
        };
        self.last = Some((stamp, now.mono));
        stamp
    }

    /// Moves the last stamp on by one second.
    pub(crate) fn add_second(&mut self) -> Option<WallTime> {
        let (stamp, _) = self.last.as_mut()?;
        *stamp = stamp.plus(Duration::from_secs(1));
        Some(*stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(mono_ms: u64, wall_ms: i64) -> Now {
        Now { mono: Instant::from_nanos(mono_ms * 1_000_000), wall: WallTime::from_micros(wall_ms * 1000) }
    }

    #[test]
    fn stamps_rise_with_our_own_clock_when_the_wall_clock_stands_still() {
        let mut stamps = Stamps::default();
        let first = stamps.next(now(0, 1000));
        let second = stamps.next(now(2000, 1000));
        assert_eq!(second, first.plus(Duration::from_secs(2)));
        let third = stamps.next(now(2000, 0));
        assert_eq!(third, second.plus(Duration::from_micros(1)));
        let ahead = stamps.next(now(2001, 9000));
        assert_eq!(ahead, WallTime::from_micros(9_000_000));
    }

    #[test]
    fn a_write_is_recognised_by_both_its_stamps_and_forgotten_once_it_cannot_happen() {
        let record = |revision, renew, acquired| Record {
            revision: Revision(revision),
            renew_time: Some(WallTime::from_micros(renew)),
            acquire_time: Some(WallTime::from_micros(acquired)),
            ..Record::default()
        };
        let base = record(5, 1, 1);
        let sent = Sent::new(Some(&base), &record(5, 2_000_000, 1), Instant::ZERO);
        let mut unsettled = Unsettled::default();
        unsettled.push(sent);
        assert_eq!(unsettled.settle(&record(5, 1, 1)), None, "not carried out yet");
        assert_eq!(unsettled.settle(&record(6, 2_000_000, 1)), Some(sent));
        unsettled.push(sent);
        assert_eq!(unsettled.settle(&record(6, 3, 1)), None, "something else came instead");
        assert_eq!(unsettled.settle(&record(7, 2_000_000, 1)), None, "so it never will");
    }
}
