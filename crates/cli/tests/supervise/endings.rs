//! How a command ends when nothing is wrong, and what is left of it: nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::processes::{Folder, children, open_files, signal, state, until};
use crate::talker::Talker;

const LONG: u64 = 600_000;

/// A daemon as old textbooks have it, which took care to leave its group, its session and its parent. It ignores
/// TERM and HUP.
pub(crate) const DAEMON: &str = "setsid sh -c 'trap \"\" TERM HUP; (sh -c \"echo \\$PPID >daemon\"; while :; do sleep 1; done) & exit 0'\n";

#[test]
fn an_exit_code_comes_through_with_the_environment() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "test \"$GREETING\" = hello && exit 42");
    talker.start(LONG, LONG, 0);
    assert_eq!(talker.hear("gone"), "Code(42) Itself");
    talker.end();
}

#[test]
fn a_signal_comes_through() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "kill -USR1 $$");
    talker.start(LONG, LONG, 0);
    assert_eq!(talker.hear("gone"), format!("Signal({}) Itself", Signal::USR1.as_raw()));
    talker.end();
}

#[test]
fn what_cannot_be_executed_says_why() {
    let folder = Folder::new();
    let mut talker = Talker::command(&folder, &["no-such-command-anywhere"]);
    talker.start(LONG, LONG, 0);
    assert_eq!(talker.hear("refused"), "127 command \"no-such-command-anywhere\" not found");
    // The guardian is none the worse for it.
    talker.start(LONG, LONG, 0);
    assert!(talker.hear("refused").starts_with("127 "));
    talker.end();

    let plain = folder.file("plain");
    fs::write(&plain, "text").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let mut talker = Talker::command(&folder, &[plain.to_str().unwrap()]);
    talker.start(LONG, LONG, 0);
    assert!(talker.hear("refused").starts_with("126 "));
    talker.end();
}

#[test]
fn the_end_of_the_command_is_the_end_of_its_daemons() {
    let folder = Folder::new();
    let script = format!("{DAEMON} sleep 1000 & until test -s daemon; do sleep 0.01; done; exit 3");
    let mut talker = Talker::script(&folder, &script);
    talker.start(LONG, LONG, 0);
    assert_eq!(talker.hear("gone"), "Code(3) Itself");
    // Reported only when it is so.
    assert!(!folder.tree_lives());
    talker.end();
}

#[test]
fn a_long_line_of_descendants_ends_too() {
    let folder = Folder::new();
    let script = "export n=0; line() { n=$((n+1)); if test $n -lt 20; then setsid sh -c \"$self\"; \
                  else echo x >last; sleep 1000; fi; }; export self='n=$((n+1)); if test $n -lt 20; then \
                  setsid sh -c \"$self\"; else echo x >last; sleep 1000; fi; :'; line";
    let mut talker = Talker::script(&folder, script);
    talker.start(LONG, LONG, 0);
    folder.line("last");
    talker.say("planned 0");
    assert!(talker.hear("gone").ends_with("Planned"));
    assert!(!folder.tree_lives());
    talker.end();
}

#[test]
fn a_planned_stop_terminates_the_whole_group_and_waits() {
    let folder = Folder::new();
    let script = "sh -c 'trap \"echo x >inner; exit\" TERM; echo x >ready; while :; do sleep 0.02; done' & \
                  trap 'until test -s inner; do sleep 0.02; done; exit 7' TERM; wait; wait";
    let mut talker = Talker::script(&folder, script);
    talker.start(LONG, LONG, 0);
    folder.line("ready");
    talker.say("planned 60000");
    assert_eq!(talker.hear("gone"), "Code(7) Planned");
    assert!(!folder.tree_lives());
    talker.end();
}

#[test]
fn who_ignores_term_is_killed_after_the_drain() {
    let folder = Folder::new();
    let script = format!("trap '' TERM; {DAEMON} until test -s daemon; do sleep 0.01; done; sleep 1000");
    let mut talker = Talker::script(&folder, &script);
    talker.start(LONG, LONG, 0);
    folder.line("daemon");
    talker.say("planned 50");
    assert_eq!(talker.hear("gone"), "Signal(9) Planned");
    assert!(!folder.tree_lives());
    talker.end();
}

#[test]
fn a_loss_kills_after_the_grace() {
    let folder = Folder::new();
    let mut talker =
        Talker::script(&folder, "trap 'echo x >term' TERM; echo x >ready; while :; do sleep 0.02; done");
    talker.start(LONG, LONG, 200);
    folder.line("ready");
    talker.say("loss");
    folder.line("term");
    assert_eq!(talker.hear("gone"), "Signal(9) Stopped");
    talker.end();
}

#[test]
fn letting_go_of_a_child_kills_it() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "trap '' TERM; echo x >ready; sleep 1000");
    talker.start(LONG, LONG, LONG);
    folder.line("ready");
    talker.say("drop");
    folder.tree_gone();
    // And the next one can be started, once the first is gone.
    until("a second start", || {
        talker.start(LONG, LONG, 0);
        let answer = talker.hear("");
        (!answer.starts_with("refused")).then_some(())
    });
    talker.end();
    assert!(!folder.tree_lives());
}

#[test]
fn closing_ends_what_runs() {
    let folder = Folder::new();
    let script = format!("trap '' TERM; {DAEMON} until test -s daemon; do sleep 0.01; done; sleep 1000");
    let mut talker = Talker::script(&folder, &script);
    talker.start(LONG, LONG, LONG);
    folder.line("daemon");
    talker.end();
    assert!(!folder.tree_lives());
}

#[test]
fn signals_for_the_command_reach_it() {
    let folder = Folder::new();
    let script = "for s in HUP QUIT USR1 USR2; do trap \"echo x >got-$s\" $s; done; echo x >ready; \
                  while :; do sleep 0.02; done";
    let mut talker = Talker::script(&folder, script);
    talker.start(LONG, LONG, 0);
    folder.line("ready");
    // What is ignored where the test was started (HUP under `nohup`, QUIT in the background of a script) stays
    // ignored in the command, which then cannot tell.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|l| l.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    for (s, name) in [
        (Signal::HUP, "got-HUP"),
        (Signal::QUIT, "got-QUIT"),
        (Signal::USR1, "got-USR1"),
        (Signal::USR2, "got-USR2"),
    ] {
        signal(talker.pid(), s);
        if ignored & (1 << (s.as_raw() - 1)) == 0 {
            folder.line(name);
        }
    }
    for s in [Signal::TERM, Signal::INT] {
        signal(talker.pid(), s);
        talker.hear("asked to stop");
    }
    assert!(folder.tree_lives());
    // The guardian is deaf to what is sent to every process of a service.
    let guardian = talker.guardian();
    for s in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2] {
        signal(guardian, s);
    }
    talker.say("planned 0");
    assert!(talker.hear("gone").ends_with("Planned"));
    assert_eq!(talker.guardian(), guardian);
    talker.end();
}

#[test]
fn the_command_inherits_the_standard_streams_and_nothing_else() {
    let folder = Folder::new();
    let script = "ls -1 /proc/self/fd | sort -n >fds.new; exec 9>&-; readlink /proc/$$/fd/0 >stdin; \
                  trap >traps; mv fds.new fds";
    let mut talker = Talker::script(&folder, script);
    talker.start(LONG, LONG, 0);
    assert!(talker.hear("gone").starts_with("Code(0)"));
    // 9 is the script's own. The rest is what any program has that this test starts: whoever runs the test may
    // have left it open files of his own.
    let plain = "exec 9>/dev/null; ls -1 /proc/self/fd | sort -n";
    let plain = std::process::Command::new("sh").args(["-c", plain]).output().unwrap();
    assert_eq!(fs::read_to_string(folder.file("fds")).unwrap(), String::from_utf8(plain.stdout).unwrap());
    let ours = fs::read_link(format!("/proc/{}/fd/0", talker.pid())).unwrap();
    assert_eq!(folder.line("stdin"), ours.to_str().unwrap());
    talker.end();
}

#[test]
fn a_hundred_children_leave_no_process_and_no_file_open() {
    let folder = Folder::new();
    let mut talker = Talker::script(&folder, "sleep 1000 & :");
    talker.say("cycles 1");
    talker.hear("cycled");
    let guardian = talker.guardian();
    let before = (open_files(talker.pid()), open_files(guardian));
    talker.say("cycles 100");
    talker.hear("cycled");
    assert_eq!(talker.guardian(), guardian);
    // Both close what they had of a child a moment after they have told its end.
    until("the files of the children to be closed", || {
        (open_files(talker.pid()) <= before.0 && open_files(guardian) <= before.1).then_some(())
    });
    assert_eq!(children(talker.pid()), [guardian]);
    assert!(children(guardian).is_empty());
    assert!(!folder.tree_lives());
    talker.end();
    assert_eq!(state(guardian), None);
}

#[test]
fn orphans_are_reaped_while_the_command_runs() {
    let folder = Folder::new();
    let script = "while :; do sh -c 'sh -c \"echo \\$\\$ >>orphans; sleep 0.1\" &'; sleep 0.2; done";
    let mut talker = Talker::script(&folder, script);
    talker.start(LONG, LONG, 0);
    let first: i32 = until("an orphan", || {
        let text = fs::read_to_string(folder.file("orphans")).ok()?;
        text.lines().next()?.parse().ok()
    });
    until("the orphan to be reaped", || state(first).is_none().then_some(()));
    assert!(folder.tree_lives());
    talker.end();
}
