//! What a follower sends that has nothing to do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use incumbent::core::{Outcome, Record, Revision, WatchInput};
use incumbent::{Elector, KubeLease, LeaseApi, LockName};
use kube::Config;

/// Counts requests.
struct Counting {
    inner: KubeLease,
    counts: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl Counting {
    fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap_or_else(|p| p.into_inner()).entry(what).or_default() += 1;
    }
}

impl LeaseApi for Counting {
    fn read(&self) -> BoxFuture<'static, Outcome> {
        self.count("get");
        self.inner.read()
    }
    fn create(&self, record: Record) -> BoxFuture<'static, Outcome> {
        self.count("create");
        self.inner.create(record)
    }
    fn update(&self, record: Record) -> BoxFuture<'static, Outcome> {
        self.count("update");
        self.inner.update(record)
    }
    fn patch(&self, uid: String, key: String, value: Option<String>) -> BoxFuture<'static, Outcome> {
        self.count("patch");
        self.inner.patch(uid, key, value)
    }
    fn watch(&self, from: Option<Revision>) -> BoxStream<'static, WatchInput> {
        self.count("watch");
        self.inner.watch(from)
    }
    fn rehearse(&self, present: Option<Record>) -> BoxFuture<'static, Outcome> {
        self.inner.rehearse(present)
    }
    fn gave_up(&self) {
        self.inner.gave_up();
    }
}

/// Counts what a follower sends within `span`, once it has announced itself.
pub(crate) async fn requests(
    config: &Config,
    span: Duration,
) -> anyhow::Result<BTreeMap<&'static str, usize>> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let lock = LockName::new("default", &format!("bench-idle-{}", now.as_millis()))?;
    let leader = Elector::builder(config.clone(), lock.to_string()).identity("leader").build()?;
    let leader_handle = leader.handle();
    let lead = tokio::spawn(leader.run(|term| async move {
        term.cancelled().await;
        Ok::<(), std::io::Error>(())
    }));
    let mut status = leader_handle.status();
    status.wait_for(|s| s.role == "leading").await?;
    let counts = Arc::new(Mutex::new(BTreeMap::new()));
    let inner = KubeLease::new(config.clone(), lock.clone(), Duration::from_secs(2))?;
    let api = Arc::new(Counting { inner, counts: Arc::clone(&counts) });
    let follower = Elector::from_api(api, lock.to_string()).identity("follower").build()?;
    let follower_handle = follower.handle();
    let follow = tokio::spawn(follower.run(|_| async { Ok::<(), std::io::Error>(()) }));
    status.wait_for(|s| s.candidates.len() == 2).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    counts.lock().unwrap_or_else(|p| p.into_inner()).clear();
    tokio::time::sleep(span).await;
    let sent = counts.lock().unwrap_or_else(|p| p.into_inner()).clone();
    for (handle, run) in [(follower_handle, follow), (leader_handle, lead)] {
        handle.shutdown();
        run.await?;
    }
    Ok(sent)
}
