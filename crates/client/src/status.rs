//! What an elector tells of itself.

use std::time::Duration;

use incumbent_core::rank::{self, Choice, Contender, Ranked};
use incumbent_core::{Elector, Instant, LockName, Now, Record, WallTime, candidate, marks, name_of};
use serde::Serialize;

/// A picture of an election as one process sees it. Field names are stable; new ones may be added.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Status {
    /// `namespace/name` of the Lease.
    pub lock: String,
    /// This process.
    pub identity: String,
    /// What it is doing: `starting`, `follower`, `waiting`, `leading`, `stopping`, `finished`.
    pub role: &'static str,
    /// Who holds the lock; `None`: nobody.
    pub holder: Option<String>,
    /// The holder has not renewed in time: it is dead, or will notice that it no longer leads.
    pub expired: bool,
    /// Until others may take the lock, if it is not renewed, in milliseconds.
    pub expires_in_ms: Option<u64>,
    /// When the holder became it, by its own clock.
    pub since: Option<String>,
    /// How often the lock has changed hands.
    pub transitions: Option<i32>,
    /// The term of this process, if it has one.
    pub term: Option<u64>,
    /// The token of that term.
    pub token: Option<u64>,
    /// By what the leader is chosen.
    pub strategy: String,
    /// Who will be handed the lock.
    pub successor: Option<String>,
    /// All candidates, best first.
    pub candidates: Vec<CandidateStatus>,
    /// The lock is polled, because it may not be watched.
    pub polling: bool,
    /// This process cannot announce itself: the election is a plain one for it.
    pub plain: bool,
    /// What went wrong last; `None` once a request succeeded.
    pub last_error: Option<String>,
}

/// One candidate and its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CandidateStatus {
    /// The whole identity.
    pub identity: String,
    /// The part for people.
    pub name: String,
    /// From 1.
    pub rank: usize,
    /// Whether it may lead.
    pub eligible: bool,
    /// What decided against the place before.
    pub reason: String,
    /// The version of its binary.
    pub binary_version: Option<String>,
    /// The version whose behaviour it shows.
    pub emulation_version: Option<String>,
    /// Its priority.
    pub priority: u32,
    /// Whether it has done its warm-up.
    pub warm: bool,
}

impl Status {
    /// The state of the lock as `elector` knows it.
    pub(crate) fn of(elector: &Elector, lock: &str, now: Now) -> Status {
        let (choice, ranking) = elector.ranking(now);
        let expires = elector.expires();
        Status {
            identity: elector.config().identity.to_string(),
            role: elector.role(now.mono).as_str(),
            expired: expires.is_some_and(|at| now.mono >= at),
            expires_in_ms: expires.map(|at| millis(at, now.mono)),
            polling: elector.is_polling(),
            plain: elector.is_plain(),
            last_error: elector.last_failure().map(str::to_owned),
            ..Status::of_record(lock, elector.lock(), &choice, &ranking)
        }
    }

    /// The state of a lock as a record alone tells it, for programs that only look. Whether it has expired, and
    /// when it will, is held against the wall clock `now`: an estimate, as the holder's clock may differ. The
    /// role is `observer`.
    pub fn of_lock(lock: &LockName, record: Option<&Record>, now: WallTime) -> Status {
        let contenders: Vec<Contender> = record
            .into_iter()
            .flat_map(candidate::on_lock)
            .map(|(_, candidate)| Contender { candidate, observed: None })
            .collect();
        let choice = rank::choose_strategy(record, &contenders, now);
        let ranking = rank::rank(&contenders, record.and_then(Record::holder), &choice, now);
        let left = record.filter(|r| r.holder().is_some()).and_then(|r| {
            let end = r.renew_time?.plus(r.duration()?);
            Some(end.as_micros().saturating_sub(now.as_micros()) / 1000)
        });
        Status {
            role: "observer",
            expired: left.is_some_and(|ms| ms <= 0),
            expires_in_ms: left.map(|ms| u64::try_from(ms).unwrap_or(0)),
            ..Status::of_record(&lock.to_string(), record, &choice, &ranking)
        }
    }

    fn of_record(lock: &str, record: Option<&Record>, choice: &Choice, ranking: &[Ranked]) -> Status {
        let held = record.filter(|r| r.holder().is_some());
        Status {
            lock: lock.to_owned(),
            holder: held.and_then(Record::holder).map(str::to_owned),
            since: held.and_then(|r| r.acquire_time).map(|t| t.to_string()),
            transitions: record.and_then(|r| r.transitions),
            strategy: choice.describe(),
            successor: record.and_then(marks::designated).map(str::to_owned),
            candidates: ranking.iter().enumerate().map(|(i, r)| CandidateStatus::new(i + 1, r)).collect(),
            ..Status::default()
        }
    }
}

fn millis(at: Instant, now: Instant) -> u64 {
    u64::try_from(at.since(now).as_millis()).unwrap_or(u64::MAX)
}

impl CandidateStatus {
    fn new(rank: usize, ranked: &Ranked) -> CandidateStatus {
        let c = &ranked.candidate;
        CandidateStatus {
            identity: c.identity.clone(),
            name: name_of(&c.identity).to_owned(),
            rank,
            eligible: ranked.eligible,
            reason: ranked.reason.as_str().to_owned(),
            binary_version: c.versions.as_ref().map(|v| v.binary().to_string()),
            emulation_version: c.versions.as_ref().map(|v| v.emulation().to_string()),
            priority: c.priority,
            warm: c.warm,
        }
    }
}

/// Whether an elector does its work. Computed by the clock when asked for, not by the task that may be stuck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Health {
    /// The task that drives the election runs. If not, the process should be restarted.
    pub live: bool,
    /// The election goes on: the server was heard recently. A follower that is cut off is live all the same.
    pub election: bool,
    /// How long nothing was heard of the server.
    #[serde(skip)]
    pub silence: Duration,
    /// What is wrong, in words.
    pub reason: Option<String>,
}
