//! `incumbent server` as a process.

use std::process::Stdio;

use rustix::process::Signal;

use crate::site::{Running, Site, incumbent, mode, text, until};

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let site = Site::new();
    let mut command = incumbent();
    command.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(site.data_dir());
    let output = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).output();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("incumbent: "), "{}", text(&output.stderr));
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = incumbent();
    command.args(["server", "--listen", "0.0.0.0:0", "--data-dir"]).arg(folder.path().join("data"));
    let output = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).output();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("use 127.0.0.1"), "{}", text(&output.stderr));
}

#[test]
fn it_ends_in_order_and_its_kubeconfig_is_its_owners_alone() {
    let mut site = Site::new();
    assert_eq!(mode(&site.kubeconfig()), 0o600);
    assert_eq!(mode(&site.data_dir().join("kubeconfig")), 0o600);
    let server = site.server();
    server.signal(Signal::TERM);
    assert!(server.output().status.success());
}

#[test]
fn what_was_written_survives_a_kill() {
    let mut site = Site::new();
    let mut first = site.run("kept", "a", "1.0.0");
    let output = first.args(["--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let before = site.status("kept");
    assert_eq!(before["transitions"], 0);
    let server = site.server();
    server.signal(Signal::KILL);
    assert!(!server.output().status.success());
    site.start("127.0.0.1:0");
    let after = site.status("kept");
    assert_eq!(after["transitions"], before["transitions"]);
    assert_eq!(after["strategy"], before["strategy"]);
}

fn refused(site: &Site, kubeconfig: Option<&str>, sentence: &str) {
    let mut command = incumbent();
    command.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(site.data_dir());
    if let Some(path) = kubeconfig {
        command.args(["--write-kubeconfig", path]);
    }
    let output = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).output();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(sentence), "{}", text(&output.stderr));
}

#[test]
fn b41_a_store_that_was_emptied_is_not_taken_for_a_new_one() {
    let mut site = Site::new();
    let server = site.server();
    server.signal(Signal::KILL);
    drop(server.output());
    let store = site.data_dir().join("store.redb");
    std::fs::write(&store, "").unwrap();
    refused(&site, None, "fencing tokens, would fall");
    std::fs::remove_file(&store).unwrap();
    refused(&site, None, "fencing tokens, would fall");
}

#[test]
fn a_kubeconfig_replaces_no_device_and_follows_links() {
    let mut site = Site::new();
    let server = site.server();
    server.signal(Signal::TERM);
    drop(server.output());
    let folder = site.folder.path().join("a-folder");
    std::fs::create_dir(&folder).unwrap();
    refused(&site, folder.to_str(), "not a regular file");
    let target = site.folder.path().join("target");
    std::fs::write(&target, "old").unwrap();
    std::fs::remove_file(site.kubeconfig()).unwrap();
    std::os::unix::fs::symlink(&target, site.kubeconfig()).unwrap();
    let mut command = incumbent();
    command.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(site.data_dir());
    command.arg("--write-kubeconfig").arg(site.kubeconfig()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Running::spawn(&mut command);
    until("the kubeconfig", || std::fs::read_to_string(&target).unwrap().contains("clusters").then_some(()));
    assert!(site.kubeconfig().is_symlink());
}
