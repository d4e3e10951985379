//! The real peers: what they are, how they are built, how they are run.
//!
//! `interop/go.mod` and `interop/etcd/go.mod` pin the versions. The programs are built once into a cache folder outside
//! of the tree ([`build`]); [`cluster`] runs an API server with its store, and users with different rights.

mod build;
mod cluster;
mod kubeconfig;
mod ports;
mod process;
mod program;
mod rbac;
mod scheduler;

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};

pub(crate) use build::ensure as ensure_built;
pub(crate) use cluster::{Cluster, Kind};
pub(crate) use process::{POLL, Process};
pub(crate) use program::Program;
pub(crate) use rbac::{Rights, User};
use scheduler::Scheduler;

/// `cargo xtask peers …`
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build every peer that is not in the cache yet, and print where they are.
    Build,
    /// Start a cluster, print its kubeconfigs, and end it on Ctrl-C or SIGTERM.
    Up(Up),
}

/// The settings of `cargo xtask peers up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Serve LeaseCandidates, with the built-in coordinator at work.
    #[arg(long)]
    coordinated: bool,

    /// Locks that the users `named` and `watchful` may use, as NAMESPACE/NAME; missing namespaces are created.
    #[arg(long, value_name = "NS/NAME", default_value = "default/leader", value_delimiter = ',')]
    locks: Vec<LockName>,

    /// Run a kube-scheduler that stands for election, as a candidate if the cluster is coordinated.
    #[arg(long)]
    scheduler: bool,
}

/// The namespace and name of a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl std::str::FromStr for LockName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(format!("`{text}` is not of the form NAMESPACE/NAME")),
        }
    }
}

/// Carries out one `cargo xtask peers` command.
///
/// # Errors
///
/// What could not be built or started, and what it said.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Build => {
            for program in Program::ALL {
                writeln!(std::io::stdout(), "{}", build::ensure(program)?.display())?;
            }
            Ok(())
        }
        Command::Up(settings) => up(settings),
    }
}

fn up(settings: &Up) -> anyhow::Result<()> {
    let kind = if settings.coordinated { Kind::Coordinated } else { Kind::Stock };
    let cluster = Cluster::start(kind)?;
    for lock in &settings.locks {
        cluster.create_namespace(&lock.namespace)?;
        for rights in [Rights::Named, Rights::Watchful] {
            cluster.grant(rights, lock)?;
        }
    }
    let scheduler = if settings.scheduler { Some(Scheduler::start(&cluster, &[])?) } else { None };
    let mut out = std::io::stdout();
    writeln!(out, "server    {} (process {})", cluster.url(), cluster.apiserver().id())?;
    writeln!(out, "store     process {}", cluster.etcd().id())?;
    for user in User::ALL {
        writeln!(out, "{:<9} {}", user.name(), cluster.kubeconfig(user).display())?;
    }
    writeln!(out, "kubectl   {}", cluster.kubectl_path().display())?;
    writeln!(out, "logs      {}", cluster.folder().display())?;
    out.flush().context("cannot write to standard output")?;
    crate::interrupt::wait();
    if let Some(scheduler) = scheduler {
        scheduler.stop()?;
    }
    cluster.stop()
}

#[cfg(test)]
mod tests {
    use super::LockName;

    #[test]
    fn a_lock_name_has_exactly_two_parts() {
        let lock: LockName = "team/leader".parse().expect("two parts");
        assert_eq!((lock.namespace.as_str(), lock.name.as_str()), ("team", "leader"));
        for text in ["leader", "/leader", "team/", "a/b/c", ""] {
            let error = text.parse::<LockName>().expect_err(text);
            assert!(error.contains("NAMESPACE/NAME"), "{error}");
        }
    }
}
