//! The deadlines, with nobody at fault but the command.

use std::time::Duration;

use incumbent_cli::supervise::{BootTime, Deadlines};

use crate::processes::{Folder, stop};
use crate::talker::Talker;

#[test]
fn the_soft_deadline_terminates_and_nothing_outlives_the_hard_one() {
    let folder = Folder::new();
    let script = "trap 'echo x >term' TERM; echo x >ready; while :; do sleep 0.02; done";
    let mut talker = Talker::script(&folder, script);
    let deadlines = talker.start(1000, 4000, 300);
    folder.line("ready");
    folder.line("term");
    assert!(BootTime::now() >= deadlines.soft);
    let gone = folder.tree_gone();
    assert!(gone >= deadlines.soft + Duration::from_millis(300), "killed before the grace was over");
    assert!(gone < deadlines.hard);
    assert_eq!(talker.hear("gone"), "Signal(9) Deadline");
    talker.end();
}

#[test]
fn a_grace_that_is_too_long_does_not_move_the_hard_deadline() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "trap '' TERM; sleep 1000");
    let deadlines = talker.start(300, 2000, 600_000);
    talker.hear("started");
    assert_eq!(talker.hear("gone"), "Signal(9) Deadline");
    assert!(BootTime::now() < deadlines.hard);
    talker.end();
}

#[test]
fn a_stopped_command_sees_term_and_dies() {
    let folder = Folder::new();
    let script = "trap 'echo x >term; exit 5' TERM; echo x >ready; while :; do sleep 0.02; done";
    let mut talker = Talker::script(&folder, script);
    talker.start(1500, 60_000, 58_000);
    folder.line("ready");
    stop(talker.hear("started").parse().unwrap());
    assert_eq!(talker.hear("gone"), "Code(5) Deadline");
    talker.end();
}

#[test]
fn extensions_keep_it_alive_until_they_end() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "sleep 1000");
    let mut deadlines = talker.start(2000, 8000, 2000);
    talker.hear("started");
    for _ in 0..20 {
        deadlines.soft = deadlines.soft + Duration::from_millis(50);
        deadlines.hard = deadlines.hard + Duration::from_millis(50);
        talker.extend(deadlines);
    }
    assert_eq!(talker.hear("gone"), "Signal(15) Deadline");
    let now = BootTime::now();
    assert!(now >= deadlines.soft, "killed though it was extended");
    assert!(now < deadlines.hard);
    talker.end();
}

#[test]
fn a_late_extension_changes_nothing() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "trap 'echo x >term' TERM; while :; do sleep 0.02; done");
    let deadlines = talker.start(500, 4000, 500);
    folder.line("term");
    let later = Duration::from_secs(600);
    talker.extend(Deadlines { soft: deadlines.soft + later, hard: deadlines.hard + later });
    assert_eq!(talker.hear("gone"), "Signal(9) Deadline");
    assert!(BootTime::now() < deadlines.hard);
    talker.end();
}

#[test]
fn a_deadline_that_has_passed_starts_nothing() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "sleep 1000");
    talker.start(0, 5000, 0);
    assert!(talker.hear("refused").contains("deadline had already passed"));
    assert!(!folder.has("alive"));
    talker.end();
}

#[test]
fn renewals_go_on_in_a_planned_stop() {
    let folder = Folder::new();
    let script = "trap 'sleep 1; exit 6' TERM; echo x >ready; while :; do sleep 0.02; done";
    let mut talker = Talker::script(&folder, script);
    let deadlines = talker.start(1000, 4000, 0);
    folder.line("ready");
    talker.say("planned 60000");
    let later = Duration::from_secs(600);
    talker.extend(Deadlines { soft: deadlines.soft + later, hard: deadlines.hard + later });
    assert_eq!(talker.hear("gone"), "Code(6) Planned");
    assert!(BootTime::now() >= deadlines.soft);
    talker.end();
}
