//! Runs a command that must not outlive a deadline.
//!
//! A process that may act only until some instant cannot be trusted to stop by itself: it may be stuck, stopped
//! or gone at that instant. So the command is owned by a second process, the **guardian**, which knows nothing
//! but the deadlines and enforces them alone. The calling process tells it new deadlines through a socket, and a
//! thread of the caller's watches that the guardian does its work.
//!
//! ```text
//!   caller ── Supervisor ── watching thread ══ socket ══ guardian ── command ── what it started
//!                              └─ pidfd, child of ─────────┘   └─ PDEATHSIG ─┘
//! ```
//!
//! # What is promised
//!
//! The *tree* of a command is its process group and every descendant, also one that left the group, started a
//! session or lost its parent. [`Supervised::exited`] resolves only when nothing of it lives.
//!
//! - At the soft deadline the group is sent TERM (and CONT, so that a stopped process sees it). After the stop
//!   grace, and never later than half a second before the hard deadline, the tree is killed.
//! - A deadline that has passed is final: an extension sent after it changes nothing. One sent before it counts,
//!   even if the guardian was stopped and reads it late.
//! - When the command itself ends, all that is left of its tree is killed at once, as in a container.
//!
//! Nothing of the tree lives past the hard deadline under any one of these, at any moment:
//!
//! | fault | who acts |
//! |---|---|
//! | the caller is stopped or stuck | the guardian, by its own clock |
//! | the caller is killed, or ends in any other way | the guardian sees the socket close and kills the tree at once; if it is stopped at that moment, the kernel wakes it |
//! | the guardian is stopped or stuck | the caller's thread: TERM a quarter of a second after it was due; likewise KILL, of the guardian itself and of all that it leaves |
//! | the guardian is killed | the kernel kills the command (PDEATHSIG); what is left becomes a child of the caller, whose thread kills it |
//! | the command is stopped, or ignores TERM | KILL works all the same |
//!
//! Not promised: anything when the caller *and* the guardian are stopped or killed together before either could
//! act, or when a process sits in an uninterruptible system call that does not end. A command that runs with
//! another user's rights (a set-user-ID program) can be killed only by a caller that may do so.
//!
//! # One per process
//!
//! A process becomes the parent of what the guardian leaves behind, and cannot tell that from its own children.
//! So there is one [`Supervisor`] per process, and that process should have no other long-lived children: they
//! would be killed if the guardian died. Children it had before are spared. Orphans are reaped, so the process
//! may be the first of a container.

mod boottime;
mod guardian;
mod launch;
mod resolve;
mod signals;
mod timeline;
mod tree;
mod watch;
mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Signal;
use tokio::sync::{oneshot, watch as watching};

pub use boottime::BootTime;
pub use resolve::resolve;
pub use signals::{Asked, Signals};
pub use timeline::{Cause, Deadlines, Stop};
pub use wire::Status;

use watch::{Ask, Watch};
use wire::ChildNumber;

/// The exit code of a failure that is ours, not the command's, as `timeout` and `docker run` have it.
pub const OWN_FAILURE: u8 = 125;

/// The first argument that makes the program a guardian instead of what it is.
pub const GUARDIAN_ARGUMENT: &str = "__guardian";

/// How to start the guardian: a program that calls [`guardian`] with all that follows `args`.
#[derive(Clone, Debug)]
pub struct Helper {
    /// The executable.
    pub program: PathBuf,
    /// The arguments before the command's.
    pub args: Vec<OsString>,
}

impl Default for Helper {
    /// The running program itself, even if its file was replaced meanwhile.
    fn default() -> Helper {
        Helper { program: PathBuf::from("/proc/self/exe"), args: vec![GUARDIAN_ARGUMENT.into()] }
    }
}

/// The guardian's main function: `words` are the command and its arguments.
pub fn guardian(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(command) = words.next() else {
        eprintln!("incumbent: {GUARDIAN_ARGUMENT} is internal: `incumbent run` starts it by itself");
        return ExitCode::from(OWN_FAILURE);
    };
    match guardian::live(command, words.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Our end is the end of the command (see "What is promised").
            eprintln!("incumbent: the process that guards the command failed: {e}");
            ExitCode::from(OWN_FAILURE)
        }
    }
}

/// Why a command was not started. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such command.
    #[error("command {0:?} not found")]
    NotFound(OsString),
    /// There is, but it cannot be executed.
    #[error("command {0:?} cannot be executed: {1}")]
    NotExecutable(OsString, io::Error),
    /// Another failure of the system.
    #[error("starting command {0:?} failed: {1}")]
    Failed(OsString, io::Error),
    /// The soft deadline had passed.
    #[error("the command was not started: its deadline had already passed")]
    TooLate,
    /// The tree of the command before is not gone.
    #[error("the command was not started: its predecessor has not ended")]
    Busy,
    /// The guardian could not be started or reached.
    #[error("the process that guards the command could not be started: {0}")]
    Helper(io::Error),
    /// The guardian ended, or did not answer in time and was killed.
    #[error("the process that guards the command ended before the command was started")]
    HelperDied,
}

impl StartError {
    fn from_io(command: &OsString, e: &io::Error) -> StartError {
        // `io::Error` cannot be cloned.
        let error =
            || e.raw_os_error().map_or_else(|| io::Error::from(e.kind()), io::Error::from_raw_os_error);
        match e.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOENT) => StartError::NotFound(command.clone()),
            Some(
                rustix::io::Errno::ACCESS
                | rustix::io::Errno::PERM
                | rustix::io::Errno::NOEXEC
                | rustix::io::Errno::NOTDIR
                | rustix::io::Errno::ISDIR
                | rustix::io::Errno::LOOP
                | rustix::io::Errno::TXTBSY,
            ) => StartError::NotExecutable(command.clone(), error()),
            _ => StartError::Failed(command.clone(), error()),
        }
    }

    /// What a program that only runs the command exits with: 127, 126, or 125.
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::NotFound(_) => 127,
            StartError::NotExecutable(..) => 126,
            _ => OWN_FAILURE,
        }
    }
}

/// How a command and its tree ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// How the command ended. `Signal(9)` also if its guardian died and took the answer along.
    pub status: Status,
    /// What set the end going.
    pub cause: Cause,
}

impl Exit {
    /// The command's code, or 128 + n after signal n, as a shell has it.
    pub fn shell_code(&self) -> u8 {
        match self.status {
            // The kernel keeps eight bits of a code; signals end at 64.
            Status::Code(code) => (code & 0xff) as u8,
            Status::Signal(n) => (128 + (n & 0x7f)) as u8,
        }
    }
}

/// Starts one command again and again, one at a time.
///
/// Dropping it ends everything it started, soon; [`Supervisor::close`] waits for that.
pub struct Supervisor {
    asks: Asks,
    numbers: AtomicU64,
}

/// True while a [`Supervisor`] lives in this process.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Supervisor {
    /// Prepares to run `command`, and starts the guardian, so that a start costs a message and an exec only.
    ///
    /// The command inherits this process's environment, folder, standard streams and open file descriptors as
    /// they are. Makes this process the one that orphans among its descendants fall to.
    ///
    /// Fails if this process has another supervisor, or if the guardian cannot be started.
    pub fn new(command: OsString, args: Vec<OsString>, helper: Helper) -> io::Result<Supervisor> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(io::Error::other("this process already supervises a command"));
        }
        let started = Self::start_thread(command, args, helper);
        if started.is_err() {
            TAKEN.store(false, Ordering::SeqCst);
        }
        started
    }

    fn start_thread(command: OsString, args: Vec<OsString>, helper: Helper) -> io::Result<Supervisor> {
        let woken = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, receiver) = channel();
        let asks = Asks { sender, woken: Arc::clone(&woken) };
        let (ready, is_ready) = channel();
        // The guardian is started by this thread, and so hears of its end.
        std::thread::Builder::new().name("incumbent-watch".into()).spawn(move || {
            let watch = match Watch::new(command, args, helper, receiver, woken) {
                Ok(watch) => watch,
                Err(e) => {
                    // The receiver waits.
                    let _ = ready.send(Err(e));
                    return;
                }
            };
            let _ = ready.send(Ok(()));
            // A tree that nobody watches must not live: our end is its end.
            match catch_unwind(AssertUnwindSafe(|| watch.run())) {
                Ok(Ok(())) => TAKEN.store(false, Ordering::SeqCst),
                Ok(Err(e)) => {
                    eprintln!("incumbent: the command can no longer be watched, so it is ended: {e}");
                    std::process::exit(OWN_FAILURE.into());
                }
                Err(_) => std::process::exit(OWN_FAILURE.into()),
            }
        })?;
        is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("the watching thread ended")))?;
        Ok(Supervisor { asks, numbers: AtomicU64::new(1) })
    }

    /// Starts the command with `env` added to its environment, to run until `deadlines` unless it is extended;
    /// `grace` is the time from TERM to KILL after a deadline or a loss.
    ///
    /// Cancel safe: if the future is dropped, a command that was started all the same is killed at once.
    pub async fn start(
        &self,
        env: Vec<(String, String)>,
        grace: Duration,
        deadlines: Deadlines,
    ) -> Result<Supervised, StartError> {
        let child = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        self.asks.ask(Ask::Start { child, deadlines, grace, env, reply });
        let begun = answer.await.unwrap_or(Err(StartError::HelperDied))?;
        Ok(Supervised { asks: self.asks.clone(), number: child, pid: begun.pid, exit: begun.exit })
    }

    /// Kills what still runs, ends the guardian, and returns when nothing of them lives.
    pub async fn close(self) {
        let (done, is_done) = oneshot::channel();
        self.asks.ask(Ask::Close(done));
        // An error: the thread had ended already, and everything with it.
        let _ = is_done.await;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        self.asks.ask(Ask::Close(done));
    }
}

/// A command that was started. Dropping it kills its tree at once.
pub struct Supervised {
    asks: Asks,
    number: ChildNumber,
    pid: u32,
    exit: watching::Receiver<Option<Exit>>,
}

impl Supervised {
    /// The command's process id, also that of its process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Moves the deadlines later. Without effect after the present soft deadline, or after [`Stop::Loss`].
    pub fn extend(&self, deadlines: Deadlines) {
        self.asks.ask(Ask::Extend { child: self.number, deadlines, sent: BootTime::now() });
    }

    /// Stops the command. Asking again can only bring its end closer.
    pub fn stop(&self, stop: Stop) {
        self.asks.ask(Ask::Stop { child: self.number, stop, sent: BootTime::now() });
    }

    /// Sends the command itself (not its group) a signal.
    pub fn signal(&self, signal: Signal) {
        self.asks.ask(Ask::Signal { child: self.number, signal });
    }

    /// Waits until nothing of the tree lives. Cancel safe; may be called again.
    pub async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        loop {
            if let Some(exit) = *exit.borrow_and_update() {
                return exit;
            }
            if exit.changed().await.is_err() {
                // The thread ends only with its process or after it has told the end of the tree; in the first
                // case nobody waits for long.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if self.exit.borrow().is_none() {
            self.stop(Stop::Now);
        }
    }
}

/// The way to the watching thread.
#[derive(Clone)]
struct Asks {
    sender: Sender<Ask>,
    woken: Arc<OwnedFd>,
}

impl Asks {
    fn ask(&self, ask: Ask) {
        // The thread ends only when it was asked to: then there is nothing left to ask.
        if self.sender.send(ask).is_ok() {
            let _ = rustix::io::write(&*self.woken, &1_u64.to_ne_bytes());
        }
    }
}
