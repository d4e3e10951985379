//! Children as `/proc` tells them, and the end of all of them.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// A child of the calling process, dead or alive. Its number cannot be reused before the calling process has
/// reaped it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Child {
    pub(super) pid: Pid,
    /// When it started, in the kernel's ticks: with `pid`, unique.
    pub(super) start: u64,
    /// Its first thread has ended. Others may still run, so this is no reason to spare it.
    pub(super) zombie: bool,
}

/// The children of the calling process.
///
/// An empty list is reliable as long as only the caller's thread reaps: a process whose ancestors lead to ours
/// always has one ancestor that is our child and stays one until we reap it, so it is on the list.
pub(super) fn children() -> io::Result<Vec<Child>> {
    let us = getpid();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // A process may end while we look; one that is ours stays until we reap it.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some((parent, child)) = parse_stat(pid, &stat)
            && parent == us.as_raw_pid()
        {
            found.push(child);
        }
    }
    Ok(found)
}

/// The parent and what we want to know, from a line whose second field, a name in brackets, may hold anything.
fn parse_stat(pid: Pid, stat: &str) -> Option<(i32, Child)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    // Field 22 of the line; the state was field 3, the parent field 4.
    let start = fields.nth(17)?.parse().ok()?;
    Some((parent, Child { pid, start, zombie }))
}

/// Kills every child that `doomed` names. Those killed before are killed again, which does no harm.
pub(super) fn kill_children(children: &[Child], doomed: impl Fn(&Child) -> bool) {
    for child in children.iter().filter(|c| doomed(c)) {
        // It cannot be another process by now (see `Child`); a failure shows in the next look at the list.
        let _ = kill_process(child.pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_and_blanks_do_not_confuse() {
        let pid = Pid::from_raw(77).unwrap();
        let line = "77 (a) R 1 (b) Z 42 77 77 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        let (parent, child) = parse_stat(pid, line).unwrap();
        assert_eq!((parent, child.start, child.zombie), (42, 987654, true));
        assert_eq!(parse_stat(pid, "77 (x"), None);
    }

    #[test]
    fn a_child_is_listed_until_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(children().unwrap().iter().any(|c| c.pid == pid));
        child.wait().unwrap();
        assert!(!children().unwrap().iter().any(|c| c.pid == pid));
    }
}
