//! Where objects live: keys to bytes, with one rising revision for the whole store.
//!
//! [`Store`] is what the API needs of a store: read, list at a revision, compare and swap, watch since a
//! revision. It knows nothing of Kubernetes. Two backends are here, [`MemoryStore`] and [`RedbStore`]; every
//! backend, also one from elsewhere, is run through [`conformance`].
//!
//! ```text
//!   commit ──▶ backend: condition holds? ──▶ durable ──▶ State::apply ──▶ watches
//!                                                             │              │
//!   get, list ◀───────────────────────────────────────────────┘              ▼
//!                                                        answer         Watch::next
//! ```
//!
//! The promises, which the conformance suite checks:
//!
//! * Every commit gets a revision above all earlier ones; none is used twice, not after a crash either.
//! * An answer, or an event, comes only after the commit is as durable as the backend makes it.
//! * A watch since revision N delivers every later change of its scope once, in commit order, or says that
//!   the revision is compacted, or ends.
//! * A watch that is not read never blocks a commit, and holds a bounded number of events.

pub mod conformance;
mod key;
mod memory;
mod redb;
mod state;
mod watch;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

pub use self::key::{Key, Scope};
pub use self::memory::MemoryStore;
pub use self::redb::{OpenError, RedbStore};
pub use self::watch::{Ended, Item, Watch};

/// How many past changes a store keeps for watches and for lists at an older revision.
///
/// Both bounds hold at once: the older changes are forgotten as soon as either is passed. What is forgotten
/// is answered with [`StoreError::Compacted`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// At most this many changes.
    pub events: usize,
    /// At most about this many bytes of values.
    pub bytes: usize,
}

impl Default for Retention {
    /// 65,536 changes and 64 MiB: more than five minutes of a hundred leases renewed each half second.
    fn default() -> Self {
        Self { events: 65_536, bytes: 64 << 20 }
    }
}

/// One version of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which object.
    pub key: Key,
    /// The revision of the commit that created it.
    pub created: u64,
    /// The revision of the commit that wrote this version.
    pub modified: u64,
    /// What was written.
    pub value: Bytes,
}

/// What one commit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The revision of the commit.
    pub revision: u64,
    /// The version that was there before, if any.
    pub previous: Option<Arc<Record>>,
    /// The version that is there now; none after a delete.
    pub current: Option<Arc<Record>>,
}

impl Event {
    /// The object that changed.
    pub fn key(&self) -> &Key {
        &self.latest().key
    }

    /// The newest version that is known: the one written, or the one deleted.
    pub fn latest(&self) -> &Arc<Record> {
        match (&self.current, &self.previous) {
            (Some(record), _) | (None, Some(record)) => record,
            // A delete is conditioned on a version, so it has one.
            (None, None) => unreachable!("an event has a version before or after it"),
        }
    }
}

/// What has to be true of an object for a change to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// There is none.
    Absent,
    /// Its newest version was written by this revision.
    At(u64),
}

/// What to do with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Write this value.
    Put(Bytes),
    /// Delete it. Needs [`Condition::At`].
    Delete,
}

/// A compare-and-swap of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which object.
    pub key: Key,
    /// What has to be true.
    pub condition: Condition,
    /// What to do then.
    pub action: Action,
}

/// Which part of a list to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Which objects.
    pub scope: Scope,
    /// As of which revision; none for now.
    pub at: Option<u64>,
    /// Only objects after this key.
    pub after: Option<Key>,
    /// At most so many; none for all.
    pub limit: Option<usize>,
}

/// A part of a list, ordered by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The revision as of which it was read.
    pub revision: u64,
    /// The objects.
    pub records: Vec<Arc<Record>>,
    /// How many objects of the scope come after the last one.
    pub remaining: usize,
}

/// Why a store did not do what it was asked to.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The condition of a [`Change`] does not hold. Nothing was written.
    #[error("{key} is not as expected")]
    Conflict {
        /// Which object.
        key: Key,
        /// Its newest version, if it exists.
        current: Option<Arc<Record>>,
    },
    /// The revision was forgotten.
    #[error("revision {requested} is compacted; the oldest to watch from is {oldest}")]
    Compacted {
        /// What was asked for.
        requested: u64,
        /// The oldest revision that a watch can start from.
        oldest: u64,
    },
    /// The revision has not been given out yet.
    #[error("revision {requested} is in the future; the newest is {current}")]
    Future {
        /// What was asked for.
        requested: u64,
        /// The newest revision.
        current: u64,
    },
    /// The store can no longer promise that what it says is durable, so it says nothing more. A change that
    /// got this answer may or may not be there after a restart.
    #[error("the store refuses to go on: {reason}. Restart the server; what it acknowledged is safe")]
    Failed {
        /// What went wrong first.
        reason: Arc<str>,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether it is certain that nothing was written.
    pub fn has_no_side_effects(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}

/// The answer of a store, later.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A place for objects, as the [module](self) promises.
///
/// Cancel safety: a dropped read has no effect; a dropped commit happens, or not, as a whole.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The newest committed version of an object.
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Arc<Record>>>;

    /// A part of the objects of a scope, as of one revision.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] or [`StoreError::Future`] for a revision that cannot be read.
    fn list(&self, request: PageRequest) -> Answer<'_, Page>;

    /// Changes one object if the condition holds.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] with the newest version if it does not.
    fn commit(&self, change: Change) -> Answer<'_, Arc<Event>>;

    /// Every change of the scope after a revision, the past ones first. A revision that has not been given
    /// out yet is waited for.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if changes since then were forgotten.
    fn watch(&self, scope: Scope, since: u64) -> Answer<'_, Watch>;

    /// The newest revision.
    fn revision(&self) -> Answer<'_, u64>;

    /// Finishes what was begun, ends all watches, and refuses everything from then on.
    fn close(&self) -> BoxFuture<'_, ()>;
}
