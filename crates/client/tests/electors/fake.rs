//! A lock in memory and a clock that tokio's paused time drives: what takes minutes runs in milliseconds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use incumbent::core::{Instant, Now, Outcome, Record, Refusal, Revision, WallTime, WatchInput};
use incumbent::{Clock, LeaseApi};
use tokio::sync::broadcast;

/// Follows tokio's time.
pub(crate) struct PausedClock(tokio::time::Instant);

impl PausedClock {
    pub(crate) fn new() -> PausedClock {
        PausedClock(tokio::time::Instant::now())
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Now {
        let passed = self.0.elapsed();
        let micros = 1_800_000_000_000_000 + i64::try_from(passed.as_micros()).unwrap();
        Now { mono: Instant::from_nanos(1) + passed, wall: WallTime::from_micros(micros) }
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(at.since(self.now().mono)))
    }
}

/// How requests of one client fare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Weather {
    #[default]
    Fine,
    /// Never answered, never carried out.
    Silent,
    /// Carried out, but answered only after this long.
    Late(Duration),
    /// 500 without being carried out.
    Failing,
    /// Certainly not carried out.
    Refusing(Refusal),
}

struct Store {
    lock: Option<Record>,
    revision: u64,
    changes: broadcast::Sender<Option<Record>>,
}

/// The lock.
#[derive(Clone)]
pub(crate) struct FakeLock(Arc<Mutex<Store>>);

type Hook = Box<dyn Fn(&Record) + Send + Sync>;

/// One client's way to the lock.
pub(crate) struct FakeApi {
    lock: FakeLock,
    weather: Mutex<Weather>,
    once: Mutex<Vec<Weather>>,
    /// Called with every lock write when it is sent.
    on_write: Mutex<Option<Hook>>,
    writes: Mutex<usize>,
}

impl FakeLock {
    pub(crate) fn new() -> FakeLock {
        let (changes, _) = broadcast::channel(1024);
        FakeLock(Arc::new(Mutex::new(Store { lock: None, revision: 10, changes })))
    }

    pub(crate) fn client(&self) -> Arc<FakeApi> {
        Arc::new(FakeApi {
            lock: self.clone(),
            weather: Mutex::default(),
            once: Mutex::default(),
            on_write: Mutex::default(),
            writes: Mutex::default(),
        })
    }

    pub(crate) fn record(&self) -> Option<Record> {
        self.0.lock().unwrap().lock.clone()
    }

    pub(crate) fn edit(&self, how: impl FnOnce(&mut Record)) {
        let mut store = self.0.lock().unwrap();
        let mut record = store.lock.clone().unwrap();
        how(&mut record);
        store.put(record);
    }

    fn write(&self, record: Record) -> Outcome {
        let mut store = self.0.lock().unwrap();
        match &store.lock {
            Some(l) if l.uid == record.uid && l.revision == record.revision => Outcome::Ok(store.put(record)),
            _ => Outcome::Conflict,
        }
    }

    fn create(&self, record: Record) -> Outcome {
        let mut store = self.0.lock().unwrap();
        match &store.lock {
            Some(_) => Outcome::Conflict,
            None => {
                let uid = format!("uid-{}", store.revision);
                Outcome::Ok(store.put(Record { uid, ..record }))
            }
        }
    }

    fn patch(&self, uid: &str, key: String, value: Option<String>) -> Outcome {
        let mut store = self.0.lock().unwrap();
        match store.lock.clone() {
            None => Outcome::NotFound,
            Some(l) if l.uid != uid => Outcome::Conflict,
            Some(mut l) => {
                match value {
                    Some(value) => l.annotations.insert(key, value),
                    None => l.annotations.remove(&key),
                };
                Outcome::Ok(store.put(l))
            }
        }
    }
}

impl Store {
    fn put(&mut self, mut record: Record) -> Record {
        self.revision += 1;
        record.revision = Revision(self.revision);
        self.lock = Some(record.clone());
        // Nobody may be watching.
        let _ = self.changes.send(Some(record.clone()));
        record
    }
}

impl FakeApi {
    pub(crate) fn set(&self, weather: Weather) {
        *self.weather.lock().unwrap() = weather;
    }

    /// What the next requests meet, one each.
    pub(crate) fn next(&self, weather: impl IntoIterator<Item = Weather>) {
        *self.once.lock().unwrap() = weather.into_iter().collect();
    }

    pub(crate) fn on_write(&self, hook: impl Fn(&Record) + Send + Sync + 'static) {
        *self.on_write.lock().unwrap() = Some(Box::new(hook));
    }

    pub(crate) fn writes(&self) -> usize {
        *self.writes.lock().unwrap()
    }

    fn answer(&self, how: impl FnOnce(&FakeLock) -> Outcome + Send + 'static) -> BoxFuture<'static, Outcome> {
        let lock = self.lock.clone();
        let mut once = self.once.lock().unwrap();
        let weather = if once.is_empty() { *self.weather.lock().unwrap() } else { once.remove(0) };
        Box::pin(async move {
            // Every request takes a moment.
            tokio::time::sleep(Duration::from_millis(1)).await;
            match weather {
                Weather::Fine => how(&lock),
                Weather::Silent => std::future::pending().await,
                Weather::Late(by) => {
                    let outcome = how(&lock);
                    tokio::time::sleep(by).await;
                    outcome
                }
                Weather::Failing => Outcome::Unknown { message: "HTTP 500".into(), retry_after: None },
                Weather::Refusing(refusal) => {
                    Outcome::Refused { refusal, message: format!("{refusal:?}"), retry_after: None }
                }
            }
        })
    }

    fn wrote(&self, record: &Record) {
        *self.writes.lock().unwrap() += 1;
        if let Some(hook) = &*self.on_write.lock().unwrap() {
            hook(record);
        }
    }
}

impl LeaseApi for FakeApi {
    fn read(&self) -> BoxFuture<'static, Outcome> {
        self.answer(|l| l.record().map_or(Outcome::NotFound, Outcome::Ok))
    }

    fn create(&self, record: Record) -> BoxFuture<'static, Outcome> {
        self.wrote(&record);
        self.answer(move |l| l.create(record))
    }

    fn update(&self, record: Record) -> BoxFuture<'static, Outcome> {
        self.wrote(&record);
        self.answer(move |l| l.write(record))
    }

    fn patch(&self, uid: String, key: String, value: Option<String>) -> BoxFuture<'static, Outcome> {
        self.answer(move |l| l.patch(&uid, key, value))
    }

    fn rehearse(&self, _: Option<Record>) -> BoxFuture<'static, Outcome> {
        self.answer(|_| Outcome::Conflict)
    }

    fn watch(&self, from: Option<Revision>) -> BoxStream<'static, WatchInput> {
        if *self.weather.lock().unwrap() != Weather::Fine {
            return stream::iter([WatchInput::Broken]).boxed();
        }
        let store = self.lock.0.lock().unwrap();
        let changes = store.changes.subscribe();
        let missed = store.lock.clone().filter(|l| from.is_none_or(|f| l.revision > f));
        let first = stream::iter(missed.map(WatchInput::Changed));
        let rest = stream::unfold(changes, |mut changes| async move {
            match changes.recv().await {
                Ok(Some(record)) => Some((WatchInput::Changed(record), changes)),
                _ => None,
            }
        });
        stream::iter([WatchInput::Opened]).chain(first).chain(rest).boxed()
    }

    fn gave_up(&self) {}
}
