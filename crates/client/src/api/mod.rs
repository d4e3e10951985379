//! The API behind a lock: a small trait, so that the rest of the library knows nothing of kube.

mod kube_api;
mod object;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use incumbent_core::{Outcome, Record, Revision, WatchInput};

pub use kube_api::{KubeLease, ListError, list_leases};

/// One Lease, and what can be done with it.
///
/// No method retries, and none has a deadline of its own: the caller drops the future when it has waited long
/// enough, and then calls [`LeaseApi::gave_up`].
pub trait LeaseApi: Send + Sync + 'static {
    /// GET, without a resourceVersion: the newest committed state.
    fn read(&self) -> BoxFuture<'static, Outcome>;

    /// POST. [`Outcome::Conflict`] if it exists.
    fn create(&self, record: Record) -> BoxFuture<'static, Outcome>;

    /// PUT with uid and resourceVersion. [`Outcome::Conflict`] if the lock is not at that revision any more.
    fn update(&self, record: Record) -> BoxFuture<'static, Outcome>;

    /// Merge patch of one annotation, with the uid as precondition; `None` removes it.
    fn patch(&self, uid: String, key: String, value: Option<String>) -> BoxFuture<'static, Outcome>;

    /// Opens a watch from a revision, or from the present state.
    ///
    /// The first item is [`WatchInput::Opened`] or [`WatchInput::Refused`]; the last [`WatchInput::Broken`] or
    /// [`WatchInput::Refused`].
    fn watch(&self, from: Option<Revision>) -> BoxStream<'static, WatchInput>;

    /// Whether the lock could be written: a write that changes nothing (`dryRun`). Whether it was refused is
    /// what counts.
    fn rehearse(&self, present: Option<Record>) -> BoxFuture<'static, Outcome>;

    /// A request was not answered in time: its connection may be half-open and must not be used again.
    fn gave_up(&self);
}
