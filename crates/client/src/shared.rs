//! What other tasks may ask at any time, without waiting for the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use incumbent_core::Instant;

use crate::clock::Clock;

/// Facts that hold by the clock, however stuck the driver is.
pub(crate) struct Shared {
    clock: Arc<dyn Clock>,
    /// Nanoseconds at which the present term ends unless extended; zero without one.
    leading_until: AtomicU64,
    /// Nanoseconds at which the server was last heard; zero before that.
    last_contact: AtomicU64,
    /// Nanoseconds at which this was made.
    began: Instant,
}

impl Shared {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Shared {
        let began = clock.now().mono;
        Shared { clock, leading_until: AtomicU64::new(0), last_contact: AtomicU64::new(0), began }
    }

    pub(crate) fn lead_until(&self, until: Option<Instant>) {
        self.leading_until.store(until.map_or(0, Instant::as_nanos), Ordering::SeqCst);
    }

    pub(crate) fn is_leader(&self) -> bool {
        let until = self.leading_until.load(Ordering::SeqCst);
        until != 0 && self.clock.now().mono < Instant::from_nanos(until)
    }

    pub(crate) fn heard(&self, at: Option<Instant>) {
        if let Some(at) = at {
            self.last_contact.fetch_max(at.as_nanos(), Ordering::SeqCst);
        }
    }

    /// How long ago the server was last heard; since the beginning, if never.
    pub(crate) fn silence(&self) -> Duration {
        let last = Instant::from_nanos(self.last_contact.load(Ordering::SeqCst)).max(self.began);
        self.clock.now().mono.since(last)
    }
}
