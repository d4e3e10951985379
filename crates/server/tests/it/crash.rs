//! A killed server loses nothing that it acknowledged.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use incumbent_server::store::{
    Action, Change, Condition, Key, PageRequest, RedbStore, Retention, Scope, Store,
};

const CHILD: &str = "INCUMBENT_TEST_STORE_TO_KILL";

/// The process that is killed: eight writers, each says a write only once it is acknowledged.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(RedbStore::open(path.as_ref(), retention()).unwrap());
        let writers = (0..8).map(|writer| tokio::spawn(write_forever(Arc::clone(&store), writer)));
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

fn retention() -> Retention {
    Retention { events: 64, bytes: 1 << 20 }
}

async fn write_forever(store: Arc<dyn Store>, writer: usize) {
    let key = Key::new("leases", "default", &format!("w{writer}"));
    let mut expected = store.get(&key).await.unwrap().map(|record| record.modified);
    for round in 0_u64.. {
        // Now and then the object is deleted, so that a delete may be the last that was acknowledged.
        let delete = round % 5 == 4 && expected.is_some();
        let action = if delete { Action::Delete } else { Action::Put(Bytes::from(vec![b'x'; 300])) };
        let condition = expected.map_or(Condition::Absent, Condition::At);
        let event = store.commit(Change { key: key.clone(), condition, action }).await.unwrap();
        expected = event.current.as_ref().map(|record| record.modified);
        // One write, so that lines are whole or not there.
        println!("ACK {writer} {} {round}", event.revision);
    }
}

#[tokio::test]
async fn kill_9_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut newest = 0;
    // Of each writer, the revision and the round of its last acknowledged write.
    let mut acknowledged: HashMap<u64, (u64, u64)> = HashMap::new();
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "crash::child_that_writes_until_it_is_killed",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        let mut take = |line: String| {
            let Some((_, line)) = line.split_once("ACK ") else { return false };
            let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
            let [writer, revision, round] = numbers[..] else { return false };
            acknowledged.insert(writer, (revision, round));
            assert!(revision > 0);
            newest = newest.max(revision);
            true
        };
        while seen < 200 + 137 * round {
            seen += usize::from(take(lines.next().expect("the child writes").unwrap()));
        }
        child.kill().unwrap();
        // What it said before it died counts, too.
        for line in lines.map_while(Result::ok) {
            take(line);
        }
        child.wait().unwrap();

        let store = RedbStore::open(&path, retention()).unwrap();
        let revision = store.revision().await.unwrap();
        assert!(revision >= newest, "revision {revision} is older than {newest}, which was acknowledged");
        let request = PageRequest { scope: Scope::resource("leases"), at: None, after: None, limit: None };
        let page = store.list(request).await.unwrap();
        for (writer, (acknowledged, round)) in &acknowledged {
            let name = format!("w{writer}");
            let found = page.records.iter().find(|record| record.key.name() == name);
            let deletes = |round: u64| round % 5 == 4;
            // Each writer waits for its answer, so at most one write of its own came after the last it said.
            match found {
                Some(record) if deletes(*round) => {
                    assert!(record.created > *acknowledged, "{name} came back")
                }
                Some(record) => assert!(record.modified >= *acknowledged, "{name} went back"),
                None => assert!(deletes(*round) || deletes(round + 1), "{name} is lost"),
            }
        }
        // The next revision is a new one.
        let key = Key::new("other", "default", &format!("r{round}"));
        let action = Action::Put(Bytes::from_static(b"x"));
        let event = store.commit(Change { key, condition: Condition::Absent, action }).await.unwrap();
        assert!(event.revision > newest, "a revision came twice");
        newest = event.revision;
        store.close().await;
    }
}
