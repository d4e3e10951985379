//! What every store has to do, as tests that any backend can run.
//!
//! A backend calls [`run`] from a test of its own, and [`run_durable`] if it keeps what it was given. Both panic
//! with the promise that was broken.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{
    Action, Change, Condition, Ended, Event, Item, Key, PageRequest, Retention, Scope, Store, StoreError,
    Watch,
};

/// How long something may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs everything, each on a new, empty store that `open` makes.
pub async fn run<F>(open: impl Fn(Retention) -> F)
where
    F: Future<Output = Arc<dyn Store>>,
{
    swaps_only_what_it_was_told(&*open(Retention::default()).await).await;
    gives_rising_revisions(&*open(Retention::default()).await).await;
    lets_one_of_many_writers_win(open(Retention::default()).await).await;
    lists_by_scope_in_order(&*open(Retention::default()).await).await;
    lists_the_past(&*open(Retention::default()).await).await;
    watches_from_every_revision(&*open(Retention::default()).await).await;
    orders_events_as_commits(open(Retention::default()).await).await;
    reports_progress_behind_events(&*open(Retention::default()).await).await;
    forgets_and_says_so(&*open(small()).await).await;
    ends_a_watch_that_is_not_read(&*open(Retention::default()).await).await;
    ends_watches_when_closed(&*open(Retention::default()).await).await;
}

/// Runs what holds across a restart. `open` opens the same data each time; the store before was closed.
pub async fn run_durable<F>(open: impl Fn(Retention) -> F)
where
    F: Future<Output = Arc<dyn Store>>,
{
    let store = open(small()).await;
    for round in 0..40 {
        put(&*store, "kept", &format!("{round}")).await;
    }
    let dead = put(&*store, "dead", "x").await;
    commit(&*store, "dead", Condition::At(dead.revision), Action::Delete).await.expect("a delete");
    let last = store.revision().await.expect("a revision");
    let seen = watch_all(&*store, last - 3).await;
    let before = everything(&*store, Some(last - 3)).await;
    store.close().await;

    let store = open(small()).await;
    assert_eq!(store.revision().await.expect("a revision"), last, "the revision is kept");
    assert_eq!(watch_all(&*store, last - 3).await, seen, "the past is kept");
    assert_eq!(everything(&*store, Some(last - 3)).await, before, "lists of the past are kept");
    assert_eq!(value(&*store, "kept").await.as_deref(), Some("39"), "objects are kept");
    assert_eq!(value(&*store, "dead").await, None, "deletes are kept");
    let next = put(&*store, "new", "y").await;
    assert_eq!(next.revision, last + 1, "revisions rise across a restart");
    commit(&*store, "new", Condition::At(next.revision), Action::Delete).await.expect("a delete");
    store.close().await;

    // The newest change is a delete: its revision must not come again.
    let store = open(small()).await;
    assert_eq!(put(&*store, "newer", "z").await.revision, last + 3, "no revision is used twice");
    store.close().await;
}

/// Keeps so little that the tests reach the end of it.
fn small() -> Retention {
    Retention { events: 8, bytes: 1 << 20 }
}

fn key(name: &str) -> Key {
    Key::new("things", "here", name)
}

fn scope() -> Scope {
    Scope::resource("things")
}

async fn commit(
    store: &dyn Store,
    name: &str,
    condition: Condition,
    action: Action,
) -> Result<Arc<Event>, StoreError> {
    store.commit(Change { key: key(name), condition, action }).await
}

fn text(value: &str) -> Action {
    Action::Put(Bytes::copy_from_slice(value.as_bytes()))
}

/// Writes over whatever is there.
async fn put(store: &dyn Store, name: &str, value: &str) -> Arc<Event> {
    let current = store.get(&key(name)).await.expect("a read");
    let condition = current.map_or(Condition::Absent, |record| Condition::At(record.modified));
    commit(store, name, condition, text(value)).await.expect("an undisturbed write")
}

async fn value(store: &dyn Store, name: &str) -> Option<String> {
    let record = store.get(&key(name)).await.expect("a read")?;
    Some(String::from_utf8(record.value.to_vec()).expect("text"))
}

async fn everything(store: &dyn Store, at: Option<u64>) -> Vec<(String, u64)> {
    let request = PageRequest { scope: scope(), at, after: None, limit: None };
    let page = store.list(request).await.expect("a list");
    page.records.iter().map(|record| (record.key.name().to_owned(), record.modified)).collect()
}

async fn next(watch: &mut Watch) -> Result<Item, Ended> {
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("the watch says something in time")
}

async fn next_event(watch: &mut Watch) -> Arc<Event> {
    match next(watch).await {
        Ok(Item::Event(event)) => event,
        other => panic!("an event was due, not {other:?}"),
    }
}

/// Every change since a revision, up to now.
async fn watch_all(store: &dyn Store, since: u64) -> Vec<Arc<Event>> {
    let until = store.revision().await.expect("a revision");
    let mut watch = store.watch(scope(), since).await.expect("a watch");
    let mut events = Vec::new();
    while events.last().map_or(since, |event: &Arc<Event>| event.revision) < until {
        events.push(next_event(&mut watch).await);
    }
    events
}

async fn swaps_only_what_it_was_told(store: &dyn Store) {
    let refused = |outcome| match outcome {
        Err(StoreError::Conflict { current, .. }) => current,
        other => panic!("a conflict was due, not {other:?}"),
    };
    assert_eq!(refused(commit(store, "a", Condition::At(1), text("x")).await), None);
    assert_eq!(refused(commit(store, "a", Condition::At(1), Action::Delete).await), None);
    let made = commit(store, "a", Condition::Absent, text("1")).await.expect("a create");
    assert_eq!(made.previous, None);
    let there = refused(commit(store, "a", Condition::Absent, text("2")).await).expect("the object");
    assert_eq!((there.modified, there.created), (made.revision, made.revision));
    let changed = commit(store, "a", Condition::At(made.revision), text("3")).await.expect("an update");
    let now = changed.current.clone().expect("a version");
    assert_eq!((now.created, now.modified), (made.revision, changed.revision));
    assert_eq!(changed.previous.as_ref(), Some(&there), "an event carries the version before it");
    let there = refused(commit(store, "a", Condition::At(made.revision), text("4")).await);
    assert_eq!(there.expect("the object").modified, changed.revision);
    assert_eq!(value(store, "a").await.as_deref(), Some("3"), "a refused change writes nothing");
    let gone = commit(store, "a", Condition::At(changed.revision), Action::Delete).await.expect("a delete");
    assert_eq!((gone.current.clone(), gone.latest()), (None, &now), "a delete carries what it deleted");
    assert_eq!(value(store, "a").await, None);
    let again = commit(store, "a", Condition::Absent, text("5")).await.expect("a second create");
    assert_eq!(again.latest().created, again.revision, "a new object has a new creation");
}

async fn gives_rising_revisions(store: &dyn Store) {
    let mut last = store.revision().await.expect("a revision");
    for round in 0..10 {
        let event = put(store, &format!("{}", round % 3), "x").await;
        assert!(event.revision > last, "revisions rise over all objects");
        last = event.revision;
        assert_eq!(store.revision().await.expect("a revision"), last);
    }
    let refused = commit(store, "0", Condition::Absent, text("x")).await;
    assert!(refused.is_err());
    assert_eq!(store.revision().await.expect("a revision"), last, "a refused change takes no revision");
}

async fn lets_one_of_many_writers_win(store: Arc<dyn Store>) {
    const RIVALS: usize = 16;
    for round in 0..8 {
        let base = put(&*store, "a", "0").await.revision;
        let rivals = (0..RIVALS).map(|rival| {
            let store = Arc::clone(&store);
            async move {
                // Another write first, so that the rivals meet while the store is busy with that.
                commit_new(&*store, round * RIVALS + rival).await;
                commit(&*store, "a", Condition::At(base), text(&rival.to_string())).await.is_ok()
            }
        });
        let won = futures::future::join_all(rivals).await.into_iter().filter(|won| *won).count();
        assert_eq!(won, 1, "of writers with one expectation exactly one wins");
    }
}

async fn lists_by_scope_in_order(store: &dyn Store) {
    for (resource, namespace, name) in [
        ("things", "b", "1"),
        ("things", "a", "2"),
        ("things", "a", "1"),
        ("things", "ab", "1"),
        ("thingsother", "a", "1"),
        ("things", "a", "3"),
    ] {
        let change = Change {
            key: Key::new(resource, namespace, name),
            condition: Condition::Absent,
            action: text("x"),
        };
        store.commit(change).await.expect("a create");
    }
    let keys = |page: super::Page| -> Vec<String> {
        page.records.iter().map(|record| record.key.as_str().to_owned()).collect()
    };
    let list = |scope: Scope, after: Option<Key>, limit: Option<usize>| {
        store.list(PageRequest { scope, at: None, after, limit })
    };
    let all = list(Scope::resource("things"), None, None).await.expect("a list");
    assert_eq!(all.revision, store.revision().await.expect("a revision"));
    assert_eq!(keys(all), ["things/a/1", "things/a/2", "things/a/3", "things/ab/1", "things/b/1"]);
    let of_a = || Scope::namespace("things", "a");
    let first = list(of_a(), None, Some(2)).await.expect("a list");
    assert_eq!(first.remaining, 1);
    assert_eq!(keys(first), ["things/a/1", "things/a/2"]);
    let rest = list(of_a(), Some(Key::new("things", "a", "2")), Some(2)).await.expect("a list");
    assert_eq!(rest.remaining, 0);
    assert_eq!(keys(rest), ["things/a/3"]);
    let one = list(Scope::One(Key::new("things", "ab", "1")), None, None).await.expect("a list");
    assert_eq!(keys(one), ["things/ab/1"]);
    let none = list(Scope::One(Key::new("things", "ab", "2")), None, None).await.expect("a list");
    assert_eq!(keys(none), [""; 0]);
}

async fn lists_the_past(store: &dyn Store) {
    let mut snapshots = Vec::new();
    for round in 0..12_u64 {
        let name = format!("{}", round % 3);
        let current = store.get(&key(&name)).await.expect("a read");
        match current {
            Some(record) if round % 4 == 3 => {
                commit(store, &name, Condition::At(record.modified), Action::Delete).await.expect("a delete");
            }
            _ => {
                put(store, &name, "x").await;
            }
        }
        snapshots.push((store.revision().await.expect("a revision"), everything(store, None).await));
    }
    for (revision, snapshot) in snapshots {
        assert_eq!(everything(store, Some(revision)).await, snapshot, "the list as of {revision}");
    }
    let future = store.revision().await.expect("a revision") + 1;
    let request = PageRequest { scope: scope(), at: Some(future), after: None, limit: None };
    assert!(matches!(store.list(request).await, Err(StoreError::Future { .. })));
}

async fn watches_from_every_revision(store: &dyn Store) {
    let start = store.revision().await.expect("a revision");
    let mut live = store.watch(scope(), start).await.expect("a watch");
    let mut events = Vec::new();
    for round in 0..10 {
        events.push(put(store, &format!("{}", round % 2), &round.to_string()).await);
    }
    let last = events.last().expect("an event").clone();
    let name = last.key().name().to_owned();
    events.push(commit(store, &name, Condition::At(last.revision), Action::Delete).await.expect("a delete"));
    for event in &events {
        assert_eq!(&next_event(&mut live).await, event, "a live watch misses nothing");
    }
    for (index, event) in events.iter().enumerate() {
        let since = event.revision - 1;
        assert_eq!(watch_all(store, since).await, events[index..], "since {since}");
    }
    // Of one object, and of none.
    let mut one = store.watch(Scope::One(key("1")), start).await.expect("a watch");
    let mut other = store.watch(Scope::One(key("other")), start).await.expect("a watch");
    for event in events.iter().filter(|event| event.key().name() == "1") {
        assert_eq!(&next_event(&mut one).await, event);
    }
    let late = put(store, "other", "x").await;
    assert_eq!(next_event(&mut other).await, late, "others' changes are not seen");
}

async fn orders_events_as_commits(store: Arc<dyn Store>) {
    const WRITERS: usize = 8;
    const WRITES: usize = 25;
    let start = store.revision().await.expect("a revision");
    let mut watch = store.watch(scope(), start).await.expect("a watch");
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            async move {
                for round in 0..WRITES {
                    put(&*store, &writer.to_string(), &round.to_string()).await;
                }
            }
        })
        .collect();
    let watched = async {
        let mut last = start;
        for _ in 0..WRITERS * WRITES {
            let event = next_event(&mut watch).await;
            assert_eq!(event.revision, last + 1, "each revision comes once and in order");
            let previous = event.previous.as_ref().map(|record| record.modified);
            assert!(previous.is_none_or(|previous| previous <= last), "the version before is older");
            last = event.revision;
        }
    };
    futures::future::join(futures::future::join_all(writers), watched).await;
}

async fn reports_progress_behind_events(store: &dyn Store) {
    let start = store.revision().await.expect("a revision");
    let mut watch = store.watch(Scope::One(key("a")), start).await.expect("a watch");
    let event = put(store, "a", "x").await;
    let last = put(store, "b", "x").await;
    watch.request_progress();
    assert_eq!(next_event(&mut watch).await, event);
    match next(&mut watch).await {
        Ok(Item::Progress(revision)) => assert_eq!(revision, last.revision),
        other => panic!("progress was due, not {other:?}"),
    }
}

async fn forgets_and_says_so(store: &dyn Store) {
    let first = put(store, "old", "x").await.revision;
    put(store, "gone", "x").await;
    let gone = store.get(&key("gone")).await.expect("a read").expect("the object");
    commit(store, "gone", Condition::At(gone.modified), Action::Delete).await.expect("a delete");
    for round in 0..100 {
        put(store, "a", &round.to_string()).await;
    }
    let last = store.revision().await.expect("a revision");
    let oldest = match store.watch(scope(), first).await {
        Err(StoreError::Compacted { requested, oldest }) if requested == first => oldest,
        other => panic!("the past was to be forgotten, not {other:?}"),
    };
    assert!(
        matches!(store.watch(scope(), oldest - 1).await, Err(StoreError::Compacted { .. })),
        "a watch never begins with a gap"
    );
    let request = |at| PageRequest { scope: scope(), at: Some(at), after: None, limit: None };
    assert!(matches!(store.list(request(oldest - 1)).await, Err(StoreError::Compacted { .. })));
    assert!(store.list(request(oldest)).await.is_ok(), "the oldest revision can be listed");
    let kept = watch_all(store, oldest).await;
    assert_eq!(kept.len() as u64, last - oldest, "and watched from, without a gap");
    assert_eq!(value(store, "old").await.as_deref(), Some("x"), "what was not changed lives on");
    assert_eq!(value(store, "gone").await, None);
}

async fn ends_a_watch_that_is_not_read(store: &dyn Store) {
    let start = store.revision().await.expect("a revision");
    let mut slow = store.watch(scope(), start).await.expect("a watch");
    let mut writes = Vec::new();
    for round in 0..2000 {
        writes.push(commit_new(store, round));
    }
    futures::future::join_all(writes).await;
    let mut last = start;
    let ended = loop {
        match next(&mut slow).await {
            Ok(Item::Event(event)) => {
                assert_eq!(event.revision, last + 1, "what is delivered has no gap");
                last = event.revision;
            }
            Ok(Item::Progress(_)) => {}
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended, Ended::Lagged);
    // It goes on where it was.
    let mut again = store.watch(scope(), last).await.expect("a watch");
    assert_eq!(next_event(&mut again).await.revision, last + 1);
}

async fn commit_new(store: &dyn Store, number: usize) {
    commit(store, &number.to_string(), Condition::Absent, text("x")).await.expect("a create");
}

async fn ends_watches_when_closed(store: &dyn Store) {
    let start = store.revision().await.expect("a revision");
    let mut watch = store.watch(scope(), start).await.expect("a watch");
    let event = put(store, "a", "x").await;
    store.close().await;
    assert_eq!(next_event(&mut watch).await, event, "what was committed before is delivered");
    match next(&mut watch).await {
        Err(Ended::Closed) => {}
        other => panic!("the watch was to end, not {other:?}"),
    }
    assert!(matches!(commit(store, "b", Condition::Absent, text("x")).await, Err(StoreError::Closed)));
    assert!(matches!(store.get(&key("a")).await, Err(StoreError::Closed)));
}
