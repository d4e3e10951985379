//! The real kube-scheduler, led: three replicas on one lock, upgraded and killed; never two at once.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::interop::fleet::{Fleet, tail};
use crate::interop::site::Site;
use crate::peers::{Program, ensure_built};

/// Takes a file lock, which the scheduler that it becomes holds for its whole life; who cannot take it has met
/// another one.
const SCRIPT: &str = r#"exec 9>>"$1/alive"
flock -n 9 || echo "$$" >>"$1/overlaps"
echo "$$" >>"$1/starts"
shift
exec "$@""#;

pub(super) fn run(site: &Site) -> anyhow::Result<String> {
    let scheduler = ensure_built(Program::Scheduler)?;
    let fleet = Fleet::new(site, "kube-system/led-scheduler")?;
    let folder = fleet.folder.clone();
    let words = command(&scheduler, &folder, &site.kubeconfig);
    let started = fleet.run(|fleet| {
        let replicas = ["a", "b", "c"];
        for name in replicas {
            fleet.start_leading(name, "1.36.0", &words)?;
        }
        fleet.announced()?;
        works(fleet, 1)?;
        for name in replicas {
            let before = starts(&folder).len();
            let led = holder_name(fleet)? == name;
            fleet.stop(name)?;
            fleet.start_leading(name, "1.37.0", &words)?;
            fleet.announced()?;
            works(fleet, before + usize::from(led))?;
        }
        // The newest of all, killed with its scheduler.
        let (before, victim) = (starts(&folder), holder_name(fleet)?);
        fleet.kill(&victim, *before.last().context("a scheduler has started")?)?;
        works(fleet, before.len() + 1)?;
        ensure!(holder_name(fleet)? != victim, "the dead one leads");
        Ok(starts(&folder).len())
    })?;
    let overlaps = fs::read_to_string(folder.join("overlaps")).unwrap_or_default();
    ensure!(overlaps.is_empty(), "two schedulers lived at one instant: processes {overlaps}");
    ensure!(!lives(&folder)?, "a scheduler outlived its replica");
    Ok(format!("{started} schedulers, one after the other"))
}

fn command(scheduler: &Path, folder: &Path, kubeconfig: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh", "-c", SCRIPT, "sh"].map(OsString::from).into();
    words.push(folder.into());
    words.push(scheduler.into());
    for name in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        words.push(format!("--{name}={}", kubeconfig.display()).into());
    }
    words.extend(["--leader-elect=false", "--secure-port=0"].map(OsString::from));
    words
}

/// Waits until the `nth` scheduler has started, and is the scheduler by now.
fn works(fleet: &Fleet<'_>, nth: usize) -> anyhow::Result<()> {
    fleet.until(&format!("scheduler number {nth}"), |f| {
        let starts = starts(&f.folder);
        let pid = starts.get(nth - 1).filter(|_| starts.len() == nth)?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        name.starts_with("kube-scheduler").then_some(())
    })?;
    ensure!(
        lives(&fleet.folder)?,
        "a scheduler lives without its lock, so that overlaps would not be seen:\n{}",
        tail(&fleet.log("a"))
    );
    Ok(())
}

/// The replica that holds the lock.
fn holder_name(fleet: &Fleet<'_>) -> anyhow::Result<String> {
    fleet.until_seen("a holder", |f| Some(f.holder()?.rsplit_once('_')?.0.to_owned()))
}

/// The processes of all schedulers so far.
fn starts(folder: &Path) -> Vec<i32> {
    let text = fs::read_to_string(folder.join("starts")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Whether a scheduler lives at this moment.
fn lives(folder: &Path) -> anyhow::Result<bool> {
    match File::open(folder.join("alive"))?.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(error)) => Err(error).context("cannot try the lock of the schedulers"),
    }
}
