//! Electors on a lock that answers at once: the order of things, one scenario at a time. What happens under
//! delay, loss and pauses is the simulator's subject.

#![allow(clippy::unwrap_used)] // a test that cannot go on should say where
mod world;

use std::time::Duration;

use incumbent_core::{Readiness, Report, Request, Role, StopReason, WorkEnd, marks};
use world::{Work, World};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn the_first_creates_the_lock_and_leads_at_once() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(ms(100));
    assert!(w.leads(a));
    assert_eq!(w.terms(a), 1);
    let lock = w.lock();
    assert_eq!(lock.holder(), Some(w.identity(a).as_str()));
    assert_eq!(lock.duration_seconds, Some(15));
    assert_eq!(lock.transitions, Some(0));
    assert_eq!(marks::holder(lock).map(|h| h.0.to_owned()), Some(w.identity(a)));
}

#[test]
fn a_follower_stays_one_and_announces_itself() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(600));
    assert!(w.leads(a) && !w.leads(b));
    assert_eq!(w.role(b), Role::Follower);
    assert_eq!((w.terms(a), w.terms(b)), (1, 0));
    assert_eq!(w.candidates().len(), 2);
}

#[test]
fn an_idle_follower_sends_nothing_but_its_beat() {
    let mut w = World::new();
    w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    let before = w.requests(b);
    w.run(secs(600));
    let sent = w.requests(b) - before;
    assert!((2..=3).contains(&sent), "{sent} requests in ten minutes");
}

#[test]
fn a_better_candidate_is_handed_the_lock_after_the_work_has_ended() {
    let mut w = World::new();
    let a = w.join("a", "1.1.0");
    w.run(secs(1));
    w.work(a, Work::EndsAfter(secs(40)));
    let b = w.join("b", "1.0.0");
    w.run(secs(30));
    assert!(!w.leads(a) && !w.leads(b), "drains: {:?} {:?}", w.role(a), w.role(b));
    assert_eq!(w.lock().holder(), Some(w.identity(a).as_str()), "renewals go on while work ends");
    w.run(secs(15));
    assert!(w.leads(b));
    assert_eq!(w.stops(a), [StopReason::Transfer]);
    assert_eq!(w.lock().transitions, Some(1));
    assert_eq!(w.lock().duration_seconds, Some(15), "the successor publishes its own duration");
    assert!(w.token(b) > w.token(a));
    w.run(secs(120));
    assert!(w.leads(b), "and keeps it");
}

#[test]
fn the_newest_version_waits_for_settle() {
    let mut w = World::new();
    let a = w.join_with("a", "1.0.0", "newest-version");
    w.run(secs(1));
    let b = w.join_with("b", "1.1.0", "newest-version");
    w.run(secs(4));
    assert!(w.leads(a));
    w.run(secs(2));
    assert!(w.leads(b));
}

#[test]
fn a_shutdown_drains_and_hands_over_to_whoever_answers() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    let c = w.join("c", "1.0.0");
    w.run(secs(5));
    w.work(a, Work::EndsAfter(secs(1)));
    w.request(a, Request::Shutdown);
    w.run(ms(1100));
    assert!(w.finished(a));
    assert!(w.leads(b), "the older candidate");
    assert!(!w.leads(c));
    assert_eq!(w.candidates().len(), 2, "its candidate record is gone");
}

#[test]
fn b44_a_release_is_taken_up_at_once() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    w.request(a, Request::Shutdown);
    w.run(ms(50));
    assert!(w.finished(a) && w.leads(b));
}

#[test]
fn b13_a_follower_that_shuts_down_starts_nothing() {
    let mut w = World::new();
    w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    w.request(b, Request::Shutdown);
    w.run(ms(50));
    assert!(w.finished(b));
    assert_eq!(w.terms(b), 0);
    assert_eq!(w.candidates().len(), 1);
}

#[test]
fn b28_failed_work_releases_and_lets_others_go_first() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    w.end_work(a, WorkEnd::Failed);
    w.run(ms(50));
    assert!(w.leads(b) && !w.leads(a));
    assert_eq!(w.stops(a), [StopReason::WorkEnded]);
    // Alone, it tries again after two retry periods.
    w.crash(b);
    w.run(secs(20));
    assert!(w.leads(a));
    w.end_work(a, WorkEnd::Failed);
    w.run(ms(3900));
    assert!(!w.leads(a));
    assert!(w.candidates().iter().any(|c| c.readiness == Readiness::Backoff));
    w.run(ms(200));
    assert!(w.leads(a));
}

#[test]
fn b30_only_time_decides_about_a_dead_holder() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    w.crash(a);
    w.run(secs(12));
    assert!(!w.leads(b));
    w.run(secs(4));
    assert!(w.leads(b));
    assert_eq!(w.lock().transitions, Some(1));
}

#[test]
fn a_dead_holder_is_waited_for_only_once() {
    let mut w = World::new();
    let members: Vec<usize> = ["a", "b", "c", "d"].map(|name| w.join(name, "1.0.0")).into();
    w.run(secs(5));
    // One after the other dies while it leads; their records stay, older than those of the living.
    for dead in &members[..3] {
        let leader = *members.iter().find(|m| w.leads(**m)).unwrap();
        assert_eq!(leader, *dead, "the oldest of the living");
        let renewed = w.lock().renew_time.unwrap();
        w.crash(leader);
        w.run(Duration::from_millis(15_075));
        let next = members.iter().find(|m| w.leads(**m));
        assert!(next.is_some(), "nobody leads after {dead}; last renewed {renewed}");
        w.run(secs(3));
    }
}

#[test]
fn b01_a_late_release_leaves_a_new_holders_record_alone() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    w.cut(a, true);
    w.work(a, Work::EndsAfter(ms(10)));
    w.run(secs(20));
    assert!(w.leads(b) && !w.leads(a));
    assert_eq!(w.stops(a), [StopReason::RenewDeadline]);
    let held = w.lock().clone();
    w.request(a, Request::Shutdown);
    w.cut(a, false);
    w.run(ms(20));
    assert_eq!(w.lock().holder(), held.holder());
    assert_eq!(w.lock().transitions, held.transitions);
    w.run(secs(20));
    assert!(w.leads(b) && w.finished(a));
}

#[test]
fn a_deleted_lock_is_created_again_by_its_holder() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    let token = w.token(a);
    w.delete_lock();
    w.run(ms(100));
    assert!(w.leads(a) && !w.leads(b));
    assert_eq!((w.terms(a), w.token(a)), (1, token), "it keeps its term");
    assert_eq!(w.lock().holder(), Some(w.identity(a).as_str()));
    w.run(secs(60));
    assert!(w.leads(a) && w.terms(b) == 0);
}

#[test]
fn b04_a_stolen_lock_ends_the_term_and_is_waited_out() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    w.edit(|lock| lock.holder = Some("stranger".into()));
    w.run(ms(50));
    assert!(!w.leads(a));
    assert_eq!(w.stops(a), [StopReason::Superseded]);
    w.run(secs(14));
    assert!(!w.leads(a));
    w.run(secs(3));
    assert!(w.leads(a), "the stranger never renewed");
}

#[test]
fn b08_a_renewal_that_it_did_not_send_is_reported() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(30));
    assert!(!w.reported(a, &Report::DuplicateIdentity));
    w.edit(|lock| lock.renew_time = lock.renew_time.map(|t| t.plus(secs(1))));
    w.run(ms(50));
    assert!(w.reported(a, &Report::DuplicateIdentity));
    assert!(w.leads(a), "whoever wrote it, the lock is in its name");
}

#[test]
fn who_is_appointed_by_a_stranger_waits_until_old_work_must_be_over() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    w.crash(a);
    let name = w.identity(b);
    w.edit(|lock| lock.holder = Some(name));
    w.run(secs(10));
    assert_eq!(w.role(b), Role::Waiting);
    assert_eq!(w.lock().holder(), Some(w.identity(b).as_str()));
    w.run(secs(7));
    assert!(w.leads(b));
}

#[test]
fn without_the_right_to_patch_or_watch_it_polls_and_updates() {
    let mut w = World::new();
    w.allow_patch(false);
    w.allow_watch(false);
    let a = w.join("a", "1.1.0");
    w.run(secs(1));
    let b = w.join("b", "1.0.0");
    w.run(secs(30));
    assert_eq!(w.candidates().len(), 2);
    assert!(w.leads(b), "the older emulation version: {:?} {:?}", w.role(a), w.role(b));
}

#[test]
fn yield_hands_over_to_another_and_stays_a_candidate() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    w.request(a, Request::Yield);
    w.run(secs(1));
    assert!(w.leads(a), "nobody else is there");
    let b = w.join("b", "1.0.0");
    w.run(secs(5));
    w.request(a, Request::Yield);
    w.run(ms(50));
    assert!(w.leads(b));
    w.crash(b);
    w.run(secs(20));
    assert!(w.leads(a));
    assert_eq!(w.terms(a), 2);
}

#[test]
fn a_clock_that_jumps_ends_the_term() {
    let mut w = World::new();
    let a = w.join("a", "1.0.0");
    w.run(secs(1));
    w.jump_wall(a, 3600);
    w.run(ms(2500));
    assert_eq!(w.stops(a), [StopReason::ClockJump]);
    w.run(secs(10));
    assert!(w.leads(a), "and it leads again in a new term");
    assert_eq!(w.terms(a), 2);
}

#[test]
fn a_successor_that_needs_it_warms_up_before_the_drain_begins() {
    let mut w = World::new();
    let a = w.join("a", "1.1.0");
    w.run(secs(1));
    let b = w.join_warming("b", "1.0.0");
    w.run(secs(10));
    assert!(w.leads(a), "works on while the successor warms up");
    assert_eq!(w.warm_ups(b), 1);
    w.request(b, Request::Warm);
    w.run(ms(50));
    assert!(w.leads(b));
}

#[test]
fn a_successor_that_never_warms_up_is_barred() {
    let mut w = World::new();
    let a = w.join("a", "1.1.0");
    w.run(secs(1));
    let b = w.join_warming("b", "1.0.0");
    w.run(secs(120));
    assert!(w.leads(a));
    assert_eq!(w.warm_ups(b), 1);
    assert_eq!(marks::designated(w.lock()), None);
    w.run(secs(300));
    assert_eq!(w.warm_ups(b), 2, "tried again after five minutes");
}
