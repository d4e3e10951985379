//! A deterministic simulation of incumbent's elections.
//!
//! One seed decides everything: which replicas run, how their clocks go, what the network does to each
//! request, when processes stop, crash and are replaced, what strangers write. The electors are those of
//! `incumbent-core`; the API server, the network, the work and the rest are simulated here. What must hold
//! (docs/protocol.md §12) is checked after every step, and the same seed gives the same bytes.
//!
//! ```text
//! scenario (from the seed) ─▶ world: queue of events in true time
//!                               ├─ process, work: an Elector of core, its work and its guard     (own clocks)
//!                               ├─ plain: an elector like client-go's
//!                               ├─ network + api: one Lease, watches, all that goes wrong
//!                               ├─ stranger: faults, operators, wipes, deletions, a skewed coordinator
//!                               └─ checks: I1 to I11
//! ```

mod api;
mod checks;
mod clock;
mod event;
mod network;
mod plain;
mod process;
mod rng;
mod run;
mod scenario;
mod stranger;
mod trace;
mod work;
mod world;

use incumbent_core::faults::Fault;

pub use run::{Options, Outcome, Stats, Summary, Violation, cli, describe, fault_named, find, run, simulate};
pub use scenario::{Kind, Scenario};

/// Every deliberate fault that the rules can be given.
pub const FAULTS: [Fault; 24] = [
    Fault::ValidFromAnswer,
    Fault::NoOpExtends,
    Fault::BareWallStamp,
    Fault::LateAckRevives,
    Fault::ReleaseBeforeWorkEnds,
    Fault::JudgeFromMemory,
    Fault::UpdateWithoutUid,
    Fault::FreeAtOnce,
    Fault::ObeyAtOnce,
    Fault::CreateAtOnce,
    Fault::EarlyTakeover,
    Fault::WallClockExpiry,
    Fault::OldMarksCount,
    Fault::ForgetUnknownTransfer,
    Fault::NoHardEnd,
    Fault::ShorterCounts,
    Fault::GuardIgnoresGaps,
    Fault::UnknownCountsFromRead,
    Fault::MarkDespiteGuard,
    Fault::NoDamping,
    Fault::NoBackoff,
    Fault::FirstFailureEnds,
    Fault::ErrorEnds,
    Fault::NoRenewalInDrain,
];
