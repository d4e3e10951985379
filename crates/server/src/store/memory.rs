//! A store that forgets everything when it is dropped: for tests, and for what needs no memory.

use std::sync::{Arc, PoisonError, RwLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::state::State;
use super::{
    Answer, Change, Event, Key, Page, PageRequest, Record, Retention, Scope, Store, StoreError, Watch,
};

/// The store in memory.
#[derive(Debug)]
pub struct MemoryStore(RwLock<Inner>);

#[derive(Debug)]
struct Inner {
    state: State,
    closed: bool,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(retention: Retention) -> Self {
        Self(RwLock::new(Inner { state: State::new(retention, 0), closed: false }))
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // A poisoned lock: a change is judged before anything is touched, and applying it cannot panic.
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if inner.closed { Err(StoreError::Closed) } else { read(&inner.state) }
    }

    fn commit_now(&self, change: Change) -> Result<Arc<Event>, StoreError> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if inner.closed {
            return Err(StoreError::Closed);
        }
        let current = inner.state.get(&change.key);
        let event = Arc::new(State::judge(change, current, inner.state.revision() + 1)?);
        inner.state.apply(&event);
        Ok(event)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Retention::default())
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Arc<Record>>> {
        async move { self.read(|state| Ok(state.get(key).cloned())) }.boxed()
    }

    fn list(&self, request: PageRequest) -> Answer<'_, Page> {
        async move { self.read(|state| state.list(&request)) }.boxed()
    }

    fn commit(&self, change: Change) -> Answer<'_, Arc<Event>> {
        async move { self.commit_now(change) }.boxed()
    }

    fn watch(&self, scope: Scope, since: u64) -> Answer<'_, Watch> {
        async move { self.read(|state| state.watch(scope, since)) }.boxed()
    }

    fn revision(&self) -> Answer<'_, u64> {
        async move { self.read(|state| Ok(state.revision())) }.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
            inner.closed = true;
            inner.state.close();
        }
        .boxed()
    }
}
