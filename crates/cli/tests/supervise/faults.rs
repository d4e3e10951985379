//! One of talker, guardian and command is stopped or killed, at any moment: nothing outlives the hard deadline.

use incumbent_cli::supervise::BootTime;
use rustix::process::Signal;

use crate::endings::DAEMON;
use crate::processes::{Folder, signal, state, stop, until};
use crate::talker::Talker;

const LONG: u64 = 600_000;

/// A command that ignores TERM, says that it got it, and has a daemon.
fn stubborn() -> String {
    format!(
        "trap 'echo x >term' TERM; {DAEMON} until test -s daemon; do sleep 0.01; done; echo x >ready\n\
             while :; do sleep 0.02; done"
    )
}

#[test]
fn a_killed_talker_takes_the_tree_along() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    talker.start(LONG, LONG, LONG);
    folder.line("ready");
    let guardian = talker.guardian();
    signal(talker.pid(), Signal::KILL);
    folder.tree_gone();
    until("the guardian to end", || state(guardian).is_none_or(|s| s == 'Z').then_some(()));
}

#[test]
fn a_killed_talker_wakes_a_stopped_guardian() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    talker.start(LONG, LONG, LONG);
    folder.line("ready");
    stop(talker.guardian());
    signal(talker.pid(), Signal::KILL);
    folder.tree_gone();
}

#[test]
fn a_stopped_talker_does_not_delay_the_deadline() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    let deadlines = talker.start(1500, 5000, 300);
    folder.line("ready");
    stop(talker.pid());
    let gone = folder.tree_gone();
    assert!(gone >= deadlines.soft && gone < deadlines.hard);
    assert!(folder.has("term"), "killed without TERM");
    // Who was stopped learns what happened.
    signal(talker.pid(), Signal::CONT);
    assert_eq!(talker.hear("gone"), "Signal(9) Deadline");
    talker.end();
}

#[test]
fn a_killed_guardian_takes_the_tree_along() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    talker.start(LONG, LONG, LONG);
    folder.line("ready");
    let first = talker.guardian();
    signal(first, Signal::KILL);
    assert_eq!(talker.hear("gone"), "Signal(9) GuardianDied");
    assert!(!folder.tree_lives());
    // The next start has a guardian again.
    std::fs::remove_file(folder.file("ready")).unwrap();
    talker.start(LONG, LONG, LONG);
    folder.line("ready");
    assert_ne!(talker.guardian(), first);
    talker.say("planned 0");
    assert!(talker.hear("gone").ends_with("Planned"));
    talker.end();
}

#[test]
fn an_idle_guardian_that_dies_is_replaced() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "exit 4");
    let first = talker.guardian();
    signal(first, Signal::KILL);
    until("the guardian to be reaped", || state(first).is_none().then_some(()));
    talker.start(LONG, LONG, LONG);
    assert_eq!(talker.hear("gone"), "Code(4) Itself");
    talker.end();
}

#[test]
fn a_stopped_guardian_does_not_delay_the_deadline() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    let deadlines = talker.start(1500, 5000, 1000);
    folder.line("ready");
    stop(talker.guardian());
    let gone = folder.tree_gone();
    assert!(gone >= deadlines.soft && gone < deadlines.hard);
    assert!(folder.has("term"), "killed without TERM");
    assert_eq!(talker.hear("gone"), "Signal(9) Deadline");
    talker.end();
}

#[test]
fn a_guardian_stopped_before_it_could_start_starts_nothing_later() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    let guardian = talker.guardian();
    stop(guardian);
    let deadlines = talker.start(300, 2000, 300);
    assert!(talker.hear("refused").starts_with("125 "));
    assert!(BootTime::now() < deadlines.hard);
    assert_eq!(state(guardian), None);
    assert!(!folder.has("alive"));
    talker.end();
}

#[test]
fn a_guardian_that_was_stopped_for_a_while_counts_the_extensions_of_that_time() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    let mut deadlines = talker.start(3000, 6000, 300);
    folder.line("ready");
    let guardian = talker.guardian();
    stop(guardian);
    let first_soft = deadlines.soft;
    deadlines.soft = deadlines.soft + std::time::Duration::from_secs(600);
    deadlines.hard = deadlines.hard + std::time::Duration::from_secs(600);
    talker.extend(deadlines);
    until("the first deadline", || (BootTime::now() > first_soft).then_some(()));
    signal(guardian, Signal::CONT);
    // It obeys, so it is awake, and TERM is what we asked for, not what the old deadline did.
    talker.say("planned 0");
    assert_eq!(talker.hear("gone"), "Signal(9) Planned");
    talker.end();
}

#[test]
fn a_stopped_guardian_does_not_keep_a_planned_stop_waiting() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    talker.start(LONG, LONG, LONG);
    folder.line("ready");
    stop(talker.guardian());
    talker.say("planned 1000");
    folder.line("term");
    assert_eq!(talker.hear("gone"), "Signal(9) Planned");
    assert!(!folder.tree_lives());
    talker.end();
}

#[test]
fn a_stopped_command_does_not_outlive_the_deadline() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    let deadlines = talker.start(5000, 9000, 300);
    folder.line("ready");
    stop(talker.hear("started").parse().unwrap());
    stop(folder.line("daemon").parse().unwrap());
    let gone = folder.tree_gone();
    assert!(gone >= deadlines.soft && gone < deadlines.hard);
    assert_eq!(talker.hear("gone"), "Signal(9) Deadline");
    talker.end();
}

#[test]
fn a_killed_command_takes_its_daemon_along() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, &stubborn());
    talker.start(LONG, LONG, LONG);
    folder.line("ready");
    signal(talker.hear("started").parse().unwrap(), Signal::KILL);
    assert_eq!(talker.hear("gone"), "Signal(9) Itself");
    assert!(!folder.tree_lives());
    talker.end();
}
