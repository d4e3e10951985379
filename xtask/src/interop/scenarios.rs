//! What has to work with real processes on a real server.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::Site;
use super::fleet::{Fleet, tail};
use crate::peers::{Process, Program, Rights, User, ensure_built};

/// One scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Needs a real cluster.
    pub(super) cluster: bool,
    pub(super) run: fn(&Site) -> anyhow::Result<()>,
}

/// All of them.
pub(super) const ALL: [Scenario; 10] = [
    Scenario { name: "demo", cluster: false, run: demo },
    Scenario { name: "upgrade", cluster: false, run: upgrade },
    Scenario { name: "killed", cluster: false, run: killed },
    Scenario { name: "exit-codes", cluster: false, run: exit_codes },
    Scenario { name: "kubectl", cluster: false, run: kubectl },
    Scenario { name: "tampering", cluster: false, run: tampering },
    Scenario { name: "least-rights", cluster: true, run: least_rights },
    Scenario { name: "wrong-input", cluster: true, run: wrong_input },
    Scenario { name: "client-go", cluster: true, run: client_go },
    Scenario { name: "kube-scheduler", cluster: true, run: kube_scheduler },
];

/// The demonstration checks itself.
fn demo(site: &Site) -> anyhow::Result<()> {
    let output = Command::new(&site.program)
        .args(["demo", "--cluster", "--kubeconfig"])
        .arg(&site.kubeconfig)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(said.contains("overlaps: 0"), "{said}");
    Ok(())
}

/// Three replicas are replaced by a newer version, one after the other; the oldest version leads throughout.
fn upgrade(site: &Site) -> anyhow::Result<()> {
    let mut fleet = Fleet::new(site, "default/upgrade", &site.kubeconfig)?;
    for name in ["a", "b", "c"] {
        fleet.start(name, "1.0.0", &[])?;
    }
    fleet.announced(3)?;
    for name in ["a", "b", "c"] {
        let oldest = if name == "c" { "1.1.0" } else { "1.0.0" };
        let status = fleet.stop(name)?;
        ensure!(status.success(), "{name} ended with {status}");
        fleet.start(name, "1.1.0", &[])?;
        fleet.announced(3)?;
        fleet.leader("the oldest version to lead", |l| l.version == oldest)?;
    }
    let lives = fleet.lives();
    ensure!(lives.iter().rev().skip(1).all(|l| l.ended), "a program did not end its work: {lives:?}");
    let newer = lives.iter().position(|l| l.version == "1.1.0");
    let last_old = lives.iter().rposition(|l| l.version == "1.0.0");
    ensure!(newer > last_old, "the new version led before the old ones had gone: {lives:?}");
    fleet.finish()
}

/// Wrapper and program are killed: another one leads once the lease has run out.
fn killed(site: &Site) -> anyhow::Result<()> {
    let mut fleet = Fleet::new(site, "default/killed", &site.kubeconfig)?;
    for name in ["a", "b"] {
        fleet.start(name, "1.0.0", &[])?;
    }
    fleet.announced(2)?;
    let leader = fleet.leader("somebody to lead", |_| true)?;
    fleet.kill(&leader)?;
    fleet.leader("the other one to lead", |l| l.name != leader.name)?;
    fleet.finish()
}

/// The program's code is that of `run`; the lock is free at once.
fn exit_codes(site: &Site) -> anyhow::Result<()> {
    let mut fleet = Fleet::new(site, "default/codes", &site.kubeconfig)?;
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
        let words: Vec<OsString> = ["sh", "-c", script].map(OsString::from).into();
        fleet.start_leading("one", "1.0.0", &[], &words)?;
        let status = fleet.wait("one")?;
        ensure!(
            status.code() == Some(code),
            "{script}: {status} instead of {code}: {}",
            tail(&fleet.log("one"))
        );
        let holder = site.kubectl(&["get", "lease", "codes", "-o", "jsonpath={.spec.holderIdentity}"])?;
        ensure!(holder.is_empty(), "the lock is still held by {holder}");
    }
    fleet.finish()
}

/// People look at leases and annotate them while they are held.
fn kubectl(site: &Site) -> anyhow::Result<()> {
    let mut fleet = Fleet::new(site, "default/people", &site.kubeconfig)?;
    fleet.start("a", "1.0.0", &[])?;
    fleet.announced(1)?;
    fleet.leader("somebody to lead", |_| true)?;
    let table = site.kubectl(&["get", "lease", "people"])?;
    ensure!(table.contains("HOLDER") && table.contains("a_"), "{table}");
    let text = site.kubectl(&["describe", "lease", "people"])?;
    ensure!(text.contains("Holder Identity"), "{text}");
    site.kubectl(&["annotate", "lease", "people", "team=search"])?;
    site.kubectl(&["label", "lease", "people", "tier=one"])?;
    // Renewed meanwhile, both survive.
    let renewed = || site.kubectl(&["get", "lease", "people", "-o", "jsonpath={.spec.renewTime}"]);
    let before = renewed()?;
    fleet.until("a renewal", |_| (renewed().ok()? != before).then_some(()))?;
    let kept = site.kubectl(&[
        "get",
        "lease",
        "people",
        "-o",
        "jsonpath={.metadata.annotations.team}{.metadata.labels.tier}",
    ])?;
    ensure!(kept == "searchone", "what people wrote is gone: {kept}");
    let status = Command::new(&site.program)
        .args(["status", "people", "-o", "json", "--kubeconfig"])
        .arg(&site.kubeconfig)
        .output()?;
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).context("status")?;
    ensure!(status["candidates"][0]["name"] == "a", "{status}");
    fleet.finish()?;
    site.kubectl(&["delete", "lease", "people"]).map(drop)
}

/// A held lock is deleted, and another one wiped.
fn tampering(site: &Site) -> anyhow::Result<()> {
    let mut fleet = Fleet::new(site, "default/tampered", &site.kubeconfig)?;
    for name in ["a", "b"] {
        fleet.start(name, "1.0.0", &[])?;
    }
    fleet.announced(2)?;
    let leader = fleet.leader("somebody to lead", |_| true)?;
    site.kubectl(&["delete", "lease", "tampered"])?;
    let held = || site.kubectl(&["get", "lease", "tampered", "-o", "jsonpath={.spec.holderIdentity}"]);
    fleet.until("the holder to create the lock again", |_| {
        held().ok()?.starts_with(&format!("{}_", leader.name)).then_some(())
    })?;
    ensure!(fleet.lives().len() == 1, "the term went on: {:?}", fleet.lives());
    fleet.announced(2)?;
    site.kubectl(&["patch", "lease", "tampered", "--type=merge", "-p", r#"{"spec":{"holderIdentity":""}}"#])?;
    fleet.until("a new term", |f| (f.lives().len() == 2).then_some(()))?;
    fleet.finish()
}

/// With get, create and update on one Lease it polls; with watch and patch, too, it does not. Both are told.
fn least_rights(site: &Site) -> anyhow::Result<()> {
    let cluster = site.cluster.as_ref().context("a cluster")?;
    for rights in [Rights::Named, Rights::Watchful] {
        let lock = format!("default/{}", rights.name());
        cluster.grant(rights, &lock.parse().map_err(anyhow::Error::msg)?)?;
        let mut fleet = Fleet::new(site, &lock, &cluster.kubeconfig(User::Elector(rights)))?;
        fleet.start("a", "1.1.0", &[])?;
        fleet.announced(1)?;
        fleet.start("b", "1.1.0", &[])?;
        fleet.announced(2)?;
        let leader = fleet.leader("somebody to lead", |_| true)?;
        // The older version is handed the lock.
        fleet.start("c", "1.0.0", &[])?;
        fleet.leader("the older version to lead", |l| l.name == "c")?;
        ensure!(fleet.lives()[0].ended, "{} did not end its work", leader.name);
        let polls = fleet.log("a").contains("polling");
        ensure!(polls == (rights == Rights::Named), "{}:\n{}", rights.name(), tail(&fleet.log("a")));
        fleet.finish()?;
    }
    Ok(())
}

/// One sentence, the right code, and nothing left.
fn wrong_input(site: &Site) -> anyhow::Result<()> {
    let cluster = site.cluster.as_ref().context("a cluster")?;
    let named = cluster.kubeconfig(User::Elector(Rights::Named));
    let cases: [(&[&str], &std::path::Path, i32, &str); 4] = [
        (
            &["--lock", "nowhere/lock", "--", "true"],
            &site.kubeconfig,
            125,
            "namespace \"nowhere\" does not exist",
        ),
        (
            &["--lock", "default/secret", "--", "true"],
            &named,
            125,
            "no permission to get lease default/secret",
        ),
        (&["--lock", "default/x", "--", "no-such-command"], &site.kubeconfig, 127, "not found"),
        (
            &["--lock", "default/x", "--renew-deadline", "15s", "--", "true"],
            &site.kubeconfig,
            125,
            "renew deadline 15s",
        ),
    ];
    for (words, kubeconfig, code, text) in cases {
        let output =
            Command::new(&site.program).args(["run", "--kubeconfig"]).arg(kubeconfig).args(words).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(code), "{words:?}: {} instead of {code}: {said}", output.status);
        ensure!(said.contains(text) && said.trim().lines().count() == 1, "{words:?}: {said}");
    }
    ensure!(site.kubectl(&["get", "lease", "x"]).is_err(), "a lease was left");
    Ok(())
}

/// client-go and incumbent on one lock, in both roles.
fn client_go(site: &Site) -> anyhow::Result<()> {
    let mut fleet = Fleet::new(site, "default/mixed", &site.kubeconfig)?;
    let elector = ensure_built(Program::Elector)?;
    let go = |name: &str, folder: &std::path::Path| {
        let mut command = Command::new(&elector);
        command.arg(format!("--kubeconfig={}", site.kubeconfig.display()));
        command.args(["--namespace=default", "--lock=mixed", "--release-on-cancel=true"]);
        command.args([format!("--identity={name}"), "--lease-duration=6s".into()]);
        command.args(["--renew-deadline=3s", "--retry-period=1s"]);
        Process::start(name, folder, command)
    };
    // Ours leads, and hands the lock to nobody that it knows: client-go takes the released lock.
    fleet.start("ours", "1.0.0", &[])?;
    fleet.leader("ours to lead", |_| true)?;
    let theirs = go("theirs", &fleet.folder)?;
    let events = |p: &Process, what: &str| p.output().matches(&format!("\"{what}\"")).count();
    ensure!(events(&theirs, "started") == 0, "two lead");
    let status = fleet.stop("ours")?;
    ensure!(status.success(), "ours ended with {status}");
    fleet.until("client-go to lead", |_| (events(&theirs, "started") == 1).then_some(()))?;
    ensure!(fleet.lives().last().is_some_and(|l| l.ended), "client-go leads, and our program lives");
    // client-go leads, and ours follows it.
    fleet.start("again", "1.0.0", &[])?;
    fleet.announced(1)?;
    ensure!(fleet.lives().len() == 1, "two lead");
    theirs.signal(rustix::process::Signal::TERM)?;
    let next = fleet.leader("ours to lead again", |l| l.name == "again")?;
    ensure!(
        next.name == "again" && events(&theirs, "stopped") == 1,
        "ours leads, and client-go's work lives"
    );
    theirs.stop(super::fleet::LIMIT)?;
    fleet.finish()
}

/// The real kube-scheduler, led, upgraded and killed; never two at once.
fn kube_scheduler(site: &Site) -> anyhow::Result<()> {
    let scheduler = ensure_built(Program::Scheduler)?;
    let mut fleet = Fleet::new(site, "kube-system/led-scheduler", &site.kubeconfig)?;
    let folder = fleet.folder.clone();
    // The shell takes a lock that the scheduler it becomes holds for its whole life.
    let script = "exec 9>>\"$1/alive\"; flock -n 9 || echo overlap >>\"$1/overlaps\"; echo $$ >>\"$1/starts\"; shift; exec \"$@\"";
    let mut words: Vec<OsString> = ["sh", "-c", script, "sh"].map(OsString::from).into();
    words.push(folder.clone().into());
    words.push(scheduler.into());
    for name in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        words.push(format!("--{name}={}", site.kubeconfig.display()).into());
    }
    words.extend(["--leader-elect=false", "--secure-port=0"].map(OsString::from));
    let starts = || fs::read_to_string(folder.join("starts")).unwrap_or_default().lines().count();
    let replicas = ["a", "b", "c"];
    for name in replicas {
        fleet.start_leading(name, "1.36.0", &[], &words)?;
    }
    fleet.announced(3)?;
    fleet.until("a scheduler", |_| (starts() >= 1).then_some(()))?;
    for name in replicas {
        let status = fleet.stop(name)?;
        ensure!(status.success(), "{name} ended with {status}");
        fleet.start_leading(name, "1.37.0", &[], &words)?;
        fleet.announced(3)?;
    }
    let holder = || {
        site.kubectl(&[
            "get",
            "lease",
            "-n",
            "kube-system",
            "led-scheduler",
            "-o",
            "jsonpath={.spec.holderIdentity}",
        ])
    };
    let name = fleet.until("a holder", |_| {
        let holder = holder().ok()?;
        let (name, _) = holder.rsplit_once('_')?;
        Some(name.to_owned())
    })?;
    let before = starts();
    let pid = fs::read_to_string(folder.join("starts"))?.lines().last().and_then(|l| l.parse().ok());
    let life = super::fleet::Life { pid: pid.context("a pid")?, name, version: String::new(), ended: false };
    fleet.kill(&life)?;
    fleet.until("another scheduler", |_| (starts() > before).then_some(()))?;
    let overlaps = fs::read_to_string(folder.join("overlaps")).unwrap_or_default();
    ensure!(overlaps.is_empty(), "two schedulers lived at one instant");
    fleet.finish()?;
    ensure!(fs::read_to_string(folder.join("overlaps")).is_err(), "two schedulers lived at one instant");
    Ok(())
}
