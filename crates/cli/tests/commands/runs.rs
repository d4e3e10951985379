//! `incumbent run`, `status` and `demo` as a user meets them.

use std::process::Stdio;

use rustix::process::Signal;

use crate::site::{Running, Site, incumbent, text, until};

#[test]
fn the_commands_code_comes_through_and_the_lock_is_free_at_once() {
    let site = Site::new();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
        let output = site.run("codes", "a", "1.0.0").args(["--", "sh", "-c", script]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{script}: {}", text(&output.stderr));
        let status = site.status("codes");
        assert!(
            status["holder"].is_null() && status["candidates"].as_array().unwrap().is_empty(),
            "{status}"
        );
    }
}

#[test]
fn the_command_learns_what_it_leads() {
    let site = Site::new();
    let script = "echo $INCUMBENT_LOCK $INCUMBENT_IDENTITY $INCUMBENT_TOKEN $INCUMBENT_TERM";
    let output = site.run("env", "a", "1.0.0").args(["--", "sh", "-c", script]).output().unwrap();
    let said = text(&output.stdout);
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words.len(), 4, "{said}");
    assert_eq!((words[0], words[3]), ("default/env", "1"));
    assert!(words[1].starts_with("a_") && words[2].parse::<u64>().unwrap() > 0, "{said}");
}

#[test]
fn the_lock_is_handed_over_after_the_work_has_ended() {
    let site = Site::new();
    let a = site.worker("moves", "a", "1.1.0");
    until("a to lead", || (site.starts().len() == 1).then_some(()));
    // A follower that is asked to end never starts its command.
    let follower = site.worker("moves", "f", "1.1.0");
    site.announced("moves", 2);
    follower.signal(Signal::TERM);
    assert!(follower.output().status.success());
    assert_eq!(site.status("moves")["candidates"].as_array().unwrap().len(), 1);
    // An older version is the right one to lead.
    let b = site.worker("moves", "b", "1.0.0");
    until("b to lead", || (site.starts().len() == 2).then_some(()));
    site.announced("moves", 2);
    let status = site.status("moves");
    assert!(status["holder"].as_str().unwrap().starts_with("b_"), "{status}");
    assert_eq!(status["strategy"], "OldestEmulationVersion");
    b.signal(Signal::TERM);
    assert!(b.output().status.success());
    until("a to lead again", || (site.starts().len() == 3).then_some(()));
    a.signal(Signal::INT);
    assert!(a.output().status.success());
    let names: Vec<String> = site.starts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b", "a"]);
    assert!(site.starts().iter().all(|(_, overlap)| !overlap), "{:?}", site.starts());
}

#[test]
fn b94_a_killed_wrapper_takes_its_program_along_and_the_lease_runs_out() {
    let site = Site::new();
    let a = site.worker("killed", "a", "1.0.0");
    until("a to lead", || (site.starts().len() == 1).then_some(()));
    let b = site.worker("killed", "b", "1.0.0");
    site.announced("killed", 2);
    a.signal(Signal::KILL);
    drop(a.output());
    until("b to lead", || (site.starts().len() == 2).then_some(()));
    assert!(site.starts().iter().all(|(_, overlap)| !overlap), "{:?}", site.starts());
    b.signal(Signal::TERM);
    assert!(b.output().status.success());
}

#[test]
fn b97_asked_to_stop_before_it_leads_it_ends_and_starts_nothing() {
    let site = Site::new();
    let leader = site.worker("waits", "a", "1.0.0");
    until("a to lead", || (site.starts().len() == 1).then_some(()));
    let mut command = site.run("waits", "b", "1.0.0");
    command.args(["--", "sh", "-c", "echo started"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let waiting = Running::spawn(&mut command);
    site.announced("waits", 2);
    waiting.signal(Signal::TERM);
    let output = waiting.output();
    assert!(output.status.success() && output.stdout.is_empty());
    leader.signal(Signal::TERM);
    assert!(leader.output().status.success());
}

#[test]
fn status_has_three_forms_and_lists_a_namespace() {
    let site = Site::new();
    let leader = site.worker("shown", "a", "1.0.0");
    until("a to lead", || (site.starts().len() == 1).then_some(()));
    site.announced("shown", 1);
    let show = |words: &[&str]| {
        let output = incumbent()
            .arg("status")
            .args(words)
            .arg("--kubeconfig")
            .arg(site.kubeconfig())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let table = show(&["shown"]);
    assert!(
        table.contains("Holder       a_") && table.contains("RANK") && table.contains("first in rank"),
        "{table}"
    );
    assert!(show(&["default/shown", "-o", "yaml"]).contains("lock: default/shown"));
    assert!(show(&[]).contains("default/shown"));
    assert!(show(&["-n", "default", "shown", "-o", "json"]).contains("\"role\": \"observer\""));
    leader.signal(Signal::TERM);
    assert!(leader.output().status.success());
}

#[test]
fn a_full_disk_under_the_log_ends_nothing() {
    let site = Site::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = site.run("full", "a", "1.0.0");
    let status = command.args(["--", "sh", "-c", "exit 7"]).stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(7));
    assert!(site.status("full")["holder"].is_null(), "the lock was released");
    let mut status = incumbent();
    status.args(["status", "full", "--kubeconfig"]).arg(site.kubeconfig());
    assert_eq!(status.stdout(full()).stderr(Stdio::null()).status().unwrap().code(), Some(1));
}

#[test]
fn the_demonstration_finds_nothing_wrong() {
    let output = incumbent().arg("demo").output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("overlaps: 0") && said.contains("1.1.0"), "{said}");
}
