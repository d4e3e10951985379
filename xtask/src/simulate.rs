//! `cargo xtask simulate`: elections in simulated time.

use std::time::Instant;

use anyhow::{anyhow, ensure};
use clap::Args;

/// The settings of `cargo xtask simulate`.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// How many seeds, of five simulated minutes each.
    #[arg(long, default_value_t = 2000)]
    pub(crate) seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    pub(crate) start: u64,
    /// Bring this fault into the rules; the simulation has to notice.
    #[arg(long, value_name = "NAME")]
    pub(crate) fault: Option<String>,
}

/// Simulates, and prints what it found.
///
/// # Errors
/// If a rule was broken (or, with a fault, none was), or there is no such fault.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<()> {
    let began = Instant::now();
    let fine = incumbent_sim::cli(settings.seeds, settings.start, settings.fault.as_deref())
        .map_err(|e| anyhow!(e))?;
    println!("{} seeds from {} in {:.1} s", settings.seeds, settings.start, began.elapsed().as_secs_f64());
    ensure!(fine, "not as it should be");
    Ok(())
}
