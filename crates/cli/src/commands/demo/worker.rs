//! The program that is led in a demonstration: it works until it is asked to end, ends its work in order, and
//! writes down when it lived.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::journal::{Event, Journal};
use crate::failure::Failure;

/// How often a worker writes that it lives.
const BEAT: Duration = Duration::from_millis(20);

/// The work of a demonstration's replica.
#[derive(Args, Debug)]
pub(crate) struct WorkerArgs {
    /// The journal.
    journal: PathBuf,
    /// The version to write down.
    version: String,
    /// How long the work takes to end, in milliseconds.
    end_takes: u64,
}

/// Works until TERM.
pub(crate) fn execute(args: WorkerArgs) -> Result<ExitCode, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
    runtime.block_on(work(args)).map_err(Failure::failed)
}

async fn work(args: WorkerArgs) -> std::io::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let journal = Journal::new(&args.journal);
    let living = journal.live()?;
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    journal.append(Event::Started {
        identity: variable("INCUMBENT_IDENTITY"),
        version: args.version,
        token: variable("INCUMBENT_TOKEN").parse().unwrap_or_default(),
        overlap: living.overlap,
    })?;
    let mut beat = tokio::time::interval(BEAT);
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = beat.tick() => journal.append(Event::Alive)?,
        }
    }
    journal.append(Event::Asked)?;
    let end = tokio::time::sleep(Duration::from_millis(args.end_takes));
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            _ = beat.tick() => journal.append(Event::Alive)?,
        }
    }
    journal.append(Event::Ended)?;
    Ok(ExitCode::SUCCESS)
}
