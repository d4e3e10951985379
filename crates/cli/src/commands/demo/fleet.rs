//! The processes of a demonstration: the server, if it has one of its own, and the replicas.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use incumbent::core::{candidate, name_of};
use incumbent::{KubeLease, LockName};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::DemoArgs;
use super::journal::{Journal, Term};
use crate::args::Connection;
use crate::commands::status;
use crate::connect::connect;
use crate::failure::Failure;
use crate::supervise::BootTime;

/// How long the led program takes to end its work.
const WORK_ENDS_IN_MS: &str = "300";

struct Replica {
    version: String,
    process: Child,
}

/// All processes. Dropped, they are killed, and what they led ends with them.
pub(super) struct Fleet {
    folder: TempDir,
    server: Option<Child>,
    connection: Connection,
    lock: LockName,
    api: KubeLease,
    place: String,
    replicas: BTreeMap<String, Replica>,
    journal: Journal,
    killed: Vec<(u32, BootTime)>,
    /// What was seen last: who stands for election, and the last term that has begun.
    standing: Vec<String>,
    last: Option<Term>,
}

impl Fleet {
    pub(super) async fn begin(args: &DemoArgs) -> Result<Fleet, Failure> {
        let folder = tempfile::Builder::new().prefix("incumbent-demo-").tempdir().map_err(Failure::failed)?;
        let mut connection = args.connection.clone();
        let mut server = None;
        if !args.cluster {
            let kubeconfig = folder.path().join("kubeconfig");
            server = Some(start_server(&folder, &kubeconfig).await?);
            connection.kubeconfig = Some(kubeconfig);
        }
        let found = connect(&connection).await?;
        let place = found.config.cluster_url.to_string();
        let lock = LockName::new(&found.namespace, &format!("incumbent-demo-{}", std::process::id()))
            .map_err(Failure::usage)?;
        let api =
            KubeLease::new(found.config, lock.clone(), Duration::from_secs(5)).map_err(Failure::failed)?;
        let journal = Journal::new(&folder.path().join("journal"));
        Ok(Fleet {
            folder,
            server,
            connection,
            lock,
            api,
            place,
            replicas: BTreeMap::new(),
            journal,
            killed: Vec::new(),
            standing: Vec::new(),
            last: None,
        })
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Starts a replica of this version.
    pub(super) fn start(&mut self, name: &str, version: &str) -> Result<(), Failure> {
        let program = own_program()?;
        let mut command = Command::new(&program);
        command.args(["run", "--lock", &self.lock.to_string(), "--identity", name]);
        command.args(["--binary-version", version, "--strategy", "OldestEmulationVersion"]);
        command.args(["--profile", "fast", "--settle", "0s", "--log-format", "json"]);
        if let Some(path) = &self.connection.kubeconfig {
            command.arg("--kubeconfig").arg(path);
        }
        if let Some(context) = &self.connection.context {
            command.args(["--context", context]);
        }
        command.arg("--").arg(&program).arg("__demo-worker");
        command.arg(self.folder.path().join("journal")).args([version, WORK_ENDS_IN_MS]);
        let process = spawn(command, &self.log(name))?;
        self.replicas.insert(name.to_owned(), Replica { version: version.to_owned(), process });
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// Asks a replica to end, and waits until it has.
    pub(super) async fn stop(&mut self, name: &str) -> Result<(), Failure> {
        let Some(mut replica) = self.replicas.remove(name) else { return Ok(()) };
        signal(&replica.process, Signal::TERM)?;
        let status = tokio::time::timeout(super::LIMIT, replica.process.wait())
            .await
            .map_err(|_| Failure::failed(format!("replica {name} does not end")))?
            .map_err(Failure::failed)?;
        if !status.success() {
            return Err(Failure::failed(format!("replica {name} ended with {status} instead of 0")));
        }
        self.look().await
    }

    /// Kills a replica and what it leads, both at once.
    pub(super) fn kill(&mut self, name: &str) -> Result<(), Failure> {
        let Some(mut replica) = self.replicas.remove(name) else { return Ok(()) };
        let led = self.last.as_ref().filter(|t| name_of(&t.identity) == name);
        if let Some(term) = led {
            let pid = i32::try_from(term.pid).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // It may have ended by itself: then it is not there to be killed.
                let _ = kill_process(pid, Signal::KILL);
            }
            self.killed.push((term.pid, BootTime::now()));
        }
        replica.process.start_kill().map_err(Failure::failed)
    }

    /// Sees how things stand.
    pub(super) async fn look(&mut self) -> Result<(), Failure> {
        let record = status::read(&self.api, &self.lock).await?;
        let candidates = record.iter().flat_map(candidate::on_lock).map(|(_, c)| c.identity);
        self.standing = candidates.map(|id| name_of(&id).to_owned()).collect();
        self.last = self.journal.terms().pop();
        for (name, replica) in &mut self.replicas {
            if let Some(status) = replica.process.try_wait().map_err(Failure::failed)? {
                return Err(Failure::failed(format!("replica {name} ended by itself with {status}")));
            }
        }
        Ok(())
    }

    /// Whether a replica stands for election.
    pub(super) fn stands(&self, name: &str) -> bool {
        self.standing.iter().any(|n| n == name)
    }

    /// The replica whose program works now.
    pub(super) fn leader(&self) -> Option<String> {
        let term = self.last.as_ref()?;
        let name = name_of(&term.identity);
        let gone = term.asked || self.killed.iter().any(|(pid, _)| *pid == term.pid);
        (!gone && self.replicas.contains_key(name)).then(|| name.to_owned())
    }

    /// Whether somebody works, and nobody of an older version waits.
    pub(super) fn right_one_leads(&self) -> bool {
        let oldest = self.replicas.values().map(|r| r.version.as_str()).min();
        self.leader().is_some_and(|name| Some(self.version(&name)) == oldest.map(str::to_owned))
    }

    pub(super) fn version(&self, name: &str) -> String {
        self.replicas.get(name).map(|r| r.version.clone()).unwrap_or_default()
    }

    /// One line that says how things stand.
    pub(super) fn line(&self) -> String {
        let leader = self.leader();
        let one = |(name, r): (&String, &Replica)| {
            let does = if Some(name) == leader.as_ref() {
                "LEADS"
            } else if self.stands(name) {
                "follows"
            } else {
                "starts"
            };
            format!("{name} {} {does}", r.version)
        };
        self.replicas.iter().map(one).collect::<Vec<_>>().join("  |  ")
    }

    pub(super) fn terms(&self) -> Vec<Term> {
        self.journal.terms()
    }

    pub(super) fn killed(&self) -> Vec<(u32, BootTime)> {
        self.killed.clone()
    }

    /// What the processes logged.
    pub(super) fn logs(&self) -> String {
        ["server", "a", "b", "c"]
            .iter()
            .filter_map(|name| Some((name, fs::read_to_string(self.log(name)).ok()?)))
            .map(|(name, text)| text.lines().map(|l| format!("{name}: {l}\n")).collect::<String>())
            .collect()
    }

    /// Ends everything that still runs.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        for replica in self.replicas.values_mut() {
            // Killed here, it leaves a program that ends with it.
            replica.process.kill().await.map_err(Failure::failed)?;
        }
        match &mut self.server {
            Some(server) => {
                signal(server, Signal::TERM)?;
                if tokio::time::timeout(Duration::from_secs(10), server.wait()).await.is_err() {
                    server.kill().await.map_err(Failure::failed)?;
                }
            }
            None => {
                let (namespace, name) = (self.lock.namespace(), self.lock.name());
                let told =
                    format!("the lease stays on the cluster: kubectl delete lease -n {namespace} {name}");
                // Without a reader nobody is told.
                let _ = writeln!(std::io::stdout(), "{told}");
            }
        }
        Ok(())
    }
}

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| Failure::failed(format!("cannot find this program's own file: {e}")))
}

fn spawn(mut command: Command, log: &std::path::Path) -> Result<Child, Failure> {
    let open = || File::options().create(true).append(true).open(log);
    let out = open().map_err(Failure::failed)?;
    let err = open().map_err(Failure::failed)?;
    // A group of its own: Ctrl-C is for the demonstration, which ends its processes in order.
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).kill_on_drop(true);
    command.spawn().map_err(Failure::failed)
}

fn signal(process: &Child, signal: Signal) -> Result<(), Failure> {
    let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    match pid {
        // Not reaped yet, so the number is still its own.
        Some(pid) => kill_process(pid, signal).map_err(Failure::failed),
        None => Ok(()),
    }
}

async fn start_server(folder: &TempDir, kubeconfig: &std::path::Path) -> Result<Child, Failure> {
    let mut command = Command::new(own_program()?);
    command.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
    command.arg("--write-kubeconfig").arg(kubeconfig);
    let log = folder.path().join("server.log");
    let mut server = spawn(command, &log)?;
    let start = std::time::Instant::now();
    // Written, in one piece, once the server answers.
    while !kubeconfig.exists() {
        if let Some(status) = server.try_wait().map_err(Failure::failed)? {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(Failure::failed(format!("the server ended with {status}: {}", said.trim())));
        }
        if start.elapsed() > super::LIMIT {
            return Err(Failure::failed("the server did not start"));
        }
        tokio::time::sleep(super::LOOK).await;
    }
    Ok(server)
}
