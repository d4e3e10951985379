//! The task that owns an elector: hands it what happens, and carries out what it wants.

use std::future::Future;
use std::sync::Arc;

use futures::StreamExt;
use incumbent_core::{
    Command, Elector, Input, Instant, LockName, OpId, Outcome, Report, Request, WatchInput, WorkEnd,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::api::LeaseApi;
use crate::clock::Clock;
use crate::elector::{AtHardEnd, WarmUp};
use crate::shared::Shared;
use crate::status::Status;
use crate::term::{Running, Term, TermEvent};

/// What the driver is made of.
pub(crate) struct Parts {
    pub(crate) elector: Elector,
    pub(crate) lock: LockName,
    pub(crate) api: Arc<dyn LeaseApi>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) warm_up: Option<WarmUp>,
    pub(crate) at_hard_end: AtHardEnd,
}

pub(crate) struct Driver<W> {
    parts: Parts,
    work: W,
    /// Requests in flight; each ends with the answer that is handed in. Dropped, they are given up.
    answers: JoinSet<(OpId, Outcome)>,
    watch: Option<Watch>,
    term: Option<Running>,
    term_number: Option<(u64, u64)>,
    warming: JoinSet<()>,
    finished: bool,
}

struct Watch {
    events: mpsc::Receiver<WatchInput>,
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What woke the driver.
enum Woken {
    By(Input),
    TermEnding,
    TermEnded { failed: bool },
    Nothing,
}

impl<W, F, E> Driver<W>
where
    W: FnMut(Term) -> F + Send,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: std::fmt::Display,
{
    pub(crate) fn new(parts: Parts, work: W) -> Driver<W> {
        Driver {
            parts,
            work,
            answers: JoinSet::new(),
            watch: None,
            term: None,
            term_number: None,
            warming: JoinSet::new(),
            finished: false,
        }
    }

    /// Runs until the elector has finished. Dropped, everything that it started is ended without a release.
    pub(crate) async fn run(mut self) {
        let _not_leading = NotLeading(Arc::clone(&self.parts.shared));
        self.handle(Input::Wake);
        while !self.finished {
            match self.wait().await {
                Woken::By(input) => self.handle(input),
                Woken::TermEnding => self.handle(Input::Request(Request::EndTerm)),
                Woken::TermEnded { failed } => {
                    self.term = None;
                    self.term_number = None;
                    let how = if failed { WorkEnd::Failed } else { WorkEnd::Done };
                    self.handle(Input::WorkEnded(how));
                }
                Woken::Nothing => {}
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        let wake = self.parts.elector.next_wake();
        let clock = Arc::clone(&self.parts.clock);
        let sleep = async {
            match wake {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = term_event(&mut self.term) => match event {
                TermEvent::Ending => Woken::TermEnding,
                TermEvent::Ended { failed } => Woken::TermEnded { failed },
            },
            Some(request) = self.parts.requests.recv() => Woken::By(Input::Request(request)),
            Some(answer) = self.answers.join_next() => match answer {
                Ok((op, outcome)) => Woken::By(Input::Answer { op, outcome }),
                // Only a panic beneath kube can be the reason; the elector gives the request up by itself.
                Err(e) => {
                    tracing::error!(lock = %self.parts.lock, error = %e, "a request failed in an unforeseen way");
                    Woken::Nothing
                }
            },
            event = watch_event(&mut self.watch) => Woken::By(Input::Watch(event)),
            Some(warmed) = self.warming.join_next() => match warmed {
                Ok(()) => Woken::By(Input::Request(Request::Warm)),
                Err(_) => Woken::Nothing,
            },
            () = sleep => Woken::By(Input::Wake),
        }
    }

    fn handle(&mut self, input: Input) {
        let commands = self.parts.elector.handle(self.parts.clock.now(), input);
        self.parts.shared.heard(self.parts.elector.last_contact());
        for command in commands {
            self.obey(command);
        }
        self.publish();
    }

    fn obey(&mut self, command: Command) {
        let api = Arc::clone(&self.parts.api);
        match command {
            Command::Read { op, deadline } => self.send(op, deadline, api.read()),
            Command::Create { op, deadline, record } => self.send(op, deadline, api.create(record)),
            Command::Update { op, deadline, record } => self.send(op, deadline, api.update(record)),
            Command::Patch { op, deadline, uid, key, value } => {
                self.send(op, deadline, api.patch(uid, key, value))
            }
            Command::Watch { from } => self.watch = Some(open_watch(&*api, from)),
            Command::StartTerm(start) => {
                self.parts.shared.lead_until(Some(start.validity.until));
                self.term_number = Some((start.number, start.token.as_u64()));
                tracing::info!(lock = %self.parts.lock, term = start.number, token = %start.token, "leading");
                // First everybody can see that we lead, then work begins.
                self.publish();
                self.term = Some(Term::begin(start, Arc::clone(&self.parts.shared), &mut self.work));
            }
            Command::Extend(validity) => {
                if let Some(term) = &self.term {
                    if self.parts.elector.is_leader(self.parts.clock.now().mono) {
                        self.parts.shared.lead_until(Some(validity.until));
                    }
                    term.extend(validity);
                }
            }
            Command::StopTerm(stop) => {
                self.parts.shared.lead_until(None);
                tracing::info!(lock = %self.parts.lock, term = stop.number, reason = stop.reason.as_str(), "no longer leading");
                if let Some(term) = &self.term {
                    term.stop(stop);
                }
            }
            Command::Abort => self.abort(),
            Command::WarmUp => {
                if let Some(warm_up) = &self.parts.warm_up {
                    self.warming.spawn(warm_up());
                }
            }
            Command::Report(report) => tell(&self.parts.lock, &report),
            Command::Finished => self.finished = true,
        }
    }

    fn abort(&self) {
        match self.parts.at_hard_end {
            AtHardEnd::Abort => {
                tracing::error!(
                    lock = %self.parts.lock,
                    "work is still running though the lease has run out: aborting, because another process may lead from now on"
                );
                std::process::abort();
            }
            // Who carries on has other means, and may have used them: its report may be on its way.
            AtHardEnd::CarryOn => tracing::warn!(
                lock = %self.parts.lock,
                "the lease has run out, and the end of the work has not been reported yet"
            ),
        }
    }

    /// Sends a request that is given up at its deadline.
    fn send<A>(&mut self, op: OpId, deadline: Instant, answer: A)
    where
        A: Future<Output = Outcome> + Send + 'static,
    {
        let limit = deadline.since(self.parts.clock.now().mono);
        let api = Arc::clone(&self.parts.api);
        self.answers.spawn(async move {
            let outcome = match tokio::time::timeout(limit, answer).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    api.gave_up();
                    let message = format!("no answer within {limit:?}");
                    Outcome::Unknown { message, retry_after: None }
                }
            };
            (op, outcome)
        });
    }

    fn publish(&self) {
        let now = self.parts.clock.now();
        let mut status = Status::of(&self.parts.elector, &self.parts.lock.to_string(), now);
        if let Some((number, token)) = self.term_number {
            status.term = Some(number);
            status.token = Some(token);
        }
        self.parts.status.send_if_modified(|old| {
            let changed = *old != status;
            *old = status;
            changed
        });
    }
}

/// Whatever ends the driver, nobody takes this process for the leader afterwards.
struct NotLeading(Arc<Shared>);

impl Drop for NotLeading {
    fn drop(&mut self) {
        self.0.lead_until(None);
    }
}

async fn term_event(term: &mut Option<Running>) -> TermEvent {
    match term {
        // The sender lives as long as the term's own task, which ends with `Ended`.
        Some(running) => match running.events.recv().await {
            Some(event) => event,
            None => TermEvent::Ended { failed: true },
        },
        None => std::future::pending().await,
    }
}

async fn watch_event(watch: &mut Option<Watch>) -> WatchInput {
    let Some(open) = watch else { return std::future::pending().await };
    match open.events.recv().await {
        Some(event) => event,
        None => {
            *watch = None;
            WatchInput::Broken
        }
    }
}

fn open_watch(api: &dyn LeaseApi, from: Option<incumbent_core::Revision>) -> Watch {
    let mut stream = api.watch(from);
    let (sender, events) = mpsc::channel(64);
    let task = tokio::spawn(async move {
        while let Some(event) = stream.next().await {
            if sender.send(event).await.is_err() {
                return;
            }
        }
    });
    Watch { events, task: task.abort_handle() }
}

fn tell(lock: &LockName, report: &Report) {
    match report {
        Report::Holder { holder, before } => {
            let holder = holder.as_deref().unwrap_or("nobody");
            tracing::debug!(%lock, holder, before = before.as_deref().unwrap_or("nobody"), "the lock has another holder");
        }
        Report::Designated { successor } => tracing::info!(%lock, successor, "designated a successor"),
        Report::Transferred { successor } => tracing::info!(%lock, successor, "handed the lock over"),
        Report::Released { marked } => tracing::info!(%lock, marked, "released the lock"),
        Report::NobodyAnswered => {
            tracing::info!(%lock, "no other candidate answered: nothing is handed over")
        }
        Report::PlainElection(why) => {
            tracing::warn!(%lock, why, "cannot announce this process: it takes part in a plain election");
        }
        Report::Polling(why) => tracing::warn!(%lock, why, "cannot watch the lock: polling it"),
        Report::NoPatch(why) => tracing::info!(%lock, why, "cannot patch the lock: announcing by updates"),
        Report::RequestFailed { what, message } => {
            tracing::warn!(%lock, what, message, "failed, trying again")
        }
        Report::Recovered => tracing::info!(%lock, "requests succeed again"),
        Report::RevisionWentBack { seen, now } => {
            tracing::warn!(%lock, %seen, %now, "the store went back in time, as after a restore");
        }
        Report::AbsurdDuration(seconds) => {
            tracing::warn!(%lock, seconds, "the lock's duration is above 3600 s and counts as that");
        }
        Report::DuplicateIdentity => tracing::error!(%lock, "another process uses this identity"),
        other => tracing::info!(%lock, ?other, "election"),
    }
}
