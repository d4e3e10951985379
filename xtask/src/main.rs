//! The project's own tasks, started with `cargo xtask …`.

mod interrupt;
mod peers;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the incumbent project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the real peers (kube-apiserver, etcd, client-go electors, …), or run a cluster of them.
    #[command(subcommand)]
    Peers(peers::Command),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Peers(command) => peers::run(&command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whether anybody can still read it changes nothing.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
