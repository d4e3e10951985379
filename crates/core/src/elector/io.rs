//! What goes into an elector and what comes out: observations and instants in, commands out.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::identity::Identity;
use crate::record::{Record, Revision};
use crate::strategy::Strategy;
use crate::time::{Instant, WallTime};
use crate::timing::Timing;
use crate::token::FencingToken;
use crate::version::{VersionError, Versions};

/// What one process brings to an election.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who it is.
    pub identity: Identity,
    /// The checked durations.
    pub timing: Timing,
    /// What it announces as a candidate.
    pub candidacy: Candidacy,
    /// How long a better candidate must stay better before a planned move (5 s). Where the move mends a
    /// version skew under `OldestEmulationVersion` it is made at once.
    pub settle: Duration,
    /// How long a designated successor may take to become warm (60 s).
    pub warm_timeout: Duration,
    /// At start only: a record whose renewTime is older than its duration and this, by our wall clock, is
    /// taken at once. Compares two machines' wall clocks, so it is off by default.
    pub trust_wall_clock: Option<Duration>,
    /// After an expiry, but not after a release or a transfer, wait this much longer.
    pub lock_delay: Duration,
    /// Faults to bring into the rules, for tests of the simulator.
    #[cfg(feature = "faults")]
    pub faults: crate::faults::Faults,
}

/// What a process announces as a candidate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Candidacy {
    /// Its versions.
    pub versions: Option<Versions>,
    /// Strategies in order of preference.
    pub strategies: Vec<Strategy>,
    /// Higher comes first; zero is none.
    pub priority: u32,
    /// Until when the priority counts, by wall clock.
    pub priority_until: Option<WallTime>,
    /// Where others can reach it.
    pub address: Option<String>,
    /// Free-form labels.
    pub labels: BTreeMap<String, String>,
    /// Whether there is a warm-up to do between designation and drain. Without one a candidate is always warm.
    pub warms_up: bool,
}

impl Candidacy {
    /// Checks that what the strategies compare is there.
    ///
    /// # Errors
    /// [`VersionError::Missing`] if a strategy compares versions and none was given.
    pub fn check(&self) -> Result<(), VersionError> {
        match self.strategies.iter().find(|s| s.compares_versions()) {
            Some(s) if self.versions.is_none() => Err(VersionError::Missing(s.to_string())),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// A configuration with the default settings for everything else.
    pub fn new(identity: Identity, timing: Timing, candidacy: Candidacy) -> Config {
        Config {
            identity,
            timing,
            candidacy,
            settle: Duration::from_secs(5),
            warm_timeout: Duration::from_secs(60),
            trust_wall_clock: None,
            lock_delay: Duration::ZERO,
            #[cfg(feature = "faults")]
            faults: Default::default(),
        }
    }
}

/// Names one request, so that its answer finds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpId(pub(crate) u64);

/// What happened in the world. Hand it in together with the instant at which it was noticed.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed: at or after [`Elector::next_wake`](super::Elector::next_wake).
    Wake,
    /// A request was answered, or will not be.
    Answer {
        /// Which one.
        op: OpId,
        /// How.
        outcome: Outcome,
    },
    /// Something about the watch.
    Watch(WatchInput),
    /// The work of the current term has ended: every task of it, and its hooks.
    WorkEnded(WorkEnd),
    /// What the owner of this elector wants.
    Request(Request),
}

/// What became of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Read: the lock as it is. Write or patch: acknowledged, and the lock as it was written.
    Ok(Record),
    /// 404: there is no such lock.
    NotFound,
    /// 409 to an update, or to a creation: certainly not written.
    Conflict,
    /// Certainly not carried out: refused by the server, or never sent.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The server's or the transport's words.
        message: String,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// Timeout, reset, or a 5xx after sending: it may have been carried out, or may yet be.
    Unknown {
        /// What happened.
        message: String,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
}

/// Why a request was certainly not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// The connection could not be made: nothing was sent.
    NotSent,
    /// 429: too many requests.
    Throttled,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404 for the namespace.
    NoNamespace,
    /// 400, 405, 415, 422: the server does not accept what was sent.
    Invalid,
}

impl Refusal {
    /// Whether trying again soon is of no use, because somebody has to mend something first.
    pub fn is_lasting(self) -> bool {
        matches!(self, Refusal::Forbidden | Refusal::NoNamespace | Refusal::Invalid | Refusal::Unauthorized)
    }
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum WatchInput {
    /// The watch that was asked for is established: from now on no change is missed.
    Opened,
    /// The lock was created or changed: the next event of an unbroken watch.
    Changed(Record),
    /// The lock was deleted, at this revision.
    Deleted(Revision),
    /// The watch ended, for whatever reason (also 410): events may be missed from now on.
    Broken,
    /// The server does not let this user watch.
    Refused(String),
}

/// How work ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WorkEnd {
    /// It returned.
    Done,
    /// It failed or panicked: others should have a chance before it is tried here again.
    Failed,
}

/// What the owner of an elector may ask of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Hand over to the best other candidate that is alive; without one, go on leading.
    Yield,
    /// Stop: end the term, hand over or release, remove the candidate record. The elector is then
    /// [finished](Command::Finished). Idempotent.
    Shutdown,
    /// The work of the current term has returned, but tasks or hooks of it still live: the term is to end as
    /// in a planned stop. [`Input::WorkEnded`] follows when everything has ended.
    EndTerm,
    /// The warm-up that [`Command::WarmUp`] asked for is done.
    Warm,
    /// Whether this process can lead at present. An unready leader yields.
    Ready(bool),
}

/// What the elector wants done.
#[derive(Clone, Debug)]
pub enum Command {
    /// GET the lock, without a resourceVersion. Answered by [`Input::Answer`].
    Read {
        /// Names the answer.
        op: OpId,
        /// Not answered by then, the request is to be given up; the elector has given it up by itself.
        deadline: Instant,
    },
    /// POST the lock.
    Create {
        /// Names the answer.
        op: OpId,
        /// See [`Command::Read`].
        deadline: Instant,
        /// What to create.
        record: Record,
    },
    /// PUT the lock, with the record's uid and resourceVersion as preconditions.
    Update {
        /// Names the answer.
        op: OpId,
        /// See [`Command::Read`].
        deadline: Instant,
        /// What to write.
        record: Record,
    },
    /// Merge-patch one annotation of the lock, with its uid as precondition.
    Patch {
        /// Names the answer.
        op: OpId,
        /// See [`Command::Read`].
        deadline: Instant,
        /// The lock's uid.
        uid: String,
        /// The annotation.
        key: String,
        /// Its value; `None` removes it.
        value: Option<String>,
    },
    /// (Re)open the watch on the lock, from this revision; with `None` from its present state, which the
    /// watch then tells first if the lock exists. Replaces the watch that is open.
    Watch {
        /// Where to begin.
        from: Option<Revision>,
    },
    /// Start work. `is_leader` is true already.
    StartTerm(TermStart),
    /// The current term is valid for longer: published before work starts and whenever it changes.
    Extend(Validity),
    /// Cancel the term: `is_leader` is false already. Sent again, with a later reason, if a planned stop
    /// becomes a loss. Answered by [`Input::WorkEnded`] once all work has ended.
    StopTerm(TermStop),
    /// Work lives at the hard end of its validity: end it by force, now.
    Abort,
    /// This candidate is designated: do the warm-up, then answer with [`Request::Warm`].
    WarmUp,
    /// Something worth telling people.
    Report(Report),
    /// After [`Request::Shutdown`]: everything is done. Nothing follows.
    Finished,
}

/// The beginning of a term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TermStart {
    /// Counts the terms of this elector, from 1.
    pub number: u64,
    /// Rises with every term of the lock, whoever leads.
    pub token: FencingToken,
    /// How long it is valid at first.
    pub validity: Validity,
}

/// Until when a term may act, on the elector's own clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Validity {
    /// Leading only before this.
    pub until: Instant,
    /// All work is over by this.
    pub hard_end: Instant,
}

/// The end of a term.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TermStop {
    /// Which term.
    pub number: u64,
    /// Why.
    pub reason: StopReason,
    /// When work that still lives is to be killed, where it can be.
    pub kill_at: Instant,
}

/// Why a term ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StopReason {
    /// The lock goes to a better candidate, or to one that was asked for. Renewals go on until work ended.
    Transfer,
    /// The owner shuts the elector down. Renewals go on until work ended.
    Shutdown,
    /// Work ended by itself.
    WorkEnded,
    /// No renewal was acknowledged in time.
    RenewDeadline,
    /// The lock names somebody else, or nobody.
    Superseded,
    /// The wall clock jumped against the process's own clock: time stamps can no longer be trusted.
    ClockJump,
}

impl StopReason {
    /// Whether leadership was lost: work must end within the stop grace, not within the drain timeout.
    pub fn is_loss(self) -> bool {
        matches!(self, StopReason::RenewDeadline | StopReason::Superseded | StopReason::ClockJump)
    }

    /// A short name for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            StopReason::Transfer => "transfer",
            StopReason::Shutdown => "shutdown",
            StopReason::WorkEnded => "work-ended",
            StopReason::RenewDeadline => "renew-deadline",
            StopReason::Superseded => "superseded",
            StopReason::ClockJump => "clock-jump",
        }
    }
}

/// What happened, for logs, events and metrics. Nothing depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Report {
    /// The lock has another holder: who, and who before.
    Holder {
        /// The holder, if there is one.
        holder: Option<String>,
        /// The one before.
        before: Option<String>,
    },
    /// A successor was designated.
    Designated {
        /// The successor's identity.
        successor: String,
    },
    /// The lock was handed to a successor.
    Transferred {
        /// The successor's identity.
        successor: String,
    },
    /// The lock was released, with or without the mark that lets others take it at once.
    Released {
        /// Whether it bears the mark.
        marked: bool,
    },
    /// Nobody answered the ping: no handover is begun.
    NobodyAnswered,
    /// The candidate record cannot be written: the election is a plain one for this process.
    PlainElection(String),
    /// The lock cannot be watched: it is polled.
    Polling(String),
    /// The candidate record cannot be patched: it is written by updates.
    NoPatch(String),
    /// A request failed.
    RequestFailed {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        message: String,
    },
    /// Requests work again after failures.
    Recovered,
    /// The store went back in time, as after a restore.
    RevisionWentBack {
        /// The highest revision seen.
        seen: Revision,
        /// What it is now.
        now: Revision,
    },
    /// The lock is published with a duration above 3600 s, which counts as 3600 s.
    AbsurdDuration(i32),
    /// A renewal in our name that we did not send: another process uses our identity.
    DuplicateIdentity,
}

/// What an elector is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Has not read the lock yet.
    Starting,
    /// Somebody else holds the lock, or nobody does yet.
    Follower,
    /// Holds the lock, but may not start a term yet.
    Waiting,
    /// Leads.
    Leading,
    /// Its term was cancelled, work is ending.
    Stopping,
    /// Has shut down.
    Finished,
}

impl Role {
    /// A short name for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Starting => "starting",
            Role::Follower => "follower",
            Role::Waiting => "waiting",
            Role::Leading => "leading",
            Role::Stopping => "stopping",
            Role::Finished => "finished",
        }
    }
}
