//! Waiting for the person, or the process, that ends a task.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Blocks until SIGINT or SIGTERM arrives.
///
/// From this call on, the two signals no longer end the process by themselves, so that the caller can clean up.
///
/// # Errors
///
/// If the signal handlers cannot be installed.
pub(crate) fn wait() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot start the runtime that waits for signals")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}
