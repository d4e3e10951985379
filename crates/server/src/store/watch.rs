//! Watches: who waits for which changes, and how they get them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{self, error::TrySendError};

use super::{Event, Key, Scope};

/// How many changes wait for a watch that is not read. One that falls behind further is ended, so that it
/// costs a bounded amount of memory and never holds up a commit.
const QUEUE: usize = 1024;

/// What a watch delivers.
#[derive(Debug, Clone)]
pub enum Item {
    /// A change.
    Event(Arc<Event>),
    /// Every change up to this revision has been delivered.
    Progress(u64),
}

/// Why a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was not read for too long. Watch again since the last revision seen.
    Lagged,
    /// The store was closed, or failed.
    Closed,
}

/// The changes of a scope, in commit order.
#[derive(Debug)]
pub struct Watch {
    /// Changes of the past, delivered first.
    backlog: VecDeque<Arc<Event>>,
    queue: mpsc::Receiver<Item>,
    lagged: Arc<AtomicBool>,
    registration: Registration,
}

impl Watch {
    /// The next change, or why there are no more. Cancel safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Item, Ended> {
        if let Some(event) = self.backlog.pop_front() {
            return Ok(Item::Event(event));
        }
        self.queue
            .recv()
            .await
            .ok_or_else(|| if self.lagged.load(Ordering::Acquire) { Ended::Lagged } else { Ended::Closed })
    }

    /// Asks for an [`Item::Progress`] behind everything that was committed so far. Where changes still wait
    /// in numbers, nothing is added.
    pub fn request_progress(&self) {
        self.registration.watchers.progress(self.registration.id);
    }
}

/// Ends the watch in the register when it is dropped.
#[derive(Debug)]
struct Registration {
    watchers: Arc<Watchers>,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.watchers.lock().remove(self.id);
    }
}

/// Everyone who waits for changes of one store.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<Register>);

#[derive(Debug, Default)]
struct Register {
    next_id: u64,
    /// The newest revision whose changes were sent.
    revision: u64,
    closed: bool,
    by_id: HashMap<u64, Waiting>,
    /// Most watches are of one object: they are found without looking at the others.
    one: HashMap<Key, Vec<u64>>,
    under: Vec<u64>,
}

#[derive(Debug)]
struct Waiting {
    scope: Scope,
    queue: mpsc::Sender<Item>,
    lagged: Arc<AtomicBool>,
}

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, Register> {
        // The register is changed by single steps that cannot panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a watch. The caller holds the lock of the state that `backlog` was read from, so that no change
    /// falls between the two.
    pub(super) fn add(self: &Arc<Self>, scope: Scope, backlog: VecDeque<Arc<Event>>) -> Watch {
        let (sender, queue) = mpsc::channel(QUEUE);
        let lagged = Arc::new(AtomicBool::new(false));
        let mut register = self.lock();
        let id = register.next_id;
        register.next_id += 1;
        if !register.closed {
            match &scope {
                Scope::One(key) => register.one.entry(key.clone()).or_default().push(id),
                Scope::Under(_) => register.under.push(id),
            }
            register.by_id.insert(id, Waiting { scope, queue: sender, lagged: Arc::clone(&lagged) });
        }
        drop(register);
        Watch { backlog, queue, lagged, registration: Registration { watchers: Arc::clone(self), id } }
    }

    /// Sends a committed change to all who wait for it.
    pub(super) fn publish(&self, event: &Arc<Event>) {
        let mut register = self.lock();
        register.revision = event.revision;
        let one = register.one.get(event.key()).into_iter().flatten();
        let lagging: Vec<u64> = one
            .chain(&register.under)
            .copied()
            .filter(|id| !register.by_id.get(id).is_none_or(|waiting| waiting.send(event)))
            .collect();
        for id in lagging {
            register.remove(id);
        }
    }

    /// The revision from which progress counts, at the start.
    pub(super) fn start_at(&self, revision: u64) {
        self.lock().revision = revision;
    }

    fn progress(&self, id: u64) {
        let register = self.lock();
        if let Some(waiting) = register.by_id.get(&id) {
            // A full queue has news enough.
            let _ = waiting.queue.try_send(Item::Progress(register.revision));
        }
    }

    /// Ends all watches, now and later ones.
    pub(super) fn close(&self) {
        let mut register = self.lock();
        register.closed = true;
        register.by_id.clear();
        register.one.clear();
        register.under.clear();
    }
}

impl Waiting {
    /// False if the watch has to be ended.
    fn send(&self, event: &Arc<Event>) -> bool {
        if !self.scope.contains(event.key()) {
            return true;
        }
        match self.queue.try_send(Item::Event(Arc::clone(event))) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lagged.store(true, Ordering::Release);
                false
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }
}

impl Register {
    fn remove(&mut self, id: u64) {
        match self.by_id.remove(&id).map(|waiting| waiting.scope) {
            Some(Scope::One(key)) => {
                if let Some(ids) = self.one.get_mut(&key) {
                    ids.retain(|other| *other != id);
                    if ids.is_empty() {
                        self.one.remove(&key);
                    }
                }
            }
            Some(Scope::Under(_)) => self.under.retain(|other| *other != id),
            None => {}
        }
    }
}
