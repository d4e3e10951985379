//! The lock as the rules see it: the fields of one Lease.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::time::WallTime;
use crate::timing::LONGEST_LEASE;

/// A resourceVersion: one rising number per store, comparable within one resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A Lease as read from, or to be written to, the API.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Record {
    /// `metadata.uid`; empty in a record that is to be created.
    pub uid: String,
    /// `metadata.resourceVersion`; zero in a record that is to be created.
    pub revision: Revision,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.holderIdentity`. `None` is a missing field, `Some("")` a free lock.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`.
    pub duration_seconds: Option<i32>,
    /// `spec.acquireTime`.
    pub acquire_time: Option<WallTime>,
    /// `spec.renewTime`.
    pub renew_time: Option<WallTime>,
    /// `spec.leaseTransitions`.
    pub transitions: Option<i32>,
    /// `spec.strategy`: a coordinator's.
    pub strategy: Option<String>,
    /// `spec.preferredHolder`: a coordinator's order to the holder.
    pub preferred_holder: Option<String>,
    /// The whole object as the transport read it. The rules never look inside; the transport lays the fields
    /// above over it when it writes, so that what others put there survives.
    pub rest: Option<Arc<serde_json::Value>>,
}

impl Record {
    /// The holder, unless the lock is free.
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref().filter(|h| !h.is_empty())
    }

    /// The published duration, capped at [`LONGEST_LEASE`]; `None` if missing or not positive.
    pub fn duration(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.duration_seconds?).ok().filter(|s| *s > 0)?;
        Some(Duration::from_secs(seconds).min(LONGEST_LEASE))
    }

    /// Whether `other` differs in a field that restarts a follower's timer: holder, renewTime, acquireTime,
    /// transitions, duration or uid.
    pub fn differs(&self, other: &Record) -> bool {
        self.holder() != other.holder()
            || self.renew_time != other.renew_time
            || self.acquire_time != other.acquire_time
            || self.transitions != other.transitions
            || self.duration_seconds != other.duration_seconds
            || self.uid != other.uid
    }

    /// Whether the coarsest follower (client-go, which compares whole seconds) sees a difference between
    /// `self` and `next`: holder, duration, transitions, or the second of a time stamp.
    ///
    /// Only a write that is seen by everybody restarts everybody's timer, so only such a write may extend
    /// its writer's term.
    pub fn differs_coarsely(&self, next: &Record) -> bool {
        let second = |t: Option<WallTime>| t.map(WallTime::second);
        self.holder() != next.holder()
            || self.duration_seconds != next.duration_seconds
            || self.transitions != next.transitions
            || second(self.renew_time) != second(next.renew_time)
            || second(self.acquire_time) != second(next.acquire_time)
    }
}
