//! Keeping the view fresh: one read, then one watch from there; polling where watching is not allowed
//! (docs/protocol.md §5, §6).

use std::time::Duration;

use super::{Command, Elector, Op, OpKind, Report, WatchInput};
use crate::follow::Source;
use crate::record::Revision;
use crate::time::Instant;

/// How often a watch that was refused is tried again.
const TRY_WATCH_AGAIN: Duration = Duration::from_secs(300);
/// How often a follower tries what was refused for a lasting reason.
const RARELY: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Watch {
    Closed,
    Opening { since: Instant },
    Open { since: Instant },
    Refused { retry_at: Instant },
}

pub(super) struct Sync {
    /// When to read the lock; `None`: the watch tells.
    read_at: Option<Instant>,
    /// A read must be answered before anything is written: what was remembered has been contradicted.
    pub(super) must_read: bool,
    watch: Watch,
    /// The next event of the watch follows on what is known, with nothing between.
    continuous: bool,
    /// The highest revision that the watch told.
    told: Revision,
    /// A revision known otherwise that the watch has not told yet, and since when.
    ahead: Option<(Revision, Instant)>,
    /// When reads began to fail.
    outage: Option<Instant>,
    /// After an outage of our own, an expired lock is not taken before this: its holder had the same outage
    /// and goes first.
    pub(super) grace: Instant,
    failures: u32,
}

impl Sync {
    pub(super) fn new(now: Instant) -> Sync {
        Sync {
            read_at: Some(now),
            must_read: false,
            watch: Watch::Closed,
            continuous: false,
            told: Revision(0),
            ahead: None,
            outage: None,
            grace: Instant::ZERO,
            failures: 0,
        }
    }

    pub(super) fn polls(&self) -> bool {
        matches!(self.watch, Watch::Refused { .. })
    }
}

impl Elector {
    /// Whether the lock is polled, because it may not be watched.
    pub fn is_polling(&self) -> bool {
        self.sync.polls()
    }

    /// Something contradicted what is remembered: judge from a fresh read, after `wait`.
    pub(super) fn read_before_writing(&mut self, wait: Duration) {
        self.sync.must_read = true;
        self.sync.read_at = Some(self.now.mono + wait);
    }

    /// Something else than the watch told of `revision`: the watch should tell of it soon.
    pub(super) fn expect_from_watch(&mut self, revision: Revision) {
        if self.sync.ahead.is_none() && self.sync.told < revision {
            self.sync.ahead = Some((revision, self.now.mono));
        }
    }

    pub(super) fn watched(&mut self, event: WatchInput) {
        let now = self.now.mono;
        if !matches!(event, WatchInput::Broken | WatchInput::Refused(_)) {
            self.last_contact = Some(now);
        }
        match event {
            WatchInput::Opened => {
                if matches!(self.sync.watch, Watch::Opening { .. }) {
                    self.sync.watch = Watch::Open { since: now };
                }
            }
            WatchInput::Changed(record) => {
                self.sync.told = self.sync.told.max(record.revision);
                let source = if self.sync.continuous { Source::Next } else { Source::Gap };
                self.sync.continuous = true;
                if record.revision > self.view.highest() {
                    self.learn(record, source);
                }
            }
            WatchInput::Deleted(revision) => {
                self.sync.told = self.sync.told.max(revision);
                self.sync.continuous = true;
                if revision > self.view.highest() {
                    self.learn_absent();
                }
            }
            WatchInput::Broken => self.watch_broke(),
            WatchInput::Refused(why) => {
                if !self.sync.polls() {
                    self.report(Report::Polling(why));
                }
                self.sync.watch = Watch::Refused { retry_at: now + TRY_WATCH_AGAIN };
                self.sync.continuous = false;
                self.sync.ahead = None;
                self.view.lost_sight();
            }
        }
    }

    fn watch_broke(&mut self) {
        let now = self.now.mono;
        let lived = match self.sync.watch {
            Watch::Open { since } => now.since(since),
            Watch::Refused { .. } => return,
            _ => Duration::ZERO,
        };
        self.sync.watch = Watch::Closed;
        self.sync.continuous = false;
        self.sync.ahead = None;
        self.view.lost_sight();
        // A watch that breaks as soon as it opens must not become a loop of reads.
        let wait = if lived >= Duration::from_secs(1) {
            Duration::ZERO
        } else {
            self.sync.failures += 1;
            self.read_back_off()
        };
        let at = now + wait;
        self.sync.read_at = Some(self.sync.read_at.map_or(at, |r| r.min(at)));
    }

    fn read_back_off(&mut self) -> Duration {
        let longest = self.config.timing.retry_period();
        let delay = Duration::from_millis(25).saturating_mul(1 << self.sync.failures.min(12)).min(longest);
        self.rng.percent(delay, 80, 120)
    }

    /// A read was answered: the view is fresh.
    pub(super) fn read_succeeded(&mut self) {
        let now = self.now.mono;
        self.sync.must_read = false;
        self.sync.read_at = None;
        if let Some(since) = self.sync.outage.take() {
            let retry = self.retry_period();
            if now.since(since) >= self.config.timing.retry_period() {
                self.sync.grace = now + retry;
            }
        }
        if self.sync.watch == Watch::Closed {
            self.open_watch();
        }
        if let Watch::Open { since } = self.sync.watch
            && now.since(since) >= Duration::from_secs(1)
        {
            self.sync.failures = 0;
        }
    }

    /// A read failed: it is tried again, rarely if somebody has to mend something first and nobody leads here.
    pub(super) fn read_failed(&mut self, lasting: bool, retry_after: Option<Duration>) {
        let now = self.now.mono;
        self.sync.outage.get_or_insert(now);
        self.view.lost_sight();
        self.sync.failures += 1;
        let mut wait = self.read_back_off().max(retry_after.unwrap_or_default());
        wait = match &self.term {
            Some(term) => {
                let left =
                    term.validity.until.since(now).saturating_sub(self.config.timing.attempt_timeout());
                if left.is_zero() { self.read_back_off() } else { wait.min(left) }
            }
            None if lasting => self.rng.percent(RARELY, 90, 110),
            None => wait.min(self.config.timing.lease_duration()),
        };
        self.sync.read_at = Some(now + wait);
    }

    fn open_watch(&mut self) {
        let from = self.view.record().map(|_| self.view.highest());
        self.sync.watch = Watch::Opening { since: self.now.mono };
        self.sync.continuous = from.is_some();
        self.sync.told = from.unwrap_or_default();
        self.sync.ahead = None;
        self.out.push(Command::Watch { from });
    }

    /// Sends the read that is due, and looks after the watch.
    pub(super) fn keep_in_sync(&mut self) {
        let now = self.now.mono;
        match self.sync.watch {
            Watch::Opening { since } => {
                let limit = since + self.config.timing.attempt_timeout();
                if now >= limit { self.watch_broke() } else { self.wake_at(limit) }
            }
            Watch::Open { .. } => {
                if let Some((revision, since)) = self.sync.ahead {
                    let limit = since + self.config.timing.attempt_timeout();
                    if self.sync.told >= revision {
                        self.sync.ahead = None;
                    } else if now >= limit {
                        // The watch looks alive and says nothing: half-open.
                        self.open_watch();
                        let limit = now + self.config.timing.attempt_timeout();
                        self.wake_at(limit);
                    } else {
                        self.wake_at(limit);
                    }
                }
            }
            Watch::Refused { retry_at } => {
                if now >= retry_at && self.view.is_known() {
                    self.sync.watch = Watch::Refused { retry_at: now + TRY_WATCH_AGAIN };
                    let from = self.view.record().map(|_| self.view.highest());
                    self.out.push(Command::Watch { from });
                }
                if self.sync.read_at.is_none() && self.tenure.is_none() {
                    self.sync.read_at = Some(now + self.retry_period());
                }
            }
            Watch::Closed => {}
        }
        let Some(at) = self.sync.read_at else { return };
        if self.op.is_some() {
            return;
        }
        if at > now {
            self.wake_at(at);
            return;
        }
        let (id, deadline) = self.next_op();
        self.op = Some(Op { id, kind: OpKind::Read, deadline, known: self.view.highest() });
        self.wake_at(deadline);
        self.out.push(Command::Read { op: id, deadline });
    }
}
