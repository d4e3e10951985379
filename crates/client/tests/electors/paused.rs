//! The order of things, and what requests that fail do to it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use incumbent::core::Refusal;
use incumbent::{Elector, Handle, StopReason, Term};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::fake::{FakeApi, FakeLock, PausedClock, Weather};

/// What happened, in order, over all electors of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Member {
    api: Arc<FakeApi>,
    handle: Handle,
    run: JoinHandle<()>,
}

impl Member {
    async fn leads(&self) {
        let mut status = self.handle.status();
        status.wait_for(|s| s.role == "leading").await.unwrap();
    }

    async fn follows(&self) {
        let mut status = self.handle.status();
        status.wait_for(|s| s.role == "follower").await.unwrap();
    }

    /// Waits until no work of its lives. The lock may still be in its name.
    async fn works_no_longer(&self) {
        let mut status = self.handle.status();
        status.wait_for(|s| !matches!(s.role, "leading" | "stopping")).await.unwrap();
    }

    async fn stop(self) {
        self.handle.shutdown();
        self.run.await.unwrap();
    }
}

fn elector(lock: &FakeLock, name: &str) -> (Arc<FakeApi>, Elector) {
    let api = lock.client();
    let elector = Elector::from_api(Arc::clone(&api) as _, "default/lock")
        .identity(name)
        .clock(Arc::new(PausedClock::new()))
        .build()
        .unwrap();
    (api, elector)
}

/// An elector whose work takes `end` to end, and logs.
fn member(lock: &FakeLock, name: &'static str, log: &Log, end: Duration) -> Member {
    let (api, elector) = elector(lock, name);
    let handle = elector.handle();
    let log = log.clone();
    let run = tokio::spawn(elector.run(move |term: Term| {
        let log = log.clone();
        async move {
            log.add(format!("{name} starts"));
            term.cancelled().await;
            sleep(end).await;
            log.add(format!("{name} ends"));
            Ok::<(), std::io::Error>(())
        }
    }));
    Member { api, handle, run }
}

const NOTHING: Duration = Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn b02_the_lock_moves_only_after_the_work_has_ended() {
    let (lock, log) = (FakeLock::new(), Log::default());
    // Longer than the lease: renewals go on.
    let a = member(&lock, "a", &log, Duration::from_secs(40));
    a.leads().await;
    let b = member(&lock, "b", &log, NOTHING);
    b.follows().await;
    let released = log.clone();
    let own = a.handle.identity().to_string();
    a.api.on_write(move |record| {
        if record.holder() != Some(own.as_str()) {
            released.add("a gives the lock up");
        }
    });
    a.stop().await;
    b.leads().await;
    assert_eq!(log.lines(), ["a starts", "a ends", "a gives the lock up", "b starts"]);
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b03_nobody_is_told_that_it_leads_once_the_lock_is_given_up() {
    let (lock, log) = (FakeLock::new(), Log::default());
    let a = member(&lock, "a", &log, NOTHING);
    a.leads().await;
    assert!(a.handle.is_leader());
    let (checked, handle) = (Arc::new(AtomicBool::new(false)), a.handle.clone());
    let seen = Arc::clone(&checked);
    a.api.on_write(move |record| {
        if record.holder().is_none() {
            assert!(!handle.is_leader());
            seen.store(true, Ordering::SeqCst);
        }
    });
    // The release is answered late; nothing changes meanwhile.
    a.api.set(Weather::Late(Duration::from_secs(1)));
    let handle = a.handle.clone();
    a.stop().await;
    assert!(!handle.is_leader());
    assert!(checked.load(Ordering::SeqCst), "the lock was released");
    assert_eq!(lock.record().unwrap().holder(), None);
}

#[tokio::test(start_paused = true)]
async fn b26_every_replica_loses_the_server_and_somebody_leads_again() {
    let (lock, log) = (FakeLock::new(), Log::default());
    let a = member(&lock, "a", &log, NOTHING);
    a.leads().await;
    let b = member(&lock, "b", &log, NOTHING);
    b.follows().await;
    for m in [&a, &b] {
        m.api.set(Weather::Silent);
    }
    a.works_no_longer().await;
    sleep(Duration::from_secs(600)).await;
    assert!(!a.handle.is_leader() && !b.handle.is_leader());
    assert!(!a.handle.health().election, "cut off for ten minutes: {:?}", a.handle.health());
    assert!(a.handle.health().live);
    for m in [&a, &b] {
        m.api.set(Weather::Fine);
    }
    sleep(Duration::from_secs(20)).await;
    assert!(a.handle.is_leader() != b.handle.is_leader(), "exactly one leads");
    assert!(a.handle.health().election && b.handle.health().election);
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b28_work_that_fails_or_panics_gives_the_lock_to_another() {
    for panics in [false, true] {
        let lock = FakeLock::new();
        let log = Log::default();
        let (_api, failing) = elector(&lock, "a");
        let handle = failing.handle();
        let terms = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&terms);
        let run = tokio::spawn(failing.run(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                sleep(Duration::from_secs(3)).await;
                assert!(!panics, "as it is meant to");
                Err("as it is meant to")
            }
        }));
        let mut status = handle.status();
        status.wait_for(|s| s.role == "leading").await.unwrap();
        let b = member(&lock, "b", &log, NOTHING);
        b.leads().await;
        sleep(Duration::from_secs(60)).await;
        assert!(b.handle.is_leader() && terms.load(Ordering::SeqCst) == 1);
        handle.shutdown();
        run.await.unwrap();
        b.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_ends_the_term() {
    let lock = FakeLock::new();
    let (_api, elector) = elector(&lock, "a");
    let handle = elector.handle();
    let (reasons, seen) = tokio::sync::mpsc::unbounded_channel();
    let run = tokio::spawn(elector.run(move |term: Term| {
        let reasons = reasons.clone();
        async move {
            if term.number() == 1 {
                term.spawn(async { panic!("as it is meant to") });
            }
            term.cancelled().await;
            reasons.send(term.reason()).unwrap();
            Ok::<(), std::io::Error>(())
        }
    }));
    let mut seen = seen;
    assert_eq!(seen.recv().await, Some(Some(StopReason::WorkEnded)));
    // And leads again.
    let mut status = handle.status();
    status.wait_for(|s| s.term == Some(2)).await.unwrap();
    handle.shutdown();
    assert_eq!(seen.recv().await, Some(Some(StopReason::Shutdown)));
    run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn b51_tasks_and_hooks_end_before_the_lock_is_given_up_in_reverse_order() {
    let lock = FakeLock::new();
    let (api, elector) = elector(&lock, "a");
    let handle = elector.handle();
    let log = Log::default();
    let work = log.clone();
    let run = tokio::spawn(elector.run(move |term: Term| {
        let log = work.clone();
        async move {
            for name in ["first hook", "second hook"] {
                let log = log.clone();
                term.on_stop(move || async move { log.add(name) });
            }
            let (task, cancelled) = (log.clone(), term.cancellation_token());
            term.spawn(async move {
                cancelled.cancelled().await;
                sleep(Duration::from_secs(5)).await;
                task.add("task ends");
            });
            term.cancelled().await;
            log.add("closure ends");
            Ok::<(), std::io::Error>(())
        }
    }));
    let mut status = handle.status();
    status.wait_for(|s| s.role == "leading").await.unwrap();
    let released = log.clone();
    api.on_write(move |r| {
        if r.holder().is_none() {
            released.add("released");
        }
    });
    handle.shutdown();
    run.await.unwrap();
    assert_eq!(log.lines(), ["closure ends", "task ends", "second hook", "first hook", "released"]);
}

#[tokio::test(start_paused = true)]
async fn b61_one_request_that_hangs_costs_nothing() {
    let (lock, log) = (FakeLock::new(), Log::default());
    let a = member(&lock, "a", &log, NOTHING);
    a.leads().await;
    a.api.next([Weather::Silent]);
    sleep(Duration::from_secs(30)).await;
    assert!(a.handle.is_leader());
    assert_eq!(log.lines(), ["a starts"]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b67_each_kind_of_failure_is_ridden_out_once_and_ends_the_term_at_the_deadline() {
    for weather in [
        Weather::Failing,
        Weather::Silent,
        Weather::Refusing(Refusal::NotSent),
        Weather::Refusing(Refusal::Throttled),
        Weather::Refusing(Refusal::Unauthorized),
        Weather::Refusing(Refusal::Forbidden),
        Weather::Refusing(Refusal::Invalid),
    ] {
        let (lock, log) = (FakeLock::new(), Log::default());
        let a = member(&lock, "a", &log, NOTHING);
        a.leads().await;
        a.api.next([weather]);
        sleep(Duration::from_secs(20)).await;
        assert!(a.handle.is_leader(), "{weather:?} once");
        assert_eq!(log.lines(), ["a starts"], "{weather:?} once");
        a.api.set(weather);
        let start = tokio::time::Instant::now();
        a.works_no_longer().await;
        let after = start.elapsed();
        assert!(after <= Duration::from_millis(10_001), "{weather:?}: {after:?}");
        assert!(after >= Duration::from_secs(7), "{weather:?}: {after:?}");
        a.api.set(Weather::Fine);
        let mut status = a.handle.status();
        status.wait_for(|s| s.term == Some(2)).await.unwrap();
        a.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn b52_who_never_led_neither_starts_nor_stops() {
    let (lock, log) = (FakeLock::new(), Log::default());
    let a = member(&lock, "a", &log, NOTHING);
    a.leads().await;
    let b = member(&lock, "b", &log, NOTHING);
    b.follows().await;
    b.stop().await;
    assert_eq!(log.lines(), ["a starts"]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b07_a_stolen_lock_ends_the_term_exactly_once() {
    let (lock, log) = (FakeLock::new(), Log::default());
    let a = member(&lock, "a", &log, NOTHING);
    a.leads().await;
    lock.edit(|record| record.holder = Some("thief".into()));
    lock.edit(|record| record.transitions = Some(9));
    a.follows().await;
    assert_eq!(log.lines(), ["a starts", "a ends"]);
    a.handle.step_down();
    a.handle.step_down();
    let writes = a.api.writes();
    let api = Arc::clone(&a.api);
    a.stop().await;
    assert_eq!(lock.record().unwrap().holder(), Some("thief"));
    assert_eq!(api.writes(), writes, "it gives nothing up that is not its own");
    assert_eq!(log.lines(), ["a starts", "a ends"]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_ends_its_tasks_and_its_lead() {
    let lock = FakeLock::new();
    let (_api, elector) = elector(&lock, "a");
    let handle = elector.handle();
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let run = tokio::spawn(elector.run(move |term: Term| {
        let held = Arc::clone(&held);
        async move {
            let task = Arc::clone(&held);
            term.spawn(async move {
                let _task = task;
                std::future::pending::<()>().await;
            });
            std::future::pending::<Result<(), std::io::Error>>().await
        }
    }));
    let mut status = handle.status();
    status.wait_for(|s| s.role == "leading").await.unwrap();
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    assert!(!handle.is_leader());
    assert!(!handle.health().live);
    while Arc::strong_count(&alive) > 1 {
        tokio::task::yield_now().await;
    }
}
