//! The process that owns the child: one thread, no runtime, and a clock of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
    pidfd_open, set_child_subreaper, set_parent_process_death_signal, wait, waitid, waitpid,
};

use super::boottime::{Alarm, BootTime};
use super::launch::die_with_this_thread;
use super::signals::be_deaf;
use super::timeline::{Deadlines, Due, Timeline};
use super::tree::{children, kill_children};
use super::wire::{ChildNumber, Incoming, Order, Report, Status, receive, send};

/// How often at most orphans that ended are collected while the command runs.
const ORPHANS: Duration = Duration::from_secs(1);

/// Between two looks at a tree that is being killed, if no child's end wakes us before.
const KILL_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The guardian's whole life. Returns when the process that started it has ended or let go, and nothing of the
/// last tree lives.
pub(super) fn live(command: OsString, args: Vec<OsString>) -> io::Result<()> {
    let guardian = Guardian::new(command, args)?;
    loop {
        let Some(start) = guardian.next_start()? else { return Ok(()) };
        let number = start.number;
        match guardian.begin(start) {
            Ok(tree) => {
                if guardian.guard(tree)? == Talker::Gone {
                    return Ok(());
                }
            }
            Err(refusal) => {
                let errno = match refusal {
                    Refusal::TooLate => None,
                    Refusal::Error(e) => Some(e.raw_os_error().unwrap_or(Errno::IO.raw_os_error())),
                };
                guardian.report(&Report::Refused { child: number, errno }, None);
            }
        }
    }
}

struct Guardian {
    command: OsString,
    args: Vec<OsString>,
    /// Joins us to the process that started us.
    socket: OwnedFd,
    alarm: Alarm,
    /// Readable after a child of ours ended, stopped or went on.
    child_changed: UnixStream,
}

struct Start {
    number: ChildNumber,
    deadlines: Deadlines,
    grace: Duration,
    env: Vec<(String, String)>,
    stdin: Option<OwnedFd>,
}

enum Refusal {
    TooLate,
    Error(io::Error),
}

/// The command and all that came of it.
struct Tree {
    number: ChildNumber,
    leader: Pid,
    pidfd: OwnedFd,
    timeline: Timeline,
    /// A child of ours changed since we last looked for orphans.
    child_changed: bool,
    orphans_seen: BootTime,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Talker {
    Alive,
    Gone,
}

impl Guardian {
    fn new(command: OsString, args: Vec<OsString>) -> io::Result<Guardian> {
        be_deaf()?;
        // Should we be stopped when our parent dies, this wakes us to see that it did.
        set_parent_process_death_signal(Some(Signal::CONT))?;
        // Whoever loses its parent among the descendants becomes our child.
        set_child_subreaper(Some(getpid()))?;
        // A name for people; cosmetic.
        let _ = rustix::thread::set_name(c"incumbent-guard");
        let (child_changed, write_end) = UnixStream::pair()?;
        child_changed.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, write_end)?;
        // Our standard input is the socket; the copy is not inherited by what we execute, and the command's
        // standard input replaces the original.
        let socket = rustix::stdio::stdin().try_clone_to_owned()?;
        Ok(Guardian { command, args, socket, alarm: Alarm::new()?, child_changed })
    }

    /// Waits for the order to start; `None` if nobody is left to give it.
    fn next_start(&self) -> io::Result<Option<Start>> {
        loop {
            match receive::<Order>(self.socket.as_fd())? {
                Incoming::Message(Order::Start { child, deadlines, grace, env }, stdin) => {
                    return Ok(Some(Start { number: child, deadlines, grace, env, stdin }));
                }
                // About a child that has ended.
                Incoming::Message(..) => {}
                Incoming::Closed => return Ok(None),
                Incoming::Nothing => wait_for(&[self.socket.as_fd()], None)?,
            }
        }
    }

    fn begin(&self, start: Start) -> Result<Tree, Refusal> {
        let mut timeline = Timeline::new(start.deadlines, start.grace);
        if !matches!(timeline.due(BootTime::now()), Due::Until(_)) {
            return Err(Refusal::TooLate);
        }
        let mut command = Command::new(&self.command);
        command.args(&self.args).envs(start.env).process_group(0);
        command.stdin(start.stdin.map_or_else(Stdio::null, Stdio::from));
        die_with_this_thread(&mut command);
        let child = command.spawn().map_err(Refusal::Error)?;
        drop(command);
        let leader = Pid::from_child(&child);
        // Ours and not reaped: the number is still its own.
        let pidfd = match pidfd_open(leader, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(e) => {
                let _ = kill_process_group(leader, Signal::KILL);
                let _ = waitpid(Some(leader), WaitOptions::empty());
                return Err(Refusal::Error(e.into()));
            }
        };
        self.report(&Report::Started { child: start.number, pid: leader.as_raw_pid() }, Some(pidfd.as_fd()));
        Ok(Tree {
            number: start.number,
            leader,
            pidfd,
            timeline,
            child_changed: false,
            orphans_seen: BootTime::now(),
        })
    }

    /// Watches over `tree` until nothing of it lives.
    fn guard(&self, mut tree: Tree) -> io::Result<Talker> {
        loop {
            // What was sent in time counts, even if we were stopped when it came: so words first, then the clock.
            if self.take_orders(&mut tree)? == Talker::Gone {
                self.end(&tree)?;
                return Ok(Talker::Gone);
            }
            let over = leader_is_over(&tree.pidfd)?;
            let due = if over { Due::Kill } else { tree.timeline.due(BootTime::now()) };
            match due {
                Due::Kill => {
                    let cause = tree.timeline.cause();
                    let status = self.end(&tree)?;
                    self.report(&Report::Gone { child: tree.number, status, cause }, None);
                    return Ok(Talker::Alive);
                }
                Due::Term => {
                    tree.terminate();
                    tree.timeline.told();
                    self.report(&Report::Terminated { child: tree.number }, None);
                }
                Due::Until(next) => {
                    self.alarm.set(Some(next))?;
                    tree.collect_orphans();
                    wait_for(
                        &[
                            self.socket.as_fd(),
                            self.alarm.as_fd(),
                            tree.pidfd.as_fd(),
                            self.child_changed.as_fd(),
                        ],
                        None,
                    )?;
                    tree.child_changed |= self.drain_child_changed();
                }
            }
        }
    }

    fn take_orders(&self, tree: &mut Tree) -> io::Result<Talker> {
        loop {
            match receive::<Order>(self.socket.as_fd())? {
                Incoming::Message(Order::Extend { child, deadlines, sent }, _) if child == tree.number => {
                    tree.timeline.extend(deadlines, sent);
                }
                Incoming::Message(Order::Stop { child, stop, sent }, _) if child == tree.number => {
                    tree.timeline.stop(stop, sent);
                }
                Incoming::Message(Order::Signal { child, signal }, _) if child == tree.number => {
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        // Ours and not reaped, so it is the right process; if it has just ended, so be it.
                        let _ = kill_process(tree.leader, signal);
                    }
                }
                Incoming::Message(..) => {}
                Incoming::Nothing => return Ok(Talker::Alive),
                Incoming::Closed => return Ok(Talker::Gone),
            }
        }
    }

    /// Kills the tree, and returns when all of it has ended and was reaped. Returns how the command ended.
    fn end(&self, tree: &Tree) -> io::Result<Status> {
        // The command is not reaped yet, so the group's number is still its own. No member escapes by forking.
        let _ = kill_process_group(tree.leader, Signal::KILL);
        let mut status = None;
        loop {
            self.drain_child_changed();
            loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, ended))) if pid == tree.leader => status = Some(status_of(ended)),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(Errno::INTR) => {}
                    // No child, and so no descendant: an orphan would be our child.
                    Err(Errno::CHILD) => {
                        return Ok(status.unwrap_or(Status::Signal(Signal::KILL.as_raw())));
                    }
                    Err(e) => return Err(e.into()),
                }
            }
            // Those that left the group. All our children are of this tree: we have no others.
            kill_children(&children()?, |_| true);
            wait_for(&[self.child_changed.as_fd()], Some(KILL_AGAIN))?;
        }
    }

    /// True if a child changed since the last call.
    fn drain_child_changed(&self) -> bool {
        let mut bytes = [0_u8; 64];
        let mut changed = false;
        while matches!(io::Read::read(&mut &self.child_changed, &mut bytes), Ok(n) if n > 0) {
            changed = true;
        }
        changed
    }

    fn report(&self, report: &Report, fd: Option<BorrowedFd<'_>>) {
        // If the other side is gone, the next look at the socket says so; if it has not read for so long that
        // the buffer is full, it is stuck, and we enforce the deadlines without it.
        let _ = send(self.socket.as_fd(), report, fd);
    }
}

impl Tree {
    fn terminate(&self) {
        let _ = kill_process_group(self.leader, Signal::TERM);
        // A stopped process sees TERM only when it goes on.
        let _ = kill_process_group(self.leader, Signal::CONT);
    }

    /// Reaps orphans, but never the command: while it is not reaped, its number names its group and no other.
    /// At most once a second, because it costs a look at every process of the machine.
    fn collect_orphans(&mut self) {
        let now = BootTime::now();
        if !self.child_changed || now.since(self.orphans_seen) < ORPHANS {
            return;
        }
        self.child_changed = false;
        self.orphans_seen = now;
        // Without /proc they stay until the end.
        for orphan in children().unwrap_or_default().iter().filter(|c| c.zombie && c.pid != self.leader) {
            let _ = waitpid(Some(orphan.pid), WaitOptions::NOHANG);
        }
    }
}

/// True if all threads of the command have ended. It stays unreaped.
fn leader_is_over(pidfd: &OwnedFd) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let found = rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(pidfd.as_fd()), look))?;
    Ok(found.is_some())
}

pub(super) fn status_of(ended: rustix::process::WaitStatus) -> Status {
    match (ended.exit_status(), ended.terminating_signal()) {
        (Some(code), _) => Status::Code(code),
        (None, Some(signal)) => Status::Signal(signal),
        // `wait` without further options reports only ends.
        (None, None) => Status::Signal(Signal::KILL.as_raw()),
    }
}

/// Waits until one of `fds` is readable or closed, a signal came, or `limit` is over.
pub(super) fn wait_for(fds: &[BorrowedFd<'_>], limit: Option<Timespec>) -> io::Result<()> {
    let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match poll(&mut fds, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
