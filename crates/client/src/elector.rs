//! Building and running an elector.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use incumbent_core as core;
use incumbent_core::{
    Candidacy, Config, Identity, LockName, NameError, Profile, Request, Strategy, StrategyError,
    TimingConfig, TimingError, VersionError, Versions, WallTime,
};
use tokio::sync::{mpsc, watch};

use crate::api::{KubeLease, LeaseApi};
use crate::clock::{BootClock, Clock};
use crate::driver::{Driver, Parts};
use crate::preflight::{PreflightError, preflight};
use crate::shared::Shared;
use crate::status::{Health, Status};
use crate::term::Term;

pub(crate) type WarmUp = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What happens to work that still lives when the lease has run out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtHardEnd {
    Abort,
    CarryOn,
}

/// Why an elector cannot be built. Nothing was sent or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of the lock, of its namespace, or of this process.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The durations do not hold together.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// A version.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// A strategy.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The system gave no random bytes for the identity.
    #[error("no random bytes for the identity of this process: {0}")]
    Random(String),
    /// No client can be made of the configuration.
    #[error("the connection to the API server cannot be set up: {0}")]
    Connection(#[from] kube::Error),
}

/// How the API server is reached.
enum Server {
    Config(Box<kube::Config>),
    Client(kube::Client),
    Api(Arc<dyn LeaseApi>),
}

/// What an [`Elector`] is made of. See [`Elector::builder`].
#[must_use]
pub struct Builder {
    server: Server,
    lock: String,
    name: Option<String>,
    timing: TimingConfig,
    versions: Option<(String, Option<String>)>,
    strategies: Vec<String>,
    candidacy: Candidacy,
    settle: Option<Duration>,
    warm_timeout: Option<Duration>,
    lock_delay: Duration,
    trust_wall_clock: Option<Duration>,
    warm_up: Option<WarmUp>,
    at_hard_end: AtHardEnd,
    clock: Arc<dyn Clock>,
}

/// One process's part in the election of one lock.
pub struct Elector {
    parts: Parts,
    handle: Handle,
}

impl Elector {
    /// Begins an elector for the Lease `lock` (`namespace/name`, or a name in the configuration's namespace) on
    /// the server that `config` reaches, over connections of its own.
    ///
    /// Renaming a lock is a window with two leaders: processes with the old and the new name use two locks.
    pub fn builder(config: kube::Config, lock: impl Into<String>) -> Builder {
        Builder::new(Server::Config(Box::new(config)), lock.into())
    }

    /// As [`Elector::builder`], through a client that others use too.
    ///
    /// *Unisolated*: a renewal can wait behind other requests of that client, its automatic retries can carry a
    /// write out after it was given up, and a half-open connection is not replaced. Prefer [`Elector::builder`].
    pub fn from_client(client: kube::Client, lock: impl Into<String>) -> Builder {
        Builder::new(Server::Client(client), lock.into())
    }

    /// As [`Elector::builder`], on any implementation of [`LeaseApi`]. `lock` has to name its namespace.
    pub fn from_api(api: Arc<dyn LeaseApi>, lock: impl Into<String>) -> Builder {
        Builder::new(Server::Api(api), lock.into())
    }

    /// A way to see and steer this elector from elsewhere.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Finds out whether an election can work here at all: whether the server answers, the namespace exists,
    /// and this user may write the lock. Changes nothing (writes are rehearsed with `dryRun`).
    ///
    /// # Errors
    /// One sentence that says what is wrong.
    pub async fn preflight(&self, patience: Duration) -> Result<(), PreflightError> {
        preflight(&*self.parts.api, &self.parts.lock, patience).await
    }

    /// Takes part in the election until [`Handle::shutdown`], and calls `work` once for every term.
    ///
    /// `work` is a factory: whatever it makes belongs to the term. It should return soon after
    /// [`Term::cancelled`]. If it returns `Ok` while leading, the work is done: the lock is released, and this
    /// process contends again after two retry periods. If it returns an error or panics, the same happens, and
    /// the failure is logged.
    ///
    /// Errors of the server end nothing: they are retried for ever, and shown by [`Handle::status`] and
    /// [`Handle::health`].
    ///
    /// # Cancel safety
    /// Not cancel safe: dropped, the term is cancelled and its tasks are aborted where they are; the lock is not
    /// released and runs out.
    pub async fn run<W, F, E>(self, work: W)
    where
        W: FnMut(Term) -> F + Send,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        Driver::new(self.parts, work).run().await;
    }

    /// As [`Elector::run`], and shuts down when `signal` completes.
    pub async fn run_until<S, W, F, E>(self, signal: S, work: W)
    where
        S: Future<Output = ()> + Send,
        W: FnMut(Term) -> F + Send,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        let handle = self.handle();
        let run = self.run(work);
        tokio::pin!(run);
        tokio::select! {
            () = &mut run => return,
            () = signal => handle.shutdown(),
        }
        run.await;
    }
}

impl Builder {
    fn new(server: Server, lock: String) -> Builder {
        Builder {
            server,
            lock,
            name: None,
            timing: TimingConfig::default(),
            versions: None,
            strategies: Vec::new(),
            candidacy: Candidacy::default(),
            settle: None,
            warm_timeout: None,
            lock_delay: Duration::ZERO,
            trust_wall_clock: None,
            warm_up: None,
            at_hard_end: AtHardEnd::Abort,
            clock: Arc::new(BootClock),
        }
    }

    /// The name of this process for people; a random part is added, so that two processes are never taken for
    /// one. By default the host's name.
    pub fn identity(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// The version of this binary and, if another, the version whose behaviour it shows. Strict semver.
    pub fn versions(mut self, binary: impl Into<String>, emulation: Option<&str>) -> Builder {
        self.versions = Some((binary.into(), emulation.map(str::to_owned)));
        self
    }

    /// Adds a strategy, in order of preference: `OldestEmulationVersion`, `newest-version`, `keep-incumbent`, or
    /// another party's qualified name.
    pub fn strategy(mut self, strategy: impl Into<String>) -> Builder {
        self.strategies.push(strategy.into());
        self
    }

    /// The priority: higher comes first; zero, the default, is none.
    pub fn priority(mut self, priority: u32) -> Builder {
        self.candidacy.priority = priority;
        self
    }

    /// Until when the priority counts.
    pub fn priority_until(mut self, until: std::time::SystemTime) -> Builder {
        let micros = until.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_micros();
        self.candidacy.priority_until =
            Some(WallTime::from_micros(i64::try_from(micros).unwrap_or(i64::MAX)));
        self
    }

    /// Where others can reach this process.
    pub fn address(mut self, address: impl Into<String>) -> Builder {
        self.candidacy.address = Some(address.into());
        self
    }

    /// A label to announce.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Builder {
        self.candidacy.labels.insert(key.into(), value.into());
        self
    }

    /// Replaces all durations by a named set.
    pub fn profile(mut self, profile: Profile) -> Builder {
        self.timing = profile.into();
        self
    }

    /// Replaces all durations.
    pub fn timing(mut self, timing: TimingConfig) -> Builder {
        self.timing = timing;
        self
    }

    /// How long a lease that is not renewed stays valid; whole seconds.
    pub fn lease_duration(mut self, duration: Duration) -> Builder {
        self.timing.lease_duration = duration;
        self
    }

    /// A leader whose last renewal is older than this no longer leads.
    pub fn renew_deadline(mut self, duration: Duration) -> Builder {
        self.timing.renew_deadline = duration;
        self
    }

    /// The time between two renewals.
    pub fn retry_period(mut self, duration: Duration) -> Builder {
        self.timing.retry_period = duration;
        self
    }

    /// How long a better candidate must stay better before the lock moves to it (5 s).
    pub fn settle(mut self, duration: Duration) -> Builder {
        self.settle = Some(duration);
        self
    }

    /// After an expiry (not after a release or transfer), wait this much longer before taking over.
    pub fn lock_delay(mut self, duration: Duration) -> Builder {
        self.lock_delay = duration;
        self
    }

    /// At start only: take a lock at once whose last renewal, by wall clock, is older than its duration and this.
    /// Compares the clocks of two machines: give more than they can differ.
    pub fn trust_wall_clock(mut self, max_skew: Duration) -> Builder {
        self.trust_wall_clock = Some(max_skew);
        self
    }

    /// What to do before the present leader begins to drain for us: fill caches, open connections. It is called
    /// again before each further handover.
    pub fn warm_up<H, F>(mut self, warm_up: H) -> Builder
    where
        H: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.candidacy.warms_up = true;
        self.warm_up = Some(Box::new(move || Box::pin(warm_up())));
        self
    }

    /// How long a designated successor may take to warm up (60 s).
    pub fn warm_timeout(mut self, duration: Duration) -> Builder {
        self.warm_timeout = Some(duration);
        self
    }

    /// Lets work go on that has not ended when the lease has run out, instead of aborting the process.
    ///
    /// *What is lost*: the promise that no two leaders work at one instant. Only for programs that have other
    /// means to end their work in time.
    pub fn allow_work_beyond_the_lease(mut self) -> Builder {
        self.at_hard_end = AtHardEnd::CarryOn;
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Builder {
        self.clock = clock;
        self
    }

    /// Checks everything. Nothing is sent or started.
    ///
    /// # Errors
    /// [`BuildError`] names what is wrong and its values.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn build(self) -> Result<Elector, BuildError> {
        let namespace = match &self.server {
            Server::Config(config) => config.default_namespace.clone(),
            Server::Client(client) => client.default_namespace().to_owned(),
            Server::Api(_) => "default".to_owned(),
        };
        let lock = LockName::parse(&self.lock, &namespace)?;
        let timing = self.timing.check()?;
        let mut candidacy = self.candidacy;
        if let Some((binary, emulation)) = &self.versions {
            candidacy.versions = Some(Versions::parse(binary, emulation.as_deref())?);
        }
        for strategy in &self.strategies {
            candidacy.strategies.push(strategy.parse::<Strategy>()?);
        }
        candidacy.check()?;
        let name = self.name.unwrap_or_else(host_name);
        let identity = Identity::new(&name, random()?)?;
        let mut config = Config::new(identity, timing, candidacy);
        config.settle = self.settle.unwrap_or(config.settle);
        config.warm_timeout = self.warm_timeout.unwrap_or(config.warm_timeout);
        config.lock_delay = self.lock_delay;
        config.trust_wall_clock = self.trust_wall_clock;
        let attempt = config.timing.attempt_timeout();
        let api: Arc<dyn LeaseApi> = match self.server {
            Server::Config(config) => Arc::new(KubeLease::new(*config, lock.clone(), attempt)?),
            Server::Client(client) => Arc::new(KubeLease::from_client(client, lock.clone())),
            Server::Api(api) => api,
        };
        let identity = config.identity.clone();
        let lease = config.timing.lease_duration();
        let elector = core::Elector::new(config, self.clock.now(), random()?);
        let shared = Arc::new(Shared::new(Arc::clone(&self.clock)));
        let first = Status::of(&elector, &lock.to_string(), self.clock.now());
        let (status, seen) = watch::channel(first);
        let (sender, requests) = mpsc::channel(32);
        let handle = Handle {
            inner: Arc::new(HandleInner {
                shared: Arc::clone(&shared),
                status: seen,
                requests: sender,
                identity,
                lock: lock.clone(),
                lease,
            }),
        };
        let parts = Parts {
            elector,
            lock,
            api,
            clock: self.clock,
            shared,
            status,
            requests,
            warm_up: self.warm_up,
            at_hard_end: self.at_hard_end,
        };
        Ok(Elector { parts, handle })
    }
}

fn random() -> Result<u64, BuildError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|e| BuildError::Random(e.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// The host's name, with what an identity cannot carry replaced.
fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let clean: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') { c } else { '-' })
        .take(100)
        .collect();
    let clean = clean.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if clean.is_empty() { "process".to_owned() } else { clean.to_owned() }
}

/// Sees and steers an elector from elsewhere. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    inner: Arc<HandleInner>,
}

struct HandleInner {
    shared: Arc<Shared>,
    status: watch::Receiver<Status>,
    requests: mpsc::Sender<Request>,
    identity: Identity,
    lock: LockName,
    lease: Duration,
}

impl Handle {
    /// Whether this process leads, by the clock, at this instant. Never true once the lease may have run out,
    /// even if every task of this process is stuck.
    pub fn is_leader(&self) -> bool {
        self.inner.shared.is_leader()
    }

    /// The whole identity of this process in this election.
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// The lock.
    pub fn lock(&self) -> &LockName {
        &self.inner.lock
    }

    /// The state of the election, as it changes. Published before work starts, and after it has ended.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.inner.status.clone()
    }

    /// Ends the election here: work is drained, the lock handed over or released, the candidate record removed;
    /// then [`Elector::run`] returns. Idempotent.
    pub fn shutdown(&self) {
        self.request(Request::Shutdown);
    }

    /// Hands the lead to the best other candidate that answers; without one, this process goes on leading.
    pub fn step_down(&self) {
        self.request(Request::Yield);
    }

    /// Whether this process can lead at present. A leader that cannot yields.
    pub fn set_ready(&self, ready: bool) {
        self.request(Request::Ready(ready));
    }

    fn request(&self, request: Request) {
        match self.inner.requests.try_send(request) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(request)) => {
                // Thirty-two are waiting: the driver is stuck or the caller is in a loop. What matters most must
                // not be lost.
                let sender = self.inner.requests.clone();
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move {
                        // The elector has ended: nothing is left to ask.
                        let _ = sender.send(request).await;
                    });
                }
            }
        }
    }

    /// Whether the election works, computed now, by the clock.
    pub fn health(&self) -> Health {
        let live = !self.inner.requests.is_closed();
        let silence = self.inner.shared.silence();
        let status = self.inner.status.borrow();
        // A watch of a free lock may be silent for long; a request that fails is not.
        let cut_off = status.last_error.is_some() && silence > self.inner.lease;
        let reason = if !live {
            Some("the elector has ended".to_owned())
        } else if cut_off || status.last_error.is_some() {
            status.last_error.clone()
        } else {
            None
        };
        Health { live, election: live && !cut_off, silence, reason }
    }
}
