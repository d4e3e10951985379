//! A server in a folder of its own, and programs that talk to it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Nothing here takes this long on a machine that is merely busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Waits until `condition` gives something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program under test, with nothing of the tester's own configuration.
pub(crate) fn incumbent() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_incumbent"));
    command.env_remove("KUBECONFIG").env_remove("INCUMBENT_LOG").env_remove("KUBERNETES_SERVICE_HOST");
    command.env("HOME", "/nonexistent").env_remove("XDG_DATA_HOME").stdin(Stdio::null());
    command
}

/// A process that is killed when the test is over, however it ends.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> Running {
        Running(Some(command.spawn().unwrap()))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.0.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits for its end, and says what it wrote if that is piped.
    pub(crate) fn output(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        until("a process to end", || child.try_wait().unwrap());
        child.wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    server: Option<Running>,
}

impl Site {
    pub(crate) fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let mut site = Site { folder, server: None };
        site.start("127.0.0.1:0");
        site
    }

    /// Starts the server, and waits until it serves.
    pub(crate) fn start(&mut self, listen: &str) {
        let kubeconfig = self.kubeconfig();
        let _ = std::fs::remove_file(&kubeconfig);
        let mut command = incumbent();
        command.args(["server", "--listen", listen, "--data-dir"]).arg(self.data_dir());
        command.arg("--write-kubeconfig").arg(&kubeconfig).stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(Running::spawn(&mut command));
        until("the server", || kubeconfig.exists().then_some(()));
    }

    pub(crate) fn server(&mut self) -> Running {
        self.server.take().unwrap()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// `incumbent run` on this server, quick and without waiting for better candidates to settle.
    pub(crate) fn run(&self, lock: &str, name: &str, version: &str) -> Command {
        let mut command = incumbent();
        command.args(["run", "--lock", lock, "--identity", name, "--profile", "fast", "--settle", "0s"]);
        command.args(["--binary-version", version, "--strategy", "OldestEmulationVersion"]);
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    /// As [`Site::run`], leading the worker that keeps the journal.
    pub(crate) fn worker(&self, lock: &str, name: &str, version: &str) -> Running {
        let mut command = self.run(lock, name, version);
        command.arg("--").arg(env!("CARGO_BIN_EXE_incumbent")).arg("__demo-worker").arg(self.journal());
        command.args([version, "100"]).stdout(Stdio::null()).stderr(Stdio::null());
        Running::spawn(&mut command)
    }

    /// What the workers wrote down: who, in which order, and whether any two met.
    pub(crate) fn starts(&self) -> Vec<(String, bool)> {
        let text = std::fs::read_to_string(self.journal()).unwrap_or_default();
        let started = |line: &str| {
            let entry: Value = serde_json::from_str(line).ok()?;
            let started = &entry["event"]["started"];
            let (name, _) = started["identity"].as_str()?.rsplit_once('_')?;
            Some((name.to_owned(), started["overlap"].as_bool()?))
        };
        text.lines().filter_map(started).collect()
    }

    pub(crate) fn status(&self, lock: &str) -> Value {
        let mut command = incumbent();
        command.args(["status", lock, "-o", "json", "--kubeconfig"]).arg(self.kubeconfig());
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    }

    /// Waits until this many candidates stand on a lock.
    pub(crate) fn announced(&self, lock: &str, n: usize) {
        until("the candidates", || {
            (self.status(lock)["candidates"].as_array().unwrap().len() >= n).then_some(())
        });
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
