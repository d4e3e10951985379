//! One module per command.

pub(crate) mod demo;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod status;

use std::process::ExitCode;

use crate::args::Command;
use crate::failure::Failure;

/// Carries a command out.
pub(crate) fn execute(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => run::execute(*args),
        Command::Status(args) => status::execute(args),
        Command::Server(args) => server::execute(args),
        Command::Demo(args) => demo::execute(args),
        Command::DemoWorker(args) => demo::worker::execute(args),
    }
}
