//! `cargo xtask bench`: measures an optimised build.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::peers::{Cluster, Kind, User};

/// The settings of `cargo xtask bench`.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Start a real kube-apiserver with etcd and measure on it.
    #[arg(long)]
    pub(crate) cluster: bool,
    /// What to measure, and how: `handover` or `chaos` with their options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub(crate) words: Vec<OsString>,
}

/// Builds and measures.
///
/// # Errors
/// If something does not build or start, or a bound was missed.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = Command::new(cargo)
        .args(["build", "--release", "--locked", "-p", "incumbent-cli", "-p", "incumbent-bench"])
        .args(["--message-format=json"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(build.status.success(), "the optimised build failed");
    let text = String::from_utf8_lossy(&build.stdout);
    let built: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect();
    let program = |name: &str| {
        built
            .iter()
            .find(|path| path.file_name().is_some_and(|n| n == name))
            .with_context(|| format!("cargo does not say where {name} is"))
    };
    let mut command = Command::new(program("incumbent-bench")?);
    command.args(&settings.words).arg("--program").arg(program("incumbent")?);
    let cluster = if settings.cluster { Some(Cluster::start(Kind::Stock)?) } else { None };
    if let Some(cluster) = &cluster {
        cluster.create_namespace("default")?;
        command.arg("--kubeconfig").arg(cluster.kubeconfig(User::Admin));
    }
    let status = command.status().context("cannot start incumbent-bench")?;
    if let Some(cluster) = cluster {
        cluster.stop()?;
    }
    ensure!(status.success(), "a bound was missed, or something failed");
    Ok(())
}
