//! A process that we started: its log, its signals, its end.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

/// How often a condition that no event announces is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// How many lines of a log go into an error.
const LOG_TAIL: usize = 12;

/// A child process whose output goes to a log file. Dropped, it is killed and reaped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `command` in a process group of its own (Ctrl-C at the terminal is ours to handle), with standard output
    /// and standard error appended to `<folder>/<name>.log`.
    ///
    /// # Errors
    ///
    /// If the log cannot be written or the program does not start.
    pub(crate) fn start(name: &str, folder: &Path, mut command: Command) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write the log {}", log.display()))?;
        let errors = output.try_clone().with_context(|| format!("cannot write the log {}", log.display()))?;
        let child = command
            .stdin(std::process::Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        Ok(Self { name: name.to_owned(), log, child })
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends `signal` to the process itself, not to its group.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.pid()?, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    ///
    /// If the system cannot tell.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Sends SIGTERM, waits up to `grace`, then kills; returns how it ended.
    ///
    /// # Errors
    ///
    /// If the system cannot tell.
    pub(crate) fn stop(mut self, grace: Duration) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        self.signal(Signal::TERM)?;
        let start = Instant::now();
        while start.elapsed() < grace {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
        self.kill()
    }

    /// Kills and reaps the process; returns how it ended.
    ///
    /// # Errors
    ///
    /// If the system cannot tell.
    pub(crate) fn kill(&mut self) -> anyhow::Result<ExitStatus> {
        // An error here means that it has ended already; `wait` says how.
        let _ = self.child.kill();
        self.child.wait().with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Everything that it has written so far.
    pub(crate) fn output(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// An error that says `what` happened to this process and ends with the last lines of its log.
    pub(crate) fn failure(&self, what: &str) -> anyhow::Error {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n  ");
        anyhow::anyhow!("{} {what}; the end of its log:\n  {tail}", self.name)
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let raw = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        raw.with_context(|| format!("{} has the impossible process id {}", self.name, self.child.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::Duration;

    use super::Process;

    fn shell(script: &str) -> (tempfile::TempDir, Process) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let process = Process::start("shell", folder.path(), command).expect("sh starts");
        (folder, process)
    }

    #[test]
    fn an_end_is_seen_with_its_log() {
        let (_folder, mut process) = shell("echo one; echo two >&2; exit 3");
        let status = loop {
            if let Some(status) = process.ended().expect("status") {
                break status;
            }
            std::thread::yield_now();
        };
        assert_eq!(status.code(), Some(3));
        let error = process.failure("ended early").to_string();
        assert!(error.starts_with("shell ended early") && error.ends_with("two"), "{error}");
    }

    #[test]
    fn who_ignores_the_request_is_killed() {
        let (_folder, process) = shell("trap '' TERM; echo ready; while :; do sleep 1; done");
        while !process.output().contains("ready") {
            std::thread::yield_now();
        }
        let status = process.stop(Duration::from_millis(50)).expect("status");
        assert_eq!(status.signal(), Some(9));
    }

    #[test]
    fn who_obeys_is_not_killed() {
        let (_folder, process) = shell("exec sleep 1000");
        let status = process.stop(Duration::from_secs(60)).expect("status");
        assert_eq!(status.signal(), Some(15));
    }
}
