//! Deliberate faults in the rules.
//!
//! Each stands for a rule that somebody might leave out. The simulator switches one on and has to find what
//! breaks; if it does not, it is the simulator that is broken.

/// One rule to break.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Fault {
    /// Validity counts from the answer instead of the send.
    ValidFromAnswer,
    /// A write that changed nothing (same resourceVersion), or nothing that others see, extends the term.
    NoOpExtends,
    /// A renewal's stamp is the bare wall clock.
    BareWallStamp,
    /// A cancelled term leads again when a late renewal is acknowledged.
    LateAckRevives,
    /// The lock is released when the term is cancelled, not when its work has ended.
    ReleaseBeforeWorkEnds,
    /// After a conflict, what is remembered is judged instead of what was just read.
    JudgeFromMemory,
    /// Updates carry no uid: a deleted lock is created again by them.
    UpdateWithoutUid,
    /// A free lock is free at once, mark or no mark.
    FreeAtOnce,
    /// Somebody who was appointed by another than the previous holder starts at once.
    ObeyAtOnce,
    /// A lock that vanished is created at once.
    CreateAtOnce,
    /// A follower takes over after nine tenths of the lease, guard or no guard.
    EarlyTakeover,
    /// A follower's timer is the holder's renewTime plus duration, by wall clock.
    WallClockExpiry,
    /// Marks count without comparing acquireTime.
    OldMarksCount,
    /// A transfer of unknown outcome is forgotten.
    ForgetUnknownTransfer,
    /// Renewals go on after a loss while work still lives, and revive the tenure's validity.
    NoHardEnd,
    /// A shorter duration published by a stranger counts at once.
    ShorterCounts,
    /// A follower leaves its guard alone when it missed events.
    GuardIgnoresGaps,
    /// A write of unknown outcome counts from the read that found it.
    UnknownCountsFromRead,
    /// A holder without a term whose guard runs releases with a mark.
    MarkDespiteGuard,
    /// Planned moves ignore damping.
    NoDamping,
    /// A leader that failed contends again at once.
    NoBackoff,
    /// The first failed request ends the term.
    FirstFailureEnds,
    /// An elector that was refused a request stops trying.
    ErrorEnds,
    /// A planned stop no longer renews while work ends.
    NoRenewalInDrain,
}

/// A set of faults; empty by default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Faults(u64);

impl Faults {
    /// One fault.
    pub const fn one(fault: Fault) -> Faults {
        Faults(1 << fault as u8)
    }

    /// Whether a fault is in the set.
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u8) != 0
    }
}
