//! Both backends keep the promises of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use incumbent_server::store::{MemoryStore, RedbStore, Retention, Store, conformance};

#[tokio::test]
async fn the_memory_store_conforms() {
    conformance::run(|retention| async move { Arc::new(MemoryStore::new(retention)) as Arc<dyn Store> })
        .await;
}

#[tokio::test]
async fn the_redb_store_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let files = AtomicUsize::new(0);
    conformance::run(|retention| {
        let path = dir.path().join(files.fetch_add(1, Ordering::Relaxed).to_string());
        async move { Arc::new(RedbStore::open(&path, retention).unwrap()) as Arc<dyn Store> }
    })
    .await;
}

#[tokio::test]
async fn the_redb_store_keeps_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    conformance::run_durable(|retention| {
        let path = path.clone();
        async move { Arc::new(RedbStore::open(&path, retention).unwrap()) as Arc<dyn Store> }
    })
    .await;
}

#[tokio::test]
async fn b109_the_file_of_one_busy_lease_stays_small() {
    use bytes::Bytes;
    use incumbent_server::store::{Action, Change, Condition, Key};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let retention = Retention { events: 100, bytes: 1 << 20 };
    let store = RedbStore::open(&path, retention).unwrap();
    let mut condition = Condition::Absent;
    let mut early = 0;
    for round in 0..1500 {
        let action = Action::Put(Bytes::from(vec![b'x'; 1000]));
        let change = Change { key: Key::new("leases", "default", "busy"), condition, action };
        condition = Condition::At(store.commit(change).await.unwrap().revision);
        if round == 500 {
            early = std::fs::metadata(&path).unwrap().len();
        }
    }
    let late = std::fs::metadata(&path).unwrap().len();
    assert!(late <= early * 2, "from {early} to {late} bytes");
    store.close().await;
    let store = RedbStore::open(&path, retention).unwrap();
    assert_eq!(store.revision().await.unwrap(), 1500);
}
