//! What the led programs wrote down of their lives, each for itself, on the machine's own clock.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// The life of one led program. Times are those of the clock that [`now`] reads.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) pid: i32,
    /// The replica that led it.
    pub(super) name: String,
    pub(super) identity: String,
    pub(super) version: String,
    pub(super) started: Duration,
    /// When it was told to end.
    pub(super) asked: Option<Duration>,
    /// When its work had ended.
    pub(super) ended: Option<Duration>,
    token: u64,
    overlap: bool,
}

/// `CLOCK_BOOTTIME`, which every process of this machine shares.
pub(super) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// When the wall clock showed, or will show, this time, if nobody sets it.
pub(super) fn at_wall(since_epoch: Duration) -> Duration {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now() + since_epoch).saturating_sub(wall)
}

/// The same for a time stamp of a Lease.
pub(super) fn at_stamp(text: &str) -> Option<Duration> {
    let stamp: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(stamp.as_nanosecond()).ok().map(|nanos| at_wall(Duration::from_nanos(nanos)))
}

/// The lives in a journal, in the order of their beginnings.
pub(super) fn lives(journal: &Path) -> Vec<Life> {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let mut lives: Vec<Life> = Vec::new();
    // Signs of life are most of it, and tell nothing here; the last line may be half written.
    for line in text.lines().filter(|line| !line.ends_with(r#""alive"}"#)) {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let Some(pid) = entry["pid"].as_i64().and_then(|n| i32::try_from(n).ok()) else { continue };
        let at = Duration::from_nanos(entry["at"].as_u64().unwrap_or_default());
        let started = &entry["event"]["started"];
        if started.is_object() {
            let text = |field: &str| started[field].as_str().unwrap_or_default().to_owned();
            let identity = text("identity");
            lives.push(Life {
                pid,
                name: identity.rsplit_once('_').map_or(identity.as_str(), |(name, _)| name).to_owned(),
                identity,
                version: text("version"),
                started: at,
                asked: None,
                ended: None,
                token: started["token"].as_u64().unwrap_or_default(),
                overlap: started["overlap"] == Value::Bool(true),
            });
        } else if let Some(life) = lives.iter_mut().rev().find(|life| life.pid == pid) {
            match entry["event"].as_str() {
                Some("asked") => life.asked = Some(at),
                Some("ended") => life.ended = Some(at),
                _ => {}
            }
        }
    }
    lives
}

/// No two lives shared an instant, as the programs themselves found out; and tokens rise.
///
/// # Errors
/// Which two.
pub(super) fn exclusive(lives: &[Life]) -> anyhow::Result<()> {
    for life in lives {
        ensure!(!life.overlap, "{} started while another program lived: {lives:#?}", life.name);
        ensure!(life.token > 0, "{} got no fencing token", life.name);
    }
    for pair in lives.windows(2) {
        ensure!(pair[0].token < pair[1].token, "tokens do not rise: {lives:#?}");
        ensure!(
            pair[0].ended.is_none_or(|ended| ended <= pair[1].started),
            "work went on after the next one had started: {lives:#?}"
        );
    }
    Ok(())
}

/// The times without work between lives that follow each other; each but the last was told to end, and ended its work.
///
/// # Errors
/// Which one was cut off.
pub(super) fn graceful_gaps(lives: &[Life]) -> anyhow::Result<Vec<Duration>> {
    let gap = |pair: &[Life]| {
        let (from, to) = (&pair[0], &pair[1]);
        let ended = from.ended.with_context(|| format!("{} did not end its work", from.name))?;
        ensure!(from.asked.is_some(), "{} was not told to end", from.name);
        to.started.checked_sub(ended).with_context(|| format!("{} started too early", to.name))
    };
    lives.windows(2).map(gap).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{exclusive, graceful_gaps, lives};

    fn journal(lines: &[&str]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines.join("\n")).unwrap();
        file
    }

    fn started(pid: u32, at: u32, token: u32, overlap: bool) -> String {
        format!(
            r#"{{"pid":{pid},"at":{at},"event":{{"started":{{"identity":"n{pid}_0f","version":"1.0.0","token":{token},"overlap":{overlap}}}}}}}"#
        )
    }

    #[test]
    fn lives_and_gaps_are_read() {
        let (first, second) = (started(1, 10, 5, false), started(2, 35, 6, false));
        let lines = [
            &first,
            r#"{"pid":1,"at":15,"event":"alive"}"#,
            r#"{"pid":1,"at":20,"event":"asked"}"#,
            r#"{"pid":1,"at":30,"event":"ended"}"#,
            &second,
            r#"{"pid":2,"at"#,
        ];
        let lives = lives(journal(&lines).path());
        assert_eq!((lives.len(), lives[0].name.as_str()), (2, "n1"));
        exclusive(&lives).unwrap();
        assert_eq!(graceful_gaps(&lives).unwrap(), [Duration::from_nanos(5)]);
    }

    #[test]
    fn overlaps_old_tokens_and_cut_off_work_are_found() {
        let read = |lines: &[&str]| lives(journal(lines).path());
        assert!(exclusive(&read(&[&started(1, 10, 5, false), &started(2, 20, 6, true)])).is_err());
        assert!(exclusive(&read(&[&started(1, 10, 5, false), &started(2, 20, 5, false)])).is_err());
        let late = r#"{"pid":1,"at":30,"event":"ended"}"#;
        assert!(exclusive(&read(&[&started(1, 10, 5, false), &started(2, 20, 6, false), late])).is_err());
        assert!(graceful_gaps(&read(&[&started(1, 10, 5, false), &started(2, 20, 6, false)])).is_err());
    }

    #[test]
    fn the_wall_clock_is_brought_to_ours() {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let (at, now) = (super::at_wall(wall), super::now());
        assert!(at.abs_diff(now) < Duration::from_secs(60), "{at:?} {now:?}");
        let stamp = jiff::Timestamp::now().to_string();
        assert!(super::at_stamp(&stamp).unwrap().abs_diff(now) < Duration::from_secs(60), "{stamp}");
        assert_eq!(super::at_stamp("yesterday"), None);
    }
}
