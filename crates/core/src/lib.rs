//! The rules of incumbent: leader election and graceful handover on a Kubernetes Lease.
//!
//! Everything here is pure. An [`Elector`] is handed observations and instants, and hands back commands; it
//! reads no clock, sends nothing, and waits for nothing. The runtime, the simulator and the tools all call
//! the same rules, so that there is one place in which they are right or wrong.
//!
//! ```text
//!            Input (an answer, a watch event, a request, time)  +  Now
//!                                     │
//!                                     ▼
//!   Config ──▶ Elector { view: what a follower knows, tenure: what a holder knows, handover, candidacy }
//!                                     │
//!                                     ▼
//!            Command (read, write, watch, start or stop work, report)  +  next_wake
//! ```

/// Whether a deliberate fault is switched on; always false in a build without the feature `faults`.
macro_rules! fault {
    ($config:expr, $fault:ident) => {{
        #[cfg(feature = "faults")]
        {
            $config.faults.has(crate::faults::Fault::$fault)
        }
        #[cfg(not(feature = "faults"))]
        {
            $crate::never(&$config)
        }
    }};
}

/// No fault is ever on. A function, so that what depends on it is not taken for a constant.
#[cfg(not(feature = "faults"))]
fn never(_: &Config) -> bool {
    false
}

mod book;
pub mod candidate;
mod elector;
#[cfg(feature = "faults")]
pub mod faults;
mod follow;
mod identity;
pub mod marks;
pub mod rank;
mod record;
mod rng;
mod strategy;
mod tenure;
mod time;
mod timing;
mod token;
mod version;

pub use candidate::Readiness;
pub use elector::*;
pub use identity::{Identity, LockName, NameError, name_of};
pub use record::{Record, Revision};
pub use strategy::{Strategy, StrategyError};
pub use time::{Instant, Now, WallTime};
pub use timing::{LONGEST_LEASE, Profile, Timing, TimingConfig, TimingError};
pub use token::FencingToken;
pub use version::{VersionError, Versions};
