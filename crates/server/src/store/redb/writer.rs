//! The thread that writes: group commit.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, PoisonError};
use std::{io, thread};

use tokio::sync::oneshot;

use super::Shared;
use super::file::File;
use crate::store::state::State;
use crate::store::{Change, Event, Key, Record, StoreError};

/// How many changes go into one transaction at most, so that the first of them does not wait for too many.
const BATCH: usize = 512;

/// What the writer is asked for.
#[derive(Debug)]
pub(super) enum Job {
    Commit(Change, oneshot::Sender<Result<Arc<Event>, StoreError>>),
    Close(oneshot::Sender<()>),
}

pub(super) type Mailbox = mpsc::Sender<Job>;

/// Starts the writer. It ends with [`Job::Close`], or when the mailbox is dropped.
pub(super) fn spawn(file: File, shared: Arc<Shared>) -> io::Result<Mailbox> {
    let (mailbox, jobs) = mpsc::channel();
    thread::Builder::new().name("store-writer".into()).spawn(move || run(file, &shared, &jobs))?;
    Ok(mailbox)
}

fn run(file: File, shared: &Shared, jobs: &Receiver<Job>) {
    let mut closing = None;
    while closing.is_none() {
        let Ok(first) = jobs.recv() else { break };
        let mut batch = Batch::default();
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            match job {
                Job::Commit(change, answer) => batch.push(shared, change, answer),
                Job::Close(answer) => closing = Some(answer),
            }
            if closing.is_some() || batch.answers.len() >= BATCH {
                break;
            }
        }
        batch.commit(&file, shared);
    }
    shared.end(StoreError::Closed);
    // A clean end saves the next start a check of the whole file.
    drop(file);
    if let Some(answer) = closing {
        let _ = answer.send(());
    }
}

type Reply = (oneshot::Sender<Result<Arc<Event>, StoreError>>, Result<Arc<Event>, StoreError>);

/// The changes of one transaction, and what to answer once it is on disk. A refused change is answered then
/// too: it may have been refused because of one before it in the same transaction.
#[derive(Default)]
struct Batch {
    changes: Vec<Arc<Event>>,
    staged: HashMap<Key, Option<Arc<Record>>>,
    answers: Vec<Reply>,
}

impl Batch {
    fn push(
        &mut self,
        shared: &Shared,
        change: Change,
        answer: oneshot::Sender<Result<Arc<Event>, StoreError>>,
    ) {
        let outcome = shared.read(|state| {
            let key = change.key.clone();
            let current = self.staged.get(&key).map_or_else(|| state.get(&key), Option::as_ref);
            let revision = self.changes.last().map_or(state.revision(), |event| event.revision) + 1;
            Ok((key, State::judge(change, current, revision)?))
        });
        let outcome = outcome.map(|(key, event)| {
            let event = Arc::new(event);
            self.staged.insert(key, event.current.clone());
            self.changes.push(Arc::clone(&event));
            event
        });
        self.answers.push((answer, outcome));
    }

    fn commit(self, file: &File, shared: &Shared) {
        let written = if self.changes.is_empty() {
            Ok(())
        } else {
            shared.read(|state| {
                let forgotten = state.forgets(&self.changes);
                file.write(&self.changes, &forgotten, state)
                    .map_err(|error| StoreError::Failed { reason: error.to_string().into() })
            })
        };
        if let Err(error) = written {
            tracing::error!(%error, changes = self.changes.len(), "the store could not be written");
            let error = shared.end(error);
            for (answer, _) in self.answers {
                let _ = answer.send(Err(error.clone()));
            }
            return;
        }
        {
            let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
            for event in &self.changes {
                state.apply(event);
            }
        }
        for (answer, outcome) in self.answers {
            // Nobody may be left who wants to know.
            let _ = answer.send(outcome);
        }
    }
}
