//! The elector: one process's part in one election.

mod io;

pub use io::*;

use crate::rank::Ranked;
use crate::record::Record;
use crate::time::{Instant, Now};

/// One process's part in the election of one lock.
pub struct Elector {
    config: Config,
}

impl Elector {
    /// A new elector. `seed` feeds its jitter; draw it at random outside of tests.
    pub fn new(config: Config, _now: Now, _seed: u64) -> Elector {
        Elector { config }
    }

    /// Tells the elector what happened, and when it was noticed; returns what to do, in this order.
    ///
    /// `now` must never go back. Call it with [`Input::Wake`] at or after [`Elector::next_wake`].
    pub fn handle(&mut self, _now: Now, _input: Input) -> Vec<Command> {
        Vec::new()
    }

    /// When to call [`Elector::handle`] with [`Input::Wake`], if nothing happens before.
    pub fn next_wake(&self) -> Option<Instant> {
        None
    }

    /// Whether this process leads at `now`: a term was started, was not cancelled, and is still valid.
    ///
    /// Computed on every call: a process that was stopped or suspended sees the truth on its first look.
    pub fn is_leader(&self, _now: Instant) -> bool {
        false
    }

    /// Until when the present term may act; `None` without a term whose work may still live.
    pub fn validity(&self) -> Option<Validity> {
        None
    }

    /// What this elector is doing.
    pub fn role(&self, _now: Instant) -> Role {
        Role::Starting
    }

    /// The lock as it was last seen.
    pub fn lock(&self) -> Option<&Record> {
        None
    }

    /// The candidates as this elector ranks them, best first.
    pub fn ranking(&self, _now: Now) -> Vec<Ranked> {
        Vec::new()
    }

    /// When the server last answered a request, whatever it answered; or the watch told something.
    pub fn last_contact(&self) -> Option<Instant> {
        None
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}
