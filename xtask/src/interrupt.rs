//! The person, or the process, that ends a task before it is done.
//!
//! Servers that a task has started are in process groups of their own: the terminal's Ctrl-C does not reach them, and
//! neither does a SIGTERM to the task. So the task listens while it owns any, and drops them in order.

use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::thread;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

static REQUESTED: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();

/// From the first call on, SIGINT and SIGTERM no longer end the process: [`check`] and [`wait`] tell of them.
///
/// # Errors
///
/// If the signal handlers cannot be installed.
pub(crate) fn listen() -> anyhow::Result<()> {
    static ONCE: Once = Once::new();
    let mut outcome = Ok(());
    ONCE.call_once(|| outcome = install());
    outcome
}

fn install() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot start the runtime that waits for signals")?;
    let context = runtime.enter();
    let interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    drop(context);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(first(interrupt, terminate));
            *REQUESTED.lock().unwrap_or_else(PoisonError::into_inner) = true;
            CHANGED.notify_all();
        })
        .context("cannot start the thread that waits for signals")?;
    Ok(())
}

async fn first(mut one: Signal, mut other: Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// Whether the task may go on. Loops that wait for something call it in each turn.
///
/// # Errors
///
/// Once SIGINT or SIGTERM has arrived.
pub(crate) fn check() -> anyhow::Result<()> {
    if *REQUESTED.lock().unwrap_or_else(PoisonError::into_inner) {
        bail!("interrupted");
    }
    Ok(())
}

/// Blocks until SIGINT or SIGTERM arrives; for ever, if nobody called [`listen`].
pub(crate) fn wait() {
    let mut requested = REQUESTED.lock().unwrap_or_else(PoisonError::into_inner);
    while !*requested {
        requested = CHANGED.wait(requested).unwrap_or_else(PoisonError::into_inner);
    }
}
