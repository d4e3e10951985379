//! The other half of the supervision: a thread beside the caller's runtime that talks to the guardian, watches
//! whether it does its work, and does it instead if it does not.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child as HelperProcess, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process_group, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitpid,
};
use tokio::sync::{oneshot, watch};

use super::boottime::{Alarm, BootTime};
use super::guardian::{status_of, wait_for};
use super::timeline::{Cause, Deadlines, Due, Stop, Timeline};
use super::tree::{Child, children, kill_children};
use super::wire::{ChildNumber, Incoming, Order, Report, Status, pair, receive, send};
use super::{Exit, Helper, StartError};

/// How long the guardian may take to do what is due before we do it.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long a foreign child of ours may be a zombie before we reap it: whoever started it on purpose, such as a
/// credential plugin of the Kubernetes client, waits for it and has long done so.
const ZOMBIE_AGE: Duration = Duration::from_secs(2);

/// Between two looks at what is being killed.
const KILL_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What the caller asks the thread for.
pub(super) enum Ask {
    Start {
        child: ChildNumber,
        deadlines: Deadlines,
        grace: Duration,
        env: Vec<(String, String)>,
        reply: oneshot::Sender<Result<Begun, StartError>>,
    },
    Extend {
        child: ChildNumber,
        deadlines: Deadlines,
        sent: BootTime,
    },
    Stop {
        child: ChildNumber,
        stop: Stop,
        sent: BootTime,
    },
    Signal {
        child: ChildNumber,
        signal: Signal,
    },
    /// End everything; answered when nothing of ours lives.
    Close(oneshot::Sender<()>),
}

/// A child that runs.
pub(super) struct Begun {
    pub(super) pid: u32,
    pub(super) exit: watch::Receiver<Option<Exit>>,
}

/// The thread's world.
pub(super) struct Watch {
    command: OsString,
    args: Vec<OsString>,
    helper: Helper,
    asks: Receiver<Ask>,
    /// Readable when there is something in `asks`.
    woken: Arc<OwnedFd>,
    alarm: Alarm,
    child_changed: UnixStream,
    guardian: Option<Guardian>,
    tree: Option<Tree>,
    /// Children that were ours before: a shell's, if it executed us. They are none of our business.
    strangers: Vec<Child>,
    /// Zombies that nobody has reaped yet, and since when.
    zombies: HashMap<Pid, BootTime>,
}

struct Guardian {
    process: HelperProcess,
    pid: Pid,
    pidfd: OwnedFd,
    socket: OwnedFd,
}

/// The child as we know it from the guardian's reports.
struct Tree {
    number: ChildNumber,
    timeline: Timeline,
    state: State,
    leader: Option<(Pid, OwnedFd)>,
    /// When we saw that the guardian had something to do, and it has not said that it did.
    overdue: Option<BootTime>,
}

enum State {
    Starting(oneshot::Sender<Result<Begun, StartError>>),
    Running(watch::Sender<Option<Exit>>),
}

impl Watch {
    /// Sets this process up and starts a guardian, so that a later start costs no more than a message.
    pub(super) fn new(
        command: OsString,
        args: Vec<OsString>,
        helper: Helper,
        asks: Receiver<Ask>,
        woken: Arc<OwnedFd>,
    ) -> io::Result<Watch> {
        let strangers = children()?;
        // When the guardian dies, what it watched over becomes ours.
        set_child_subreaper(Some(getpid()))?;
        let (child_changed, write_end) = UnixStream::pair()?;
        child_changed.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, write_end)?;
        let mut watch = Watch {
            command,
            args,
            helper,
            asks,
            woken,
            alarm: Alarm::new()?,
            child_changed,
            guardian: None,
            tree: None,
            strangers,
            zombies: HashMap::new(),
        };
        watch.guardian = Some(watch.start_guardian()?);
        Ok(watch)
    }

    /// Runs until the caller closes or is gone. An error means that the deadlines can no longer be watched.
    pub(super) fn run(mut self) -> io::Result<()> {
        loop {
            self.take_reports()?;
            if self.guardian_is_over()? {
                self.bury_guardian()?;
            }
            match self.take_asks() {
                Asked::Nothing => {}
                Asked::Close(done) => {
                    self.close()?;
                    if let Some(done) = done {
                        // The caller may have stopped waiting.
                        let _ = done.send(());
                    }
                    return Ok(());
                }
            }
            let next = self.enforce()?;
            let reap = self.reap_orphans();
            self.alarm.set(next.into_iter().chain(reap).min())?;
            let mut fds = vec![self.woken.as_fd(), self.alarm.as_fd(), self.child_changed.as_fd()];
            if let Some(guardian) = &self.guardian {
                fds.extend([guardian.socket.as_fd(), guardian.pidfd.as_fd()]);
            }
            wait_for(&fds, None)?;
            drain(&self.woken);
        }
    }

    fn start_guardian(&self) -> io::Result<Guardian> {
        let (ours, theirs) = pair()?;
        let mut command = Command::new(&self.helper.program);
        command.args(&self.helper.args).arg(&self.command).args(&self.args);
        // A group of its own: what a terminal or a person sends to ours is not for it.
        let mut process = command.stdin(Stdio::from(theirs)).process_group(0).spawn()?;
        let pid = Pid::from_child(&process);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Guardian { process, pid, pidfd, socket: ours }),
            Err(e) => {
                process.kill()?;
                process.wait()?;
                Err(e.into())
            }
        }
    }

    fn take_reports(&mut self) -> io::Result<()> {
        loop {
            let Some(guardian) = &self.guardian else { return Ok(()) };
            match receive::<Report>(guardian.socket.as_fd())? {
                Incoming::Message(report, fd) => self.take_report(report, fd),
                // Of an end we learn by the pidfd: by then all that the guardian had has become ours.
                Incoming::Nothing | Incoming::Closed => return Ok(()),
            }
        }
    }

    fn take_report(&mut self, report: Report, fd: Option<OwnedFd>) {
        match report {
            Report::Started { child, pid } => {
                let Some(mut tree) = self.tree.take_if(|t| t.number == child) else { return };
                tree.leader = Pid::from_raw(pid).zip(fd);
                let mut unwanted = false;
                tree.state = match tree.state {
                    State::Starting(reply) => {
                        let (exit, watcher) = watch::channel(None);
                        // If the caller has stopped waiting for the start, the child is nobody's.
                        unwanted = reply.send(Ok(Begun { pid: pid.unsigned_abs(), exit: watcher })).is_err();
                        State::Running(exit)
                    }
                    running => running,
                };
                self.tree = Some(tree);
                if unwanted {
                    self.stop(child, Stop::Now, BootTime::now());
                }
            }
            Report::Refused { child, errno } => {
                let Some(tree) = self.tree.take_if(|t| t.number == child) else { return };
                if let State::Starting(reply) = tree.state {
                    let error = match errno {
                        None => StartError::TooLate,
                        Some(n) => StartError::from_io(&self.command, &io::Error::from_raw_os_error(n)),
                    };
                    let _ = reply.send(Err(error));
                }
            }
            Report::Terminated { child } => {
                if let Some(tree) = self.tree.as_mut().filter(|t| t.number == child) {
                    tree.timeline.told();
                    tree.overdue = None;
                }
            }
            Report::Gone { child, status, cause } => {
                if let Some(tree) = self.tree.take_if(|t| t.number == child) {
                    tree.gone(Exit { status, cause });
                }
            }
        }
    }

    fn take_asks(&mut self) -> Asked {
        loop {
            match self.asks.try_recv() {
                Ok(Ask::Start { child, deadlines, grace, env, reply }) => {
                    self.start(child, deadlines, grace, env, reply);
                }
                Ok(Ask::Extend { child, deadlines, sent }) => {
                    if let Some(tree) = self.tree.as_mut().filter(|t| t.number == child)
                        && tree.timeline.extend(deadlines, sent)
                    {
                        self.order(&Order::Extend { child, deadlines, sent });
                    }
                }
                Ok(Ask::Stop { child, stop, sent }) => self.stop(child, stop, sent),
                Ok(Ask::Signal { child, signal }) => {
                    self.order(&Order::Signal { child, signal: signal.as_raw() });
                }
                Ok(Ask::Close(done)) => return Asked::Close(Some(done)),
                Err(TryRecvError::Empty) => return Asked::Nothing,
                Err(TryRecvError::Disconnected) => return Asked::Close(None),
            }
        }
    }

    fn start(
        &mut self,
        child: ChildNumber,
        deadlines: Deadlines,
        grace: Duration,
        env: Vec<(String, String)>,
        reply: oneshot::Sender<Result<Begun, StartError>>,
    ) {
        if self.tree.is_some() {
            let _ = reply.send(Err(StartError::Busy));
            return;
        }
        if let Err(e) = self.order_start(child, deadlines, grace, env) {
            let _ = reply.send(Err(StartError::Helper(e)));
            return;
        }
        self.tree = Some(Tree {
            number: child,
            timeline: Timeline::new(deadlines, grace),
            state: State::Starting(reply),
            leader: None,
            overdue: None,
        });
    }

    fn order_start(
        &mut self,
        child: ChildNumber,
        deadlines: Deadlines,
        grace: Duration,
        env: Vec<(String, String)>,
    ) -> io::Result<()> {
        if self.guardian.is_none() {
            self.guardian = Some(self.start_guardian()?);
        }
        // Just seen to be there, or put there.
        let Some(guardian) = &self.guardian else { return Ok(()) };
        let order = Order::Start { child, deadlines, grace, env };
        send(guardian.socket.as_fd(), &order, Some(rustix::stdio::stdin()))
    }

    fn stop(&mut self, child: ChildNumber, stop: Stop, sent: BootTime) {
        if let Some(tree) = self.tree.as_mut().filter(|t| t.number == child) {
            tree.timeline.stop(stop, sent);
            self.order(&Order::Stop { child, stop, sent });
        }
    }

    fn order(&self, order: &Order) {
        if let Some(guardian) = &self.guardian {
            // A guardian that does not read is stuck: what it does not do in time, `enforce` does.
            let _ = send(guardian.socket.as_fd(), order, None);
        }
    }

    /// Sees to it that what is due is done, by the guardian or, if it is late, by us. Returns when to look again.
    fn enforce(&mut self) -> io::Result<Option<BootTime>> {
        let now = BootTime::now();
        let Some(tree) = &mut self.tree else { return Ok(None) };
        let due = tree.timeline.due(now);
        if let Due::Until(next) = due {
            tree.overdue = None;
            return Ok(Some(next));
        }
        let since = match due {
            // At the latest half a second before the hard deadline, so our patience ends before it too.
            Due::Kill => tree.timeline.kill_at().unwrap_or(now),
            _ => *tree.overdue.get_or_insert(now),
        };
        let patience_ends = since + PATIENCE;
        if now < patience_ends {
            return Ok(Some(patience_ends));
        }
        match due {
            Due::Term => {
                tree.terminate();
                tree.timeline.told();
                tree.overdue = None;
                Ok(Some(now))
            }
            Due::Kill => {
                self.kill_guardian();
                self.bury_guardian()?;
                Ok(None)
            }
            Due::Until(next) => Ok(Some(next)),
        }
    }

    fn guardian_is_over(&mut self) -> io::Result<bool> {
        match &mut self.guardian {
            Some(guardian) => Ok(guardian.process.try_wait()?.is_some()),
            None => Ok(false),
        }
    }

    fn kill_guardian(&self) {
        if let Some(guardian) = &self.guardian {
            // Works on a stopped process too. The command dies by its tie to the guardian; the rest becomes ours.
            let _ = pidfd_send_signal(&guardian.pidfd, Signal::KILL);
        }
    }

    /// The guardian has ended, or was killed and will: ends what it left behind.
    fn bury_guardian(&mut self) -> io::Result<()> {
        let Some(mut guardian) = self.guardian.take() else { return Ok(()) };
        guardian.process.wait()?;
        // Its last words.
        while let Incoming::Message(report, fd) = receive::<Report>(guardian.socket.as_fd())? {
            self.take_report(report, fd);
        }
        let Some(mut tree) = self.tree.take() else { return Ok(()) };
        let status = self.end_orphans(tree.leader.as_ref().map(|(pid, _)| *pid))?;
        let cause = match tree.timeline.due(BootTime::now()) {
            Due::Until(_) if tree.timeline.cause() == Cause::Itself => Cause::GuardianDied,
            _ => tree.timeline.cause(),
        };
        tree.gone(Exit { status: status.unwrap_or(Status::Signal(Signal::KILL.as_raw())), cause });
        Ok(())
    }

    /// Kills and reaps all children that were not ours before, with what becomes ours as they die. Returns how
    /// the command ended, if we were the one to reap it.
    fn end_orphans(&mut self, leader: Option<Pid>) -> io::Result<Option<Status>> {
        let mut status = None;
        loop {
            let mut doomed = children()?;
            doomed.retain(|c| !self.is_stranger(c));
            if doomed.is_empty() {
                return Ok(status);
            }
            if let Some(leader) = leader.filter(|l| doomed.iter().any(|c| c.pid == *l)) {
                // Ours and not reaped: the number of its group is its own.
                let _ = kill_process_group(leader, Signal::KILL);
            }
            kill_children(&doomed, |_| true);
            for child in &doomed {
                if let Ok(Some((pid, ended))) = waitpid(Some(child.pid), WaitOptions::NOHANG)
                    && Some(pid) == leader
                {
                    status = Some(status_of(ended));
                }
            }
            drain_stream(&self.child_changed);
            wait_for(&[self.child_changed.as_fd()], Some(KILL_AGAIN))?;
        }
    }

    fn is_stranger(&self, child: &Child) -> bool {
        self.strangers.iter().any(|s| s.pid == child.pid && s.start == child.start)
    }

    /// Reaps what became our child because it lost its parent: all orphans of a container, if we are its first
    /// process. Returns when to look again.
    fn reap_orphans(&mut self) -> Option<BootTime> {
        let now = BootTime::now();
        let next = |zombies: &HashMap<Pid, BootTime>| zombies.values().min().map(|t| *t + ZOMBIE_AGE);
        let waiting = next(&self.zombies);
        if !drain_stream(&self.child_changed) && waiting.is_none_or(|t| now < t) {
            return waiting;
        }
        let guardian = self.guardian.as_ref().map(|g| g.pid);
        // Without /proc they stay.
        let mut dead = children().unwrap_or_default();
        dead.retain(|c| c.zombie && Some(c.pid) != guardian);
        self.zombies.retain(|pid, _| dead.iter().any(|c| c.pid == *pid));
        for child in dead {
            let since = *self.zombies.entry(child.pid).or_insert(now);
            if now.since(since) >= ZOMBIE_AGE {
                let _ = waitpid(Some(child.pid), WaitOptions::NOHANG);
                self.zombies.remove(&child.pid);
            }
        }
        next(&self.zombies)
    }

    /// Ends the guardian and with it everything.
    fn close(&mut self) -> io::Result<()> {
        let Some(guardian) = &mut self.guardian else { return Ok(()) };
        // It sees the end of the connection, kills what it has, and ends. Its own timeline cannot delay that.
        rustix::net::shutdown(&guardian.socket, rustix::net::Shutdown::Write)?;
        let limit = BootTime::now() + PATIENCE;
        self.alarm.set(Some(limit))?;
        while guardian.process.try_wait()?.is_none() {
            if BootTime::now() >= limit {
                let _ = pidfd_send_signal(&guardian.pidfd, Signal::KILL);
                self.alarm.set(None)?;
            }
            wait_for(&[guardian.pidfd.as_fd(), self.alarm.as_fd()], None)?;
        }
        if let Some(tree) = &mut self.tree {
            tree.timeline.stop(Stop::Now, BootTime::now());
        }
        self.bury_guardian()
    }
}

enum Asked {
    Nothing,
    Close(Option<oneshot::Sender<()>>),
}

impl Tree {
    /// TERM to the group, in the guardian's place.
    fn terminate(&self) {
        let Some((leader, pidfd)) = &self.leader else { return };
        // A signal that changes nothing for a running process: if the command was reaped, its number may be
        // another's by now, and there is nothing left to terminate.
        if pidfd_send_signal(pidfd, Signal::CONT).is_ok() {
            let _ = kill_process_group(*leader, Signal::TERM);
            let _ = kill_process_group(*leader, Signal::CONT);
        }
    }

    fn gone(self, exit: Exit) {
        match self.state {
            State::Running(sender) => {
                // Whoever waited may have let go.
                sender.send_replace(Some(exit));
            }
            State::Starting(reply) => {
                let _ = reply.send(Err(StartError::HelperDied));
            }
        }
    }
}

fn drain(fd: &OwnedFd) {
    let mut bytes = [0_u8; 8];
    // Not readable is fine: it was something else that woke us.
    let _ = rustix::io::read(fd, &mut bytes);
}

/// True if there was something.
fn drain_stream(mut stream: &UnixStream) -> bool {
    let mut bytes = [0_u8; 64];
    let mut any = false;
    while matches!(io::Read::read(&mut stream, &mut bytes), Ok(n) if n > 0) {
        any = true;
    }
    any
}
