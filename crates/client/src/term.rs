//! A term: the time for which a process leads, and the owner of all work that is done in it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use incumbent_core::{FencingToken, StopReason, TermStart, TermStop, Validity};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;

use crate::shared::Shared;

/// What a term tells the driver.
#[derive(Debug)]
pub(crate) enum TermEvent {
    /// The closure has returned, or a task has panicked: the term is to end.
    Ending,
    /// All work has ended, hooks included.
    Ended { failed: bool },
}

type Hook = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The lead, from one start to its end. Cheap to clone; all clones are the same term.
///
/// # What is promised
///
/// Everything that is spawned with [`Term::spawn`] has ended, and every hook has run, before the lock is handed to
/// anybody else in a planned stop. After a loss (no renewal was acknowledged in time) nobody else starts before
/// [`Validity::hard_end`]; work that still lives then makes the process abort, unless that was switched off.
///
/// What is spawned otherwise (`tokio::spawn`) is not covered: it may go on while another process leads.
#[derive(Clone)]
pub struct Term {
    inner: Arc<Inner>,
}

struct Inner {
    start: TermStart,
    token: CancellationToken,
    /// Ends tasks that nobody waits for any more: the elector was dropped.
    killed: CancellationToken,
    tasks: TaskTracker,
    hooks: Mutex<Vec<Hook>>,
    validity: watch::Receiver<Validity>,
    stop: watch::Receiver<Option<TermStop>>,
    failed: AtomicBool,
    events: mpsc::UnboundedSender<TermEvent>,
    shared: Arc<Shared>,
}

/// The driver's side of a term.
pub(crate) struct Running {
    token: CancellationToken,
    killed: CancellationToken,
    validity: watch::Sender<Validity>,
    stop: watch::Sender<Option<TermStop>>,
    pub(crate) events: mpsc::UnboundedReceiver<TermEvent>,
}

impl Running {
    pub(crate) fn extend(&self, validity: Validity) {
        self.validity.send_replace(validity);
    }

    pub(crate) fn stop(&self, stop: TermStop) {
        self.stop.send_replace(Some(stop));
        self.token.cancel();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.token.cancel();
        self.killed.cancel();
    }
}

impl Term {
    /// Begins a term: runs `work` and, when it is over, what has to follow.
    pub(crate) fn begin<W, F, E>(start: TermStart, shared: Arc<Shared>, work: W) -> Running
    where
        W: FnOnce(Term) -> F,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        let token = CancellationToken::new();
        let killed = CancellationToken::new();
        let (validity, validity_seen) = watch::channel(start.validity);
        let (stop, stop_seen) = watch::channel(None);
        let (events, told) = mpsc::unbounded_channel();
        let term = Term {
            inner: Arc::new(Inner {
                start,
                token: token.clone(),
                killed: killed.clone(),
                tasks: TaskTracker::new(),
                hooks: Mutex::new(Vec::new()),
                validity: validity_seen,
                stop: stop_seen,
                failed: AtomicBool::new(false),
                events,
                shared,
            }),
        };
        let main = work(term.clone());
        let watched = term.clone();
        term.track(async move {
            if let Err(e) = main.await {
                tracing::error!(term = watched.number(), error = %e, "the work failed");
                watched.fail();
            }
            watched.ending();
        });
        tokio::spawn(term.see_to_the_end());
        Running { token, killed, validity, stop, events: told }
    }

    async fn see_to_the_end(self) {
        let all = async {
            self.inner.token.cancelled().await;
            self.inner.tasks.close();
            self.inner.tasks.wait().await;
            loop {
                let hook = self.lock_hooks().pop();
                let Some(hook) = hook else { break };
                if AssertUnwindSafe(async move { hook().await }).catch_unwind().await.is_err() {
                    tracing::error!(term = self.number(), "a hook panicked");
                    self.fail();
                }
            }
        };
        tokio::select! {
            () = all => {
                let failed = self.inner.failed.load(Ordering::SeqCst);
                // Without a driver nobody needs to know.
                let _ = self.inner.events.send(TermEvent::Ended { failed });
            }
            () = self.inner.killed.cancelled() => {}
        }
    }

    fn lock_hooks(&self) -> std::sync::MutexGuard<'_, Vec<Hook>> {
        self.inner.hooks.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn track<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let term = self.clone();
        let killed = self.inner.killed.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                outcome = AssertUnwindSafe(future).catch_unwind() => {
                    if outcome.is_err() {
                        tracing::error!(term = term.number(), "work panicked: the term ends");
                        term.fail();
                        term.ending();
                    }
                }
                () = killed.cancelled() => {}
            }
        });
    }

    fn fail(&self) {
        self.inner.failed.store(true, Ordering::SeqCst);
    }

    fn ending(&self) {
        // Without a driver the term has ended anyway.
        let _ = self.inner.events.send(TermEvent::Ending);
    }

    /// Spawns a task that belongs to this term: the term has not ended before it has.
    ///
    /// It should end soon after [`Term::cancelled`]. A panic in it ends the term. Spawned after the end of the
    /// term, it does not run.
    pub fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if !self.inner.token.is_cancelled() || !self.inner.tasks.is_closed() {
            self.track(future);
        }
    }

    /// Registers what is to be done when all tasks have ended, before the lock is given up. Hooks run one after
    /// the other, the last registered first.
    pub fn on_stop<H, F>(&self, hook: H)
    where
        H: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.lock_hooks().push(Box::new(move || Box::pin(hook())));
    }

    /// Completes when the term is cancelled: work is to end. Cancel safe.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.inner.token.cancelled()
    }

    /// A token that is cancelled with the term, to hand to others. Cancelling it has no effect on the term.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.inner.token.child_token()
    }

    /// Whether the term was cancelled. `false` does not say that this process still leads: see
    /// [`Term::is_leader`].
    pub fn is_cancelled(&self) -> bool {
        self.inner.token.is_cancelled()
    }

    /// Whether this process leads in this very term, by the clock, at this instant.
    pub fn is_leader(&self) -> bool {
        !self.is_cancelled() && self.inner.shared.is_leader()
    }

    /// Rises with every term of the lock, whoever leads. Send it along with every guarded write, and have the
    /// receiver refuse lower ones than the highest it has seen: a lease alone cannot exclude a process that was
    /// paused just before its write.
    pub fn fencing_token(&self) -> FencingToken {
        self.inner.start.token
    }

    /// Counts the terms of this elector, from 1.
    pub fn number(&self) -> u64 {
        self.inner.start.number
    }

    /// Why the term ends; `None` while it lasts.
    pub fn reason(&self) -> Option<StopReason> {
        self.inner.stop.borrow().as_ref().map(|stop| stop.reason)
    }

    /// Until when the term may act, on `CLOCK_BOOTTIME` in nanoseconds, as it is extended by renewals.
    pub fn validity(&self) -> watch::Receiver<Validity> {
        self.inner.validity.clone()
    }

    /// The end of the term, once it was decided; it changes once more if a planned stop becomes a loss.
    pub fn stop(&self) -> watch::Receiver<Option<TermStop>> {
        self.inner.stop.clone()
    }
}

impl std::fmt::Debug for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Term")
            .field("number", &self.number())
            .field("token", &self.fencing_token())
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}
