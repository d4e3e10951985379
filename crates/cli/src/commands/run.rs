//! `incumbent run`: a program that runs on one replica at a time.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Args, ValueEnum};
use incumbent::core::{TermStop, TimingConfig, Validity};
use incumbent::{Elector, Handle, Term};
use tokio::sync::broadcast;

use crate::args::Connection;
use crate::connect::connect;
use crate::duration;
use crate::failure::Failure;
use crate::logging::{self, LogFormat};
use crate::supervise::{
    Asked, BootTime, Deadlines, Exit, Helper, OWN_FAILURE, Signals, StartError, Stop, Supervised, Supervisor,
    resolve,
};

/// Run a program on one replica at a time
///
/// Starts CMD when this replica leads. Before it stops leading, CMD is sent TERM and has time to end its work; only
/// when it and everything that it started have ended does another replica start its own. Then this one waits for
/// its turn again. When CMD ends by itself, the lock is released at once and `run` exits with CMD's code.
///
/// CMD finds INCUMBENT_LOCK, INCUMBENT_IDENTITY, INCUMBENT_TOKEN (a number that rises with every term: have
/// whatever CMD writes to refuse lower ones) and INCUMBENT_TERM in its environment.
///
/// Exit codes: CMD's own, or 128 + n if signal n ended it; 0 after TERM or INT; 125 if `run` itself failed, 126 if
/// CMD cannot be executed, 127 if it was not found.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  incumbent run --lock backup -- ./backup.sh --all\n  incumbent run --lock jobs/mailer --binary-version 1.4.0 --strategy OldestEmulationVersion -- ./mailer\n  incumbent run --lock db --profile fast --drain-timeout 2m -- ./migrate-and-serve\n\nSignals: TERM and INT stop `run` (CMD is drained, the lock handed over); HUP, QUIT, USR1 and USR2 go to CMD."
)]
pub(crate) struct RunArgs {
    /// The Lease to elect on; all replicas name the same
    #[arg(long, value_name = "[NS/]NAME")]
    lock: String,
    #[command(flatten)]
    connection: Connection,
    /// Name of this replica for people; a random part is added [default: the host's name]
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// Version of CMD (strict semver, as 1.4.0)
    #[arg(long, value_name = "VERSION")]
    binary_version: Option<String>,
    /// Version whose behaviour CMD shows, if older
    #[arg(long, value_name = "VERSION", requires = "binary_version")]
    emulation_version: Option<String>,
    /// Who should lead: OldestEmulationVersion, newest-version, keep-incumbent, or another party's qualified name; may be repeated, the preferred first [default: keep-incumbent]
    #[arg(long, value_name = "STRATEGY")]
    strategy: Vec<String>,
    /// Higher comes first, before any version
    #[arg(long, value_name = "N", default_value_t = 0)]
    priority: u32,
    /// Set of durations: fast 6s/3s/1s, default 15s/10s/2s, patient 137s/107s/26s
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// How long a lease that is not renewed stays valid; whole seconds
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    lease_duration: Option<Duration>,
    /// A leader that could not renew for this long no longer leads
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    renew_deadline: Option<Duration>,
    /// Time between two renewals
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    retry_period: Option<Duration>,
    /// Longest time for one request [default: a quarter of the renew deadline]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    attempt_timeout: Option<Duration>,
    /// From TERM to KILL after the lead was lost [default: 3s, or what the lease leaves room for]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    stop_grace: Option<Duration>,
    /// From TERM to KILL in a planned stop; may exceed the lease
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration::parse)]
    drain_timeout: Duration,
    /// How long a better candidate must stay better before it is handed the lock
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    settle: Duration,
    /// Form of the log lines
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A named set of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Profile {
    Fast,
    #[default]
    Default,
    Patient,
}

impl RunArgs {
    fn timing(&self) -> TimingConfig {
        let profile = match self.profile {
            Profile::Fast => incumbent::Profile::Fast,
            Profile::Default => incumbent::Profile::Default,
            Profile::Patient => incumbent::Profile::Patient,
        };
        let mut timing = TimingConfig::from(profile);
        timing.lease_duration = self.lease_duration.unwrap_or(timing.lease_duration);
        timing.renew_deadline = self.renew_deadline.unwrap_or(timing.renew_deadline);
        timing.retry_period = self.retry_period.unwrap_or(timing.retry_period);
        timing.attempt_timeout = self.attempt_timeout;
        timing.stop_grace = self.stop_grace;
        timing.drain_timeout = self.drain_timeout;
        timing
    }
}

/// Runs until CMD ends by itself, or until TERM or INT.
pub(crate) fn execute(args: RunArgs) -> Result<ExitCode, Failure> {
    logging::install(args.log_format, "warn,incumbent=info,kube_client=off");
    // Two threads, whatever the machine has: one may be busy while the other renews.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(e).with_code(OWN_FAILURE))?;
    let outcome = runtime.block_on(run(args));
    // What is left in flight belongs to nobody any more.
    runtime.shutdown_background();
    outcome
}

async fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let own = |e: Failure| e.with_code(OWN_FAILURE);
    // Everything that can be wrong is found before anything is left anywhere: first what costs nothing.
    let grace = args.timing().check().map_err(|e| own(Failure::failed(e)))?.stop_grace();
    let (command, words) =
        args.command.split_first().ok_or_else(|| own(Failure::usage("no command given")))?;
    resolve(command).map_err(|e| Failure::failed(&e).with_code(e.exit_code()))?;
    let found = connect(&args.connection).await.map_err(own)?;
    let mut config = found.config;
    config.default_namespace = found.namespace;
    let elector = build(&args, config).map_err(own)?;
    let mut signals = Signals::install().map_err(|e| own(Failure::failed(e)))?;
    tokio::select! {
        outcome = elector.preflight(Duration::from_secs(10)) => outcome.map_err(|e| own(Failure::failed(e)))?,
        () = asked_to_stop(&mut signals) => return Ok(ExitCode::SUCCESS),
    }
    let supervisor = Supervisor::new(command.clone(), words.to_vec(), Helper::default()).map_err(|e| {
        own(Failure::failed(format!("cannot start the process that guards the command: {e}")))
    })?;
    let handle = elector.handle();
    let (forward, _) = broadcast::channel(16);
    let job = Arc::new(Job {
        supervisor,
        grace,
        handle: handle.clone(),
        forward: forward.clone(),
        outcome: Mutex::new(None),
    });
    let relay = tokio::spawn(async move {
        loop {
            match signals.next().await {
                Asked::Stop => handle.shutdown(),
                // Without a child nobody listens.
                Asked::Forward(signal) => drop(forward.send(signal)),
            }
        }
    });
    let lead = Arc::clone(&job);
    elector.run(move |term| Arc::clone(&lead).lead(term)).await;
    relay.abort();
    let outcome = job.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    if let Some(job) = Arc::into_inner(job) {
        job.supervisor.close().await;
    }
    match outcome {
        None => Ok(ExitCode::SUCCESS),
        Some(Ok(exit)) => Ok(ExitCode::from(exit.shell_code())),
        Some(Err(e)) => Err(Failure::failed(&e).with_code(e.exit_code())),
    }
}

async fn asked_to_stop(signals: &mut Signals) {
    while signals.next().await != Asked::Stop {}
}

fn build(args: &RunArgs, config: kube::Config) -> Result<Elector, Failure> {
    let mut builder = Elector::builder(config, args.lock.clone())
        .timing(args.timing())
        .priority(args.priority)
        .settle(args.settle)
        // The child is killed before the hard end by two processes that watch each other (see `supervise`).
        .allow_work_beyond_the_lease();
    if let Some(name) = &args.identity {
        builder = builder.identity(name);
    }
    if let Some(binary) = &args.binary_version {
        builder = builder.versions(binary, args.emulation_version.as_deref());
    }
    if args.strategy.is_empty() {
        builder = builder.strategy("keep-incumbent");
    }
    for strategy in &args.strategy {
        builder = builder.strategy(strategy);
    }
    builder.build().map_err(Failure::failed)
}

/// What every term does, and what became of it.
struct Job {
    supervisor: Supervisor,
    grace: Duration,
    handle: Handle,
    forward: broadcast::Sender<rustix::process::Signal>,
    /// How the command ended by itself, or why it could not be started: the end of `run`.
    outcome: Mutex<Option<Result<Exit, StartError>>>,
}

fn deadlines(validity: Validity) -> Deadlines {
    Deadlines {
        soft: BootTime::from_nanos(validity.until.as_nanos()),
        hard: BootTime::from_nanos(validity.hard_end.as_nanos()),
    }
}

impl Job {
    async fn lead(self: Arc<Job>, term: Term) -> Result<(), StartError> {
        let mut validity = term.validity();
        let now = *validity.borrow_and_update();
        let child = match self.supervisor.start(self.environment(&term), self.grace, deadlines(now)).await {
            Ok(child) => child,
            // The deadline passed while the child was being started: the term is over anyway.
            Err(StartError::TooLate) => return Ok(()),
            Err(e) => {
                tracing::error!(error = %e, "the command was not started");
                self.finish(Err(e));
                return Ok(());
            }
        };
        let exit = self.follow(&term, &child, validity).await;
        if !term.is_cancelled() && !was_late(&exit) {
            self.finish(Ok(exit));
        }
        Ok(())
    }

    /// Keeps the child's deadlines and waits for the end of its tree.
    async fn follow(
        &self,
        term: &Term,
        child: &Supervised,
        mut validity: tokio::sync::watch::Receiver<Validity>,
    ) -> Exit {
        let mut stop = term.stop();
        let mut signals = self.forward.subscribe();
        loop {
            tokio::select! {
                biased;
                exit = child.exited() => return exit,
                Ok(()) = stop.changed() => {
                    let decided = stop.borrow_and_update().clone();
                    if let Some(decided) = decided {
                        child.stop(how_to_stop(&decided));
                    }
                }
                Ok(()) = validity.changed() => {
                    let later = *validity.borrow_and_update();
                    child.extend(deadlines(later));
                }
                Ok(signal) = signals.recv() => child.signal(signal),
            }
        }
    }

    /// The whole run is over.
    fn finish(&self, outcome: Result<Exit, StartError>) {
        *self.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(outcome);
        self.handle.shutdown();
    }

    fn environment(&self, term: &Term) -> Vec<(String, String)> {
        vec![
            ("INCUMBENT_LOCK".to_owned(), self.handle.lock().to_string()),
            ("INCUMBENT_IDENTITY".to_owned(), self.handle.identity().to_string()),
            ("INCUMBENT_TOKEN".to_owned(), term.fencing_token().to_string()),
            ("INCUMBENT_TERM".to_owned(), term.number().to_string()),
        ]
    }
}

/// Whether the tree was ended because its deadline passed, or its guardian died: nothing that the command did.
fn was_late(exit: &Exit) -> bool {
    use crate::supervise::Cause;
    matches!(exit.cause, Cause::Deadline | Cause::GuardianDied)
}

fn how_to_stop(stop: &TermStop) -> Stop {
    if stop.reason.is_loss() {
        return Stop::Loss;
    }
    let now = BootTime::now();
    Stop::Planned { drain: BootTime::from_nanos(stop.kill_at.as_nanos()).since(now) }
}
