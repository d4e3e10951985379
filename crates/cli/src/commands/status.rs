//! `incumbent status`: who leads, why, and who is next. Only reads.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use incumbent::core::{Outcome, Record, WallTime, WatchInput, name_of};
use incumbent::{Clock, KubeLease, LeaseApi, LockName, Status, list_leases};

use crate::args::Connection;
use crate::connect::connect;
use crate::failure::Failure;
use crate::output::{Format, Table, harmless, print, serialised};

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon a watch that broke is opened again.
const AGAIN: Duration = Duration::from_secs(1);

/// Show who leads, why, and who is next
///
/// Only reads. The time to expiry is an estimate that compares the holder's clock with this machine's.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  incumbent status                        every lease of the namespace\n  incumbent status backup                 one lock with its candidates\n  incumbent status jobs/mailer --watch    as it changes\n  incumbent status backup -o json"
)]
pub(crate) struct StatusArgs {
    /// The lock; all leases of the namespace if left out
    #[arg(value_name = "[NS/]LOCK")]
    lock: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// Go on, and show every change
    #[arg(short, long, requires = "lock")]
    watch: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Shows it.
pub(crate) fn execute(args: StatusArgs) -> Result<ExitCode, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
    runtime.block_on(show(args))
}

async fn show(args: StatusArgs) -> Result<ExitCode, Failure> {
    let found = connect(&args.connection).await?;
    let Some(name) = &args.lock else {
        let leases = list_leases(found.config, &found.namespace, PATIENCE).await.map_err(Failure::failed)?;
        print(&all(&leases, args.output)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let lock = LockName::parse(name, &found.namespace).map_err(Failure::usage)?;
    let api = KubeLease::new(found.config, lock.clone(), PATIENCE).map_err(Failure::failed)?;
    let record = read(&api, &lock).await?;
    print(&one(&lock, record.as_ref(), args.output)?)?;
    if args.watch {
        follow(&api, &lock, record, args.output).await?;
    } else if record.is_none() && args.output == Format::Table {
        return Err(Failure::failed(format!("there is no lease {lock}: nobody has stood for election yet")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the lock once.
pub(crate) async fn read(api: &KubeLease, lock: &LockName) -> Result<Option<Record>, Failure> {
    match tokio::time::timeout(PATIENCE, api.read()).await {
        Ok(Outcome::Ok(record)) => Ok(Some(record)),
        Ok(Outcome::NotFound) => Ok(None),
        Ok(Outcome::Conflict) => Err(Failure::failed(format!("lease {lock} cannot be read: conflict"))),
        Ok(Outcome::Refused { message, .. } | Outcome::Unknown { message, .. }) => {
            Err(Failure::failed(format!("lease {lock} cannot be read: {message}")))
        }
        Err(_) => Err(Failure::failed(format!("lease {lock} cannot be read: no answer within {PATIENCE:?}"))),
    }
}

/// Shows the lock whenever it changes, and on a terminal every second, until the process is ended.
async fn follow(
    api: &KubeLease,
    lock: &LockName,
    mut record: Option<Record>,
    format: Format,
) -> Result<(), Failure> {
    let live = std::io::stdout().is_terminal() && format == Format::Table;
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        let mut events = api.watch(record.as_ref().map(|r| r.revision));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                _ = tick.tick(), if live => {
                    draw(lock, record.as_ref(), format, live)?;
                    continue;
                }
            };
            match event {
                Some(WatchInput::Opened) => continue,
                Some(WatchInput::Changed(next)) => record = Some(next),
                Some(WatchInput::Deleted(_)) => record = None,
                Some(WatchInput::Refused(why)) => {
                    return Err(Failure::failed(format!("lease {lock} cannot be watched: {why}")));
                }
                Some(WatchInput::Broken) | None => break,
            }
            draw(lock, record.as_ref(), format, live)?;
        }
        tokio::time::sleep(AGAIN).await;
        let before = record.clone();
        match read(api, lock).await {
            Ok(now) => record = now,
            Err(e) => {
                e.tell();
                continue;
            }
        }
        if record != before {
            draw(lock, record.as_ref(), format, live)?;
        }
    }
}

fn draw(lock: &LockName, record: Option<&Record>, format: Format, live: bool) -> Result<(), Failure> {
    let text = one(lock, record, format)?;
    if live {
        // Home, and clear what is below.
        print(&format!("\x1b[H\x1b[J{text}"))
    } else {
        print(&text)
    }
}

fn wall() -> WallTime {
    incumbent::BootClock.now().wall
}

fn one(lock: &LockName, record: Option<&Record>, format: Format) -> Result<String, Failure> {
    let status = Status::of_lock(lock, record, wall());
    if format != Format::Table {
        return serialised(&status, format);
    }
    Ok(table(&status))
}

fn all(leases: &[(LockName, Record)], format: Format) -> Result<String, Failure> {
    let statuses: Vec<Status> =
        leases.iter().map(|(lock, r)| Status::of_lock(lock, Some(r), wall())).collect();
    if format != Format::Table {
        return serialised(&statuses, format);
    }
    if statuses.is_empty() {
        return Ok("no leases\n".to_owned());
    }
    let mut table =
        Table::new(&["LOCK", "HOLDER", "VERSION", "EXPIRES", "TRANSITIONS", "STRATEGY", "CANDIDATES"]);
    for s in &statuses {
        table.row(vec![
            s.lock.clone(),
            s.holder.as_deref().map_or("-", name_of).to_owned(),
            version(s),
            expires(s),
            s.transitions.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            s.strategy.clone(),
            s.candidates.len().to_string(),
        ]);
    }
    Ok(table.to_string())
}

fn version(s: &Status) -> String {
    let holder = s.candidates.iter().find(|c| Some(&c.identity) == s.holder.as_ref());
    holder.and_then(|c| c.binary_version.clone()).unwrap_or_else(|| "-".to_owned())
}

fn expires(s: &Status) -> String {
    match (s.expired, s.expires_in_ms) {
        (true, _) => "expired".to_owned(),
        (false, Some(ms)) => format!("in {}.{}s", ms / 1000, ms % 1000 / 100),
        (false, None) => "-".to_owned(),
    }
}

fn table(s: &Status) -> String {
    let dash = || "-".to_owned();
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {}", harmless(&value));
    };
    line("Lock", s.lock.clone());
    line("Holder", s.holder.clone().unwrap_or_else(|| "nobody".to_owned()));
    line("Version", version(s));
    line("Since", s.since.clone().unwrap_or_else(dash));
    line("Expires", expires(s));
    line("Transitions", s.transitions.map_or_else(dash, |n| n.to_string()));
    line("Strategy", s.strategy.clone());
    line("Successor", s.successor.clone().unwrap_or_else(dash));
    if s.candidates.is_empty() {
        return text;
    }
    let mut table = Table::new(&["RANK", "CANDIDATE", "BINARY", "EMULATION", "PRIORITY", "WARM", "REASON"]);
    for c in &s.candidates {
        let leads = if Some(&c.identity) == s.holder.as_ref() { " *" } else { "" };
        table.row(vec![
            format!("{}{leads}", c.rank),
            c.name.clone(),
            c.binary_version.clone().unwrap_or_else(dash),
            c.emulation_version.clone().unwrap_or_else(dash),
            c.priority.to_string(),
            if c.warm { "yes" } else { "no" }.to_owned(),
            c.reason.clone(),
        ]);
    }
    let _ = write!(text, "\n{table}");
    text
}
