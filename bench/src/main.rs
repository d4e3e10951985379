//! Measures incumbent: `cargo xtask bench handover`.

mod chaos;
mod fleet;
mod handover;
mod idle;
mod proxy;
mod stats;
mod wrapper;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use incumbent_server::Server;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use stats::{Bound, Row};

/// Measures incumbent.
#[derive(Parser, Debug)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// How fast the lead moves, planned and unplanned, and what an idle follower sends.
    Handover(Handover),
    /// Whether two programs of one lock ever live at one instant, whatever is stopped, killed or lost.
    Chaos(chaos::Settings),
}

#[derive(clap::Args, Debug)]
struct Handover {
    /// Measure on the server of this kubeconfig instead of an embedded one on disk.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The `incumbent` program, for the rows that need processes; without it they are left out.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Planned handovers.
    #[arg(long, default_value_t = 1000)]
    rounds: usize,
    /// Rounds in which a wrapper is killed, seven seconds each.
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// Seconds for which an idle follower is watched.
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// Write the rows as JSON to this file, too.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let what = Arguments::parse().what;
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("INCUMBENT_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(async {
            match &what {
                What::Handover(settings) => handover(settings).await,
                What::Chaos(settings) => chaos::run(settings).await,
            }
        }),
        Err(e) => Err(e.into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

async fn handover(settings: &Handover) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir()?;
    let mut server = None;
    let kubeconfig = match &settings.kubeconfig {
        Some(path) => path.clone(),
        None => {
            let path = folder.path().join("kubeconfig");
            let listen = ([127, 0, 0, 1], 0).into();
            let builder = Server::builder().data_dir(folder.path().join("data")).listen(listen);
            server =
                Some(builder.write_kubeconfig(&path).start().await.context("the server does not start")?);
            path
        }
    };
    let read = Kubeconfig::read_from(&kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    let embedded = server.is_some();
    let rows = measure(settings, &config, &kubeconfig, embedded).await?;
    println!("{}", machine());
    stats::print(&rows);
    if settings.idle > 0 {
        let sent = idle::requests(&config, Duration::from_secs(settings.idle)).await?;
        println!("idle follower, {} s: requests sent: {sent:?}", settings.idle);
    }
    if let Some(path) = &settings.json {
        std::fs::write(path, serde_json::to_vec_pretty(&rows)?)?;
    }
    if let Some(server) = server {
        server.shutdown().await;
    }
    Ok(rows.iter().all(|r| r.holds))
}

async fn measure(
    settings: &Handover,
    config: &Config,
    kubeconfig: &std::path::Path,
    embedded: bool,
) -> anyhow::Result<Vec<Row>> {
    let (place, p50, p99) =
        if embedded { ("embedded server", 10.0, 50.0) } else { ("kube-apiserver and etcd", 40.0, 150.0) };
    let name = format!("last task ended → successor's term started, {place}");
    let bound = Bound { p50: Some(p50), p99: Some(p99), max: None };
    let mut rows = vec![handover::planned(config, &name, settings.rounds, bound).await?];
    let bound = Bound { p99: Some(300.0), ..Bound::default() };
    let name = "better candidate's process begins → it leads";
    rows.push(handover::better(config, name, settings.rounds.min(200), bound).await?);
    if let Some(program) = &settings.program {
        let site = wrapper::Site { program, kubeconfig, config };
        let bound = Bound { p99: Some(150.0), ..Bound::default() };
        rows.push(wrapper::child_dies(&site, settings.rounds.min(100), bound).await?);
        // P·(1+ρ) + 0.5 s, in the fast profile.
        let bound = Bound { max: Some(6530.0), ..Bound::default() };
        rows.push(wrapper::wrapper_killed(&site, settings.kills, bound).await?);
    }
    Ok(rows)
}

/// What was measured on.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ")).map(|(_, m)| m.to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("machine: {cores} cores, {}", model.unwrap_or_else(|| "unknown processor".to_owned()))
}
