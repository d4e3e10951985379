//! What a follower knows (docs/protocol.md §6): the record, how long it has stood, and until when work of a
//! holder may still live.

use std::time::Duration;

use crate::elector::Config;
use crate::marks;
use crate::record::{Record, Revision};
use crate::time::{Instant, Now};
use crate::timing::LONGEST_LEASE;

/// How a record came to be known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The acknowledgement of our own write, or the next event of an unbroken watch: nothing was missed.
    Next,
    /// First sight, a relist, a poll, a read ahead of the watch: changes may have been missed.
    Gap,
}

/// Whether there is a lock.
#[derive(Debug)]
enum Known {
    /// Not read yet.
    Nothing,
    /// Not there. `since` is the instant from which on its absence was seen without a break.
    Absent { since: Option<Instant> },
    /// There.
    Present(Box<Record>),
}

/// Why a process may take the lock over, and from when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opening {
    pub(crate) from: Instant,
    /// The record that stands there expired: nobody gave it up.
    pub(crate) expired: bool,
}

pub(crate) struct View {
    known: Known,
    ever_seen: bool,
    highest: Revision,
    /// The last change of the record, on our clock: it expires `counted` (stretched) after this.
    timer: Instant,
    /// The duration that counts for the present record.
    counted: Duration,
    /// The longer of two durations counts until the present holder renews.
    until_renewed: bool,
    /// No takeover and no start of a term before this.
    guard: Option<Instant>,
    /// The largest duration seen in this lock, never below our own.
    longest: Duration,
    /// Counts the changes of the record.
    epoch: u64,
}

impl View {
    pub(crate) fn new(config: &Config) -> View {
        View {
            known: Known::Nothing,
            ever_seen: false,
            highest: Revision(0),
            timer: Instant::ZERO,
            counted: Duration::ZERO,
            until_renewed: false,
            guard: None,
            longest: config.timing.lease_duration(),
            epoch: 0,
        }
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        match &self.known {
            Known::Present(record) => Some(record),
            _ => None,
        }
    }

    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.known, Known::Absent { .. })
    }

    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.known, Known::Nothing)
    }

    /// The highest revision seen.
    pub(crate) fn highest(&self) -> Revision {
        self.highest
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether work of a holder of ours may still live at `now`, as far as this process can tell.
    pub(crate) fn guarded(&self, now: Instant) -> bool {
        self.guard.is_some_and(|g| now < g)
    }

    pub(crate) fn guard(&self) -> Option<Instant> {
        self.guard
    }

    /// The store went back in time: what was seen of its future says nothing any more.
    pub(crate) fn went_back(&mut self, to: Revision) {
        self.highest = to;
        self.known = Known::Nothing;
    }

    /// Takes in a record. Returns whether one of the fields changed that restart the timer.
    pub(crate) fn observe(&mut self, record: Record, source: Source, now: Now, config: &Config) -> bool {
        let first = !self.ever_seen;
        self.ever_seen = true;
        self.highest = self.highest.max(record.revision);
        for seen in [record.duration(), marks::holder(&record).map(|(_, d)| d)].into_iter().flatten() {
            self.longest = self.longest.max(seen);
        }
        let before = match std::mem::replace(&mut self.known, Known::Nothing) {
            Known::Present(before) => Some(before),
            _ => None,
        };
        let changed = before.as_ref().is_none_or(|b| b.differs(&record));
        if changed {
            self.timer = now.mono;
            self.epoch += 1;
            self.count_duration(before.as_deref(), &record, config);
            self.set_guard(&record, source, now.mono, config);
            if first {
                self.cold_start(&record, now, config);
            }
        }
        self.known = Known::Present(Box::new(record));
        changed
    }

    /// Takes in that there is no lock. `unbroken`: no presence can have been missed since the last sight.
    pub(crate) fn observe_absent(&mut self, now: Instant) {
        match &mut self.known {
            Known::Absent { since } => {
                since.get_or_insert(now);
            }
            _ => {
                self.known = Known::Absent { since: Some(now) };
                self.epoch += 1;
            }
        }
    }

    /// Events may be missed from now on: an absence has to be waited for anew.
    pub(crate) fn lost_sight(&mut self) {
        if let Known::Absent { since } = &mut self.known {
            *since = None;
        }
    }

    fn published(record: &Record, config: &Config) -> Duration {
        record.duration().unwrap_or_else(|| config.timing.lease_duration().max(Duration::from_secs(15)))
    }

    fn count_duration(&mut self, before: Option<&Record>, record: &Record, config: &Config) {
        let published = View::published(record, config);
        if fault!(config, ShorterCounts) {
            self.counted = published;
            return;
        }
        let marked = marks::released(record).is_some() || marks::transferred(record).is_some();
        let same_holder = before.is_some_and(|b| b.holder() == record.holder());
        let renewed = before.is_some_and(|b| b.renew_time != record.renew_time);
        if marked {
            self.counted = published;
            self.until_renewed = false;
        } else if record.holder().is_none() || record.acquire_time.is_none() {
            self.counted = self.longest;
            self.until_renewed = true;
        } else if before.is_none() || (same_holder && renewed) {
            self.counted = published;
            self.until_renewed = false;
        } else {
            // Another holder without a mark, or a duration edited under a holder that did not renew: work
            // may live by the old duration.
            self.counted = self.counted.max(published);
            self.until_renewed = true;
        }
    }

    fn set_guard(&mut self, record: &Record, source: Source, now: Instant, config: &Config) {
        let own = config.identity.as_str();
        let until = now + config.timing.stretched(self.longest);
        let wrote = marks::holder(record).map(|(who, _)| who);
        if wrote.is_some() && wrote == record.holder() && wrote != Some(own) {
            self.guard = Some(until);
        } else if marks::released(record).is_some()
            || marks::transferred(record).is_some()
            || (fault!(config, OldMarksCount)
                && (record.annotations.contains_key(marks::RELEASED)
                    || record.annotations.contains_key(marks::TRANSFERRED)))
        {
            self.guard = None;
        } else if source == Source::Gap
            && wrote.is_some_and(|who| who != own)
            && !fault!(config, GuardIgnoresGaps)
        {
            self.guard = Some(until);
        }
    }

    /// Opt-in: at first sight, a record that has been dead for long by our wall clock is taken at once.
    fn cold_start(&mut self, record: &Record, now: Now, config: &Config) {
        let (Some(skew), Some(renewed)) = (config.trust_wall_clock, record.renew_time) else { return };
        if record.holder().is_some() && now.wall > renewed.plus(self.counted).plus(skew) {
            self.timer = now.mono - config.timing.stretched(self.counted);
            self.guard = None;
        }
    }

    /// From when on this process may take the lock over or create it; `None` while it is held by us, or while
    /// nothing is known.
    pub(crate) fn opening(&self, now: Now, config: &Config) -> Option<Opening> {
        let guarded = |from: Instant| self.guard.map_or(from, |g| from.max(g));
        match &self.known {
            Known::Nothing => None,
            Known::Absent { .. } if !self.ever_seen => {
                Some(Opening { from: guarded(Instant::ZERO), expired: false })
            }
            Known::Absent { since } => {
                let since = (*since)?;
                if fault!(config, CreateAtOnce) {
                    return Some(Opening { from: since, expired: false });
                }
                let from = since + config.timing.stretched(config.timing.lease_duration());
                Some(Opening { from: guarded(from), expired: false })
            }
            Known::Present(record) => match record.holder() {
                None if fault!(config, FreeAtOnce) => Some(Opening { from: self.timer, expired: false }),
                None => Some(Opening { from: guarded(self.timer), expired: false }),
                Some(holder) if holder == config.identity.as_str() => None,
                Some(_) => {
                    let mut from = self.timer + config.timing.stretched(self.counted) + config.lock_delay;
                    if fault!(config, EarlyTakeover) {
                        from = self.timer + self.counted.mul_f64(0.9);
                        return Some(Opening { from, expired: true });
                    }
                    if fault!(config, WallClockExpiry) {
                        let end = record.renew_time.map_or(now.wall, |t| t.plus(self.counted));
                        let left = end.as_micros().saturating_sub(now.wall.as_micros()).max(0);
                        let from = now.mono + Duration::from_micros(left.unsigned_abs());
                        return Some(Opening { from, expired: true });
                    }
                    Some(Opening { from: guarded(from), expired: true })
                }
            },
        }
    }

    /// When the present record expires for others, on our clock; `None` if the lock is not held.
    pub(crate) fn expires(&self, config: &Config) -> Option<Instant> {
        self.record()?.holder()?;
        Some(self.timer + config.timing.stretched(self.counted))
    }

    /// The published duration where it is absurd.
    pub(crate) fn absurd_duration(&self) -> Option<i32> {
        let seconds = self.record()?.duration_seconds?;
        (u64::try_from(seconds).unwrap_or(0) > LONGEST_LEASE.as_secs()).then_some(seconds)
    }
}
