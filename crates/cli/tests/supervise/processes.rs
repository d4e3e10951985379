//! Looking at processes from outside.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use incumbent_cli::supervise::BootTime;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

/// Nothing here takes this long on a machine that is merely busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Waits until `condition` gives something; fails the test with `what` after [`LIMIT`].
#[track_caller]
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Sends STOP and waits until the process has stopped.
pub(crate) fn stop(pid: i32) {
    signal(pid, Signal::STOP);
    until("the process to stop", || (state(pid)? == 'T').then_some(()));
}

pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The living children of a process.
pub(crate) fn children(parent: i32) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let mut fields = stat.rsplit_once(") ").unwrap().1.split(' ');
        let dead = fields.next() == Some("Z");
        if !dead && fields.next() == Some(&parent.to_string()) {
            found.push(pid);
        }
    }
    found
}

pub(crate) fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// A folder with the files by which a script and its test talk.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// What a script wrote into a file, once it has written a whole line.
    #[track_caller]
    pub(crate) fn line(&self, name: &str) -> String {
        until(name, || {
            let text = fs::read_to_string(self.file(name)).ok()?;
            Some(text.strip_suffix('\n')?.to_owned())
        })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// True while some process of the tree lives.
    pub(crate) fn tree_lives(&self) -> bool {
        let lock = File::options().append(true).open(self.file("alive")).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
    }

    /// Waits until nothing of the tree lives, and says when that was seen.
    #[track_caller]
    pub(crate) fn tree_gone(&self) -> BootTime {
        until("the tree to be gone", || (!self.tree_lives()).then(BootTime::now))
    }
}
