//! The process that supervises: this test program, started again.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use incumbent_cli::supervise::{
    Asked, BootTime, Deadlines, GUARDIAN_ARGUMENT, Helper, Signals, Stop, Supervised, Supervisor,
};
use tokio::io::AsyncBufReadExt;

use crate::processes::{Folder, LIMIT, children, until};

const COMMAND: &str = "TALKER_COMMAND";

/// What the shell script of a test begins with: take the lock that says "something of me lives".
const PRELUDE: &str = "cd \"$FOLDER\" || exit 99; exec 9>>alive; flock -n -x 9 || exit 98\n";

/// A talker and its pipes. Dropping it kills it, and so everything.
pub(crate) struct Talker {
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    seen: VecDeque<String>,
}

impl Talker {
    /// Supervises a shell script whose working folder is `folder`.
    pub(crate) fn script(folder: &Folder, script: &str) -> Talker {
        Talker::command(folder, &["sh", "-c", &format!("{PRELUDE}{script}")])
    }

    pub(crate) fn command(folder: &Folder, words: &[&str]) -> Talker {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "talker::process", "--nocapture"])
            .env(COMMAND, serde_json::to_string(words).unwrap())
            .env("FOLDER", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The test harness of that process talks too.
                if let Some((_, line)) = line.split_once("@ ") {
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        let input = process.stdin.take();
        Talker { process, input, lines, seen: VecDeque::new() }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    /// The process id of the guardian.
    pub(crate) fn guardian(&self) -> i32 {
        until("a guardian", || {
            children(self.pid()).into_iter().find(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.contains(GUARDIAN_ARGUMENT))
            })
        })
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line that begins with `word`, without it.
    #[track_caller]
    pub(crate) fn hear(&mut self, word: &str) -> String {
        loop {
            let line = match self.seen.pop_front() {
                Some(line) => line,
                None => self.lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {word:?} was heard")),
            };
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Starts the script to run `soft` and `hard` milliseconds from now. Returns the hard deadline.
    #[track_caller]
    pub(crate) fn start(&mut self, soft: u64, hard: u64, grace: u64) -> Deadlines {
        let now = BootTime::now();
        let at = |ms| now + Duration::from_millis(ms);
        let deadlines = Deadlines { soft: at(soft), hard: at(hard) };
        self.say(&format!("start {} {} {grace}", deadlines.soft.as_nanos(), deadlines.hard.as_nanos()));
        deadlines
    }

    pub(crate) fn extend(&mut self, deadlines: Deadlines) {
        self.say(&format!("extend {} {}", deadlines.soft.as_nanos(), deadlines.hard.as_nanos()));
    }

    /// Lets go of the talker's standard input, and waits for its end.
    pub(crate) fn end(mut self) {
        self.input = None;
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test: what a [`Talker`] runs. It reads words from its standard input and reports on its output.
#[test]
fn process() {
    let Ok(words) = std::env::var(COMMAND) else { return };
    let mut words: VecDeque<OsString> =
        serde_json::from_str::<Vec<String>>(&words).unwrap().into_iter().map(OsString::from).collect();
    let command = words.pop_front().unwrap();
    let helper =
        Helper { program: env!("CARGO_BIN_EXE_incumbent").into(), args: vec![GUARDIAN_ARGUMENT.into()] };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let supervisor = Supervisor::new(command, words.into(), helper).unwrap();
        let second = Supervisor::new("true".into(), vec![], Helper::default());
        assert!(second.is_err(), "one supervisor per process");
        talk(supervisor).await;
    });
}

async fn talk(supervisor: Supervisor) {
    let mut signals = Signals::install().unwrap();
    let mut input = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let mut child: Option<Supervised> = None;
    loop {
        tokio::select! {
            line = input.next_line() => {
                let Some(line) = line.unwrap() else { break };
                obey(&supervisor, &mut child, &line).await;
            }
            asked = signals.next() => match (asked, &child) {
                (Asked::Stop, _) => println!("\n@ asked to stop"),
                (Asked::Forward(signal), Some(child)) => child.signal(signal),
                (Asked::Forward(_), None) => {}
            },
            exit = ended(child.as_ref()) => {
                println!("\n@ gone {:?} {:?}", exit.status, exit.cause);
                child = None;
            }
        }
    }
    drop(child);
    supervisor.close().await;
}

async fn ended(child: Option<&Supervised>) -> incumbent_cli::supervise::Exit {
    match child {
        Some(child) => child.exited().await,
        None => std::future::pending().await,
    }
}

async fn obey(supervisor: &Supervisor, child: &mut Option<Supervised>, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |i: usize| words[i].parse::<u64>().unwrap();
    let deadlines = |i: usize| Deadlines {
        soft: BootTime::from_nanos(number(i)),
        hard: BootTime::from_nanos(number(i + 1)),
    };
    match words[0] {
        "start" => {
            let grace = Duration::from_millis(number(3));
            let env = vec![("GREETING".to_owned(), "hello".to_owned())];
            match supervisor.start(env, grace, deadlines(1)).await {
                Ok(started) => {
                    println!("\n@ started {}", started.pid());
                    *child = Some(started);
                }
                Err(e) => println!("\n@ refused {} {e}", e.exit_code()),
            }
        }
        "extend" => child.as_ref().unwrap().extend(deadlines(1)),
        "planned" => {
            let drain = Duration::from_millis(number(1));
            child.as_ref().unwrap().stop(Stop::Planned { drain });
        }
        "loss" => child.as_ref().unwrap().stop(Stop::Loss),
        "drop" => *child = None,
        "cycles" => {
            for _ in 0..number(1) {
                let hard = BootTime::now() + Duration::from_secs(60);
                let deadlines = Deadlines { soft: hard, hard };
                let started = supervisor.start(vec![], Duration::ZERO, deadlines).await.unwrap();
                started.exited().await;
            }
            println!("\n@ cycled");
        }
        other => panic!("what is {other:?}?"),
    }
}
