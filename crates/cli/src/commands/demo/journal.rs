//! What the workers of a demonstration saw themselves: one file to which each appends its beginning, signs of
//! life, and its end.
//!
//! Two workers that live at one instant are found by a lock on a second file, which a worker holds as long as it
//! lives, however it dies: whoever cannot take it at its start has met another one.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::supervise::BootTime;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The worker's process.
    pub(crate) pid: u32,
    /// When, on the machine's clock that all workers share.
    pub(crate) at: BootTime,
    /// What.
    pub(crate) event: Event,
}

/// What a worker tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Event {
    /// It has started.
    Started {
        /// The identity of the replica.
        identity: String,
        /// The version it is of.
        version: String,
        /// The fencing token of its term.
        token: u64,
        /// Another worker lived at that instant.
        overlap: bool,
    },
    /// It lives.
    Alive,
    /// It was asked to end.
    Asked,
    /// It has ended its work.
    Ended,
}

/// The journal of one lock.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    path: PathBuf,
}

/// Held by a living worker.
pub(crate) struct Living {
    _lock: File,
    /// Another one lived when this one started.
    pub(crate) overlap: bool,
}

impl Journal {
    pub(crate) fn new(path: &Path) -> Journal {
        Journal { path: path.to_owned() }
    }

    /// Appends an entry; whole lines of two processes do not mix.
    pub(crate) fn append(&self, event: Event) -> std::io::Result<()> {
        let entry = Entry { pid: std::process::id(), at: BootTime::now(), event };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        File::options().create(true).append(true).open(&self.path)?.write_all(&line)
    }

    /// Says that this process lives, until it does not.
    pub(crate) fn live(&self) -> std::io::Result<Living> {
        let lock = File::options().create(true).append(true).open(self.path.with_extension("alive"))?;
        let overlap = match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => false,
            Err(Errno::WOULDBLOCK) => true,
            Err(e) => return Err(e.into()),
        };
        Ok(Living { _lock: lock, overlap })
    }

    /// All that was written so far, in order.
    pub(crate) fn read(&self) -> Vec<Entry> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The terms so far, in the order of their beginnings.
    pub(crate) fn terms(&self) -> Vec<Term> {
        terms(&self.read())
    }
}

/// The life of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) pid: u32,
    pub(crate) identity: String,
    pub(crate) version: String,
    pub(crate) token: u64,
    pub(crate) overlap: bool,
    pub(crate) started: BootTime,
    /// The last that was heard of it.
    pub(crate) last: BootTime,
    /// It was asked to end.
    pub(crate) asked: bool,
    /// It ended its work by itself.
    pub(crate) ended: bool,
}

fn terms(entries: &[Entry]) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for entry in entries {
        if let Event::Started { identity, version, token, overlap } = &entry.event {
            terms.push(Term {
                pid: entry.pid,
                identity: identity.clone(),
                version: version.clone(),
                token: *token,
                overlap: *overlap,
                started: entry.at,
                last: entry.at,
                asked: false,
                ended: false,
            });
            continue;
        }
        let Some(term) = terms.iter_mut().rev().find(|t| t.pid == entry.pid) else { continue };
        term.last = term.last.max(entry.at);
        term.asked |= entry.event == Event::Asked;
        term.ended |= entry.event == Event::Ended;
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: u32, ms: u64, event: Event) -> Entry {
        Entry { pid, at: BootTime::from_nanos(ms * 1_000_000), event }
    }

    #[test]
    fn lives_are_put_together_from_what_each_worker_wrote() {
        let started = |token| Event::Started {
            identity: format!("id-{token}"),
            version: "1.0.0".into(),
            token,
            overlap: token == 2,
        };
        let entries = [
            entry(7, 10, started(1)),
            entry(7, 20, Event::Alive),
            entry(7, 25, Event::Asked),
            entry(7, 30, Event::Ended),
            entry(8, 35, started(2)),
            entry(8, 40, Event::Alive),
        ];
        let terms = terms(&entries);
        assert_eq!(terms.len(), 2);
        assert!(terms[0].ended && terms[0].asked && !terms[0].overlap);
        assert_eq!(terms[0].last, BootTime::from_nanos(30_000_000));
        assert!(!terms[1].ended && terms[1].overlap);
    }

    #[test]
    fn two_that_live_at_once_meet() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(&folder.path().join("journal"));
        let first = journal.live().unwrap();
        assert!(!first.overlap);
        assert!(journal.live().unwrap().overlap);
        drop(first);
        assert!(!journal.live().unwrap().overlap);
        journal.append(Event::Alive).unwrap();
        assert_eq!(journal.read().len(), 1);
    }
}
