//! `incumbent demo`: an upgrade with graceful handover, and a crash, with real processes.

mod fleet;
mod journal;
mod summary;
pub(crate) mod worker;

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Connection;
use crate::failure::Failure;
use fleet::Fleet;

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";

/// Watch an upgrade with graceful handover, and a crash
///
/// Starts a lease server in a temporary folder and three replicas of a program at version 1.0.0, upgrades them one
/// after the other to 1.1.0, and kills a leader. The replicas prefer the oldest version in charge, so that no
/// replica meets a leader with features that it does not know. Ends with a table of all terms, as the program
/// itself wrote them down; fails if two ever ran at once, or anything else was not as it should be.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  incumbent demo\n  incumbent demo --cluster                     on the cluster of the current kubeconfig\n  incumbent demo --cluster --context staging -n scratch"
)]
pub(crate) struct DemoArgs {
    /// Use the cluster of the kubeconfig instead of a server of its own
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Shows it.
pub(crate) fn execute(args: DemoArgs) -> Result<ExitCode, Failure> {
    let named = args.connection.kubeconfig.is_some() || args.connection.context.is_some();
    if named && !args.cluster {
        return Err(Failure::usage("--kubeconfig and --context choose a cluster: give --cluster too"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::failed)?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let mut fleet = Fleet::begin(&args).await?;
        // Interrupted, the fleet is dropped: all its processes are ended, its folder is removed.
        let shown = tokio::select! {
            shown = show(&mut fleet) => shown,
            _ = interrupt.recv() => Err(Failure::failed("interrupted")),
            _ = terminate.recv() => Err(Failure::failed("interrupted")),
        };
        let terms = fleet.terms();
        let killed = fleet.killed();
        let logs = fleet.logs();
        fleet.end().await?;
        match shown {
            Ok(()) => summary::tell(&terms, &killed),
            Err(e) => {
                let _ = write!(std::io::stderr(), "{logs}");
                Err(e)
            }
        }
    })
}

async fn show(fleet: &mut Fleet) -> Result<(), Failure> {
    let mut screen = Screen::new();
    screen.say(&format!("three replicas at {OLD} on {}", fleet.place()));
    for name in ["a", "b", "c"] {
        fleet.start(name, OLD)?;
        screen.until(fleet, "the replica to stand for election", |f| f.stands(name)).await?;
    }
    screen.until(fleet, "a leader", Fleet::right_one_leads).await?;
    screen.say(&format!("{} leads", fleet.leader().unwrap_or_default()));
    screen.dwell(fleet).await?;

    // The leader first: the hardest order.
    let leader = fleet.leader().unwrap_or_default();
    let mut order = vec![leader.clone()];
    order.extend(["a", "b", "c"].map(str::to_owned).into_iter().filter(|n| *n != leader));
    for name in &order {
        let led = fleet.leader().as_ref() == Some(name);
        screen.say(&format!(
            "upgrading {name}{}",
            if led { ", which leads: it ends its work and hands over" } else { "" }
        ));
        fleet.stop(name).await?;
        screen.until(fleet, "the right one to lead", Fleet::right_one_leads).await?;
        fleet.start(name, NEW)?;
        screen.until(fleet, "the new replica to stand for election", |f| f.stands(name)).await?;
        screen.until(fleet, "the right one to lead", Fleet::right_one_leads).await?;
        let leader = fleet.leader().unwrap_or_default();
        screen.say(&format!("{name} is at {NEW}; {leader} leads at {}", fleet.version(&leader)));
        screen.dwell(fleet).await?;
    }

    let leader = fleet.leader().unwrap_or_default();
    screen.say(&format!("killing {leader} and its program with KILL: nobody can hand anything over"));
    fleet.kill(&leader)?;
    screen.until(fleet, "another one to lead", Fleet::right_one_leads).await?;
    screen.say(&format!("{} leads", fleet.leader().unwrap_or_default()));
    screen.dwell(fleet).await?;

    // Followers first, so that the last leader has nobody to hand over to.
    let leader = fleet.leader().unwrap_or_default();
    for name in order.iter().filter(|n| **n != leader) {
        fleet.stop(name).await?;
    }
    fleet.stop(&leader).await?;
    screen.say("all replicas have ended");
    Ok(())
}

/// How long anything in a demonstration may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How long things stay as they are before the next step, so that people can follow.
const DWELL: Duration = Duration::from_millis(1500);
/// How often the state is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Lines for what happens; on a terminal, one more that always says how things stand.
struct Screen {
    began: Instant,
    live: bool,
}

impl Screen {
    fn new() -> Screen {
        Screen { began: Instant::now(), live: std::io::stdout().is_terminal() }
    }

    fn say(&self, line: &str) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        // Without a reader the demonstration still judges, and its exit code tells.
        let _ = writeln!(std::io::stdout(), "{clear}[{:5.1} s] {line}", self.began.elapsed().as_secs_f64());
    }

    /// Leaves things as they are for a while. Whoever leads has to go on leading.
    async fn dwell(&mut self, fleet: &mut Fleet) -> Result<(), Failure> {
        let end = Instant::now() + DWELL;
        let leader = fleet.leader();
        self.until(fleet, "nothing to happen", |_| Instant::now() >= end).await?;
        if fleet.leader() != leader {
            return Err(Failure::failed("the lead moved though nothing had changed"));
        }
        Ok(())
    }

    /// Waits for a condition; shows how things stand meanwhile.
    async fn until(
        &mut self,
        fleet: &mut Fleet,
        what: &str,
        mut condition: impl FnMut(&Fleet) -> bool,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            fleet.look().await?;
            if self.live {
                let line = fleet.line();
                let _ = write!(
                    std::io::stdout(),
                    "\r\x1b[K[{:5.1} s] {line}",
                    self.began.elapsed().as_secs_f64()
                );
                // A terminal that is gone shows nothing anyway.
                let _ = std::io::stdout().flush();
            }
            if condition(fleet) {
                return Ok(());
            }
            if start.elapsed() > LIMIT {
                return Err(Failure::failed(format!("waited {} s in vain for {what}", LIMIT.as_secs())));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
