//! `cargo xtask nightly`: what takes too long for every change. Each part is also a task of its own.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{bench, interop, interrupt, simulate};

type Part = fn() -> anyhow::Result<()>;

/// Runs every part, whatever became of those before it; what failed is told at the end, too.
///
/// # Errors
/// Which parts failed.
pub(crate) fn run() -> anyhow::Result<()> {
    let parts: [(&str, Part); 6] = [
        ("dependencies", dependencies),
        ("simulation", || {
            simulate::run(&simulate::Settings { seeds: 100_000, start: 1_000_000, fault: None })
        }),
        ("interop", || interop::run(&interop::Settings::default())),
        ("handover on the embedded server", || measure(false, &["handover", "--rounds", "1000"])),
        ("handover on a cluster", || measure(true, &["handover", "--rounds", "200", "--kills", "5"])),
        ("chaos", || measure(false, &["chaos", "--events", "1000"])),
    ];
    let mut failed = Vec::new();
    for (name, part) in parts {
        // Only parts that own servers listen for it; the others end with the process.
        interrupt::check()?;
        writeln!(io::stdout(), "== {name}")?;
        if let Err(error) = part() {
            writeln!(io::stdout(), "FAILED  {name}: {error:#}")?;
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn measure(cluster: bool, words: &[&str]) -> anyhow::Result<()> {
    bench::run(&bench::Settings { cluster, words: words.iter().map(OsString::from).collect() })
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
    ensure!(status.success(), "cargo deny found something, or has no list of advisories");
    Ok(())
}
