//! The `incumbent` command line. The program itself is a thin wrapper around this library, so that its parts can
//! be tested as what they are.
//!
//! [`supervise`] runs a command that must not outlive a deadline, and knows nothing of leases; `commands` has one
//! module per command; `connect` finds the API server that a command talks to.

mod args;
mod commands;
mod connect;
mod duration;
mod failure;
mod logging;
mod output;
pub mod supervise;

use std::process::ExitCode;

use clap::Parser;

use args::Arguments;
use failure::Failure;

/// Parses the command line, carries it out, and says what to exit with.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => return usage(&e),
    };
    match commands::execute(arguments.command) {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

/// What clap has to say: help and version on standard output, mistakes on standard error. `run` keeps 1, 2 and
/// all others for the command it runs: its own mistakes are 125, as with `timeout` and `docker run`.
fn usage(e: &clap::Error) -> ExitCode {
    // A closed standard stream is no reason to fail differently.
    let _ = e.print();
    if !e.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let run = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    ExitCode::from(if run { supervise::OWN_FAILURE } else { Failure::USAGE })
}
