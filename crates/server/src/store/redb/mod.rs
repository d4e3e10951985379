//! A store on disk, in one redb file, with group commit.
//!
//! One thread writes. It takes every change that waits, judges them in order, puts all of them into one
//! durable transaction, and only then lets anybody see them: the state in memory, the watches, the answers.
//! While nobody else waits, a change goes to disk at once; while the disk is busy, the next changes gather.
//! So a lone write costs one sync, and a thousand cost not much more.
//!
//! After an error of the disk nobody knows what is on it, so the store refuses to go on. What it acknowledged
//! before is safe; what it did not acknowledge may be there or not, as one whole.

mod file;
mod row;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use self::writer::{Job, Mailbox};
use super::state::State;
use super::{
    Answer, Change, Event, Key, Page, PageRequest, Record, Retention, Scope, Store, StoreError, Watch,
};

/// The store on disk.
#[derive(Debug)]
pub struct RedbStore {
    shared: Arc<Shared>,
    mailbox: Mailbox,
}

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another store in this one, has it open.
    #[error("{} is in use by another server: stop it, or choose another data directory", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a newer release.
    #[error(
        "{} has format {found}, and this release knows formats up to {known}: use the release that wrote it, or a newer one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that is known here.
        known: u64,
    },
    /// What is in it makes no sense.
    #[error("{} is damaged ({reason}): restore a copy, or move it away to start empty", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It could not be read or written.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the disk, or the file format, said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What the writer and the readers share.
#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    /// Set once, when the store ends.
    end: OnceLock<StoreError>,
}

impl Shared {
    fn read<T>(&self, read: impl FnOnce(&State) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some(end) = self.end.get() {
            return Err(end.clone());
        }
        // A poisoned lock: the writer panicked, and what it had not applied was not acknowledged.
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the store; the first reason stays.
    fn end(&self, reason: StoreError) -> StoreError {
        let reason = self.end.get_or_init(|| reason).clone();
        self.state.read().unwrap_or_else(PoisonError::into_inner).close();
        reason
    }

    fn ended(&self) -> StoreError {
        self.end.get().cloned().unwrap_or(StoreError::Closed)
    }
}

impl RedbStore {
    /// Opens the file, or makes it. Blocks while it is read.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is changed then.
    pub fn open(path: &Path, retention: Retention) -> Result<Self, OpenError> {
        let (file, state) = file::File::open(path, retention)?;
        Self::start(file, state).map_err(|source| OpenError::Io { path: path.into(), source: source.into() })
    }

    fn start(file: file::File, state: State) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { state: RwLock::new(state), end: OnceLock::new() });
        let mailbox = writer::spawn(file, Arc::clone(&shared))?;
        Ok(Self { shared, mailbox })
    }

    async fn commit_in_turn(&self, change: Change) -> Result<Arc<Event>, StoreError> {
        let (answer, answered) = oneshot::channel();
        if self.mailbox.send(Job::Commit(change, answer)).is_err() {
            return Err(self.shared.ended());
        }
        answered.await.unwrap_or_else(|_| Err(self.shared.ended()))
    }
}

impl Store for RedbStore {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Arc<Record>>> {
        async move { self.shared.read(|state| Ok(state.get(key).cloned())) }.boxed()
    }

    fn list(&self, request: PageRequest) -> Answer<'_, Page> {
        async move { self.shared.read(|state| state.list(&request)) }.boxed()
    }

    fn commit(&self, change: Change) -> Answer<'_, Arc<Event>> {
        self.commit_in_turn(change).boxed()
    }

    fn watch(&self, scope: Scope, since: u64) -> Answer<'_, Watch> {
        async move { self.shared.read(|state| state.watch(scope, since)) }.boxed()
    }

    fn revision(&self) -> Answer<'_, u64> {
        async move { self.shared.read(|state| Ok(state.revision())) }.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            let (answer, answered) = oneshot::channel();
            if self.mailbox.send(Job::Close(answer)).is_ok() {
                let _ = answered.await;
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use redb::backends::InMemoryBackend;
    use redb::{Database, StorageBackend};

    use super::*;
    use crate::store::{Action, Condition, Ended};

    /// A disk that breaks when it is told to.
    #[derive(Debug, Clone, Default)]
    struct Disk {
        medium: Arc<InMemoryBackend>,
        broken: Arc<AtomicBool>,
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            self.medium.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.medium.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.medium.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            if self.broken.load(Ordering::SeqCst) {
                return Err(io::Error::other("the disk is on fire"));
            }
            self.medium.sync_data()
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.medium.write(offset, data)
        }
    }

    fn open(disk: &Disk) -> RedbStore {
        let database = Database::builder().create_with_backend(disk.clone()).unwrap();
        let (file, state) = file::File::start(database, Path::new("disk"), Retention::default()).unwrap();
        RedbStore::start(file, state).unwrap()
    }

    fn create(name: &str) -> Change {
        let key = Key::new("things", "here", name);
        Change { key, condition: Condition::Absent, action: Action::Put(Bytes::from_static(b"x")) }
    }

    #[tokio::test]
    async fn after_an_error_of_the_disk_nothing_is_said_but_that() {
        let disk = Disk::default();
        let store = open(&disk);
        let kept = store.commit(create("kept")).await.unwrap();
        let mut watch = store.watch(Scope::resource("things"), kept.revision).await.unwrap();
        disk.broken.store(true, Ordering::SeqCst);
        let error = store.commit(create("lost")).await.unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error}");
        assert!(error.to_string().contains("on fire"), "{error}");
        assert!(!error.has_no_side_effects(), "nobody knows what is on the disk");
        assert_eq!(watch.next().await.unwrap_err(), Ended::Closed, "no event for what may be lost");
        // Also when the disk is well again.
        disk.broken.store(false, Ordering::SeqCst);
        for refused in [
            store.commit(create("more")).await.map(|_| ()),
            store.get(&kept.latest().key).await.map(|_| ()),
            store.revision().await.map(|_| ()),
            store.watch(Scope::resource("things"), 0).await.map(|_| ()),
        ] {
            assert!(matches!(refused, Err(StoreError::Failed { .. })), "{refused:?}");
        }
        store.close().await;
        let store = open(&disk);
        assert!(store.get(&kept.latest().key).await.unwrap().is_some(), "what was acknowledged is there");
    }
}
