//! `cargo xtask nightly`: what takes too long for every change. Each part is also a task of its own.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{bench, interop, simulate};

/// Runs every part, one after the other; fails with the first that fails.
///
/// # Errors
/// What failed.
pub(crate) fn run() -> anyhow::Result<()> {
    dependencies()?;
    simulate::run(&simulate::Settings { seeds: 100_000, start: 1_000_000, fault: None })?;
    interop::run(&interop::Settings::default())?;
    for (cluster, words) in [
        (false, &["handover", "--rounds", "1000"] as &[&str]),
        (true, &["handover", "--rounds", "200", "--kills", "5"]),
        (false, &["chaos", "--events", "1000"]),
    ] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        bench::run(&bench::Settings { cluster, words })?;
    }
    Ok(())
}

/// Licences, advisories and sources of what is depended on.
fn dependencies() -> anyhow::Result<()> {
    let deny = |word: &str| {
        let mut command = Command::new("cargo");
        command.args(["deny", word]);
        command
    };
    let version = deny("--version").output().context("cannot start cargo")?;
    ensure!(
        version.status.success(),
        "cargo-deny is needed, and is not there: cargo install --locked cargo-deny"
    );
    let status = deny("check").status().context("cannot start cargo")?;
    ensure!(status.success(), "cargo deny found something");
    Ok(())
}
