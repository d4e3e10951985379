//! The project's own tasks, started with `cargo xtask …`.

mod bench;
mod interop;
mod interrupt;
mod nightly;
mod peers;
mod simulate;

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
    /// Run the scenarios with real processes, on the embedded server and on a real kube-apiserver.
    Interop(interop::Settings),
    /// Simulate elections: any number of seeds, or one deliberate fault.
    Simulate(simulate::Settings),
    /// Measure: `bench handover`, `bench chaos`. Builds with optimisation; what follows goes to the measuring program.
    Bench(bench::Settings),
    /// Everything that is too long for every change: many seeds, measurements, faults, the real peers, dependencies.
    Nightly,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Peers(command) => peers::run(&command),
        Task::Interop(settings) => interop::run(&settings),
        Task::Simulate(settings) => simulate::run(&settings),
        Task::Bench(settings) => bench::run(&settings),
        Task::Nightly => nightly::run(),
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
