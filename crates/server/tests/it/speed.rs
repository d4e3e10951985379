//! How long a write takes until its answer, and until its event: numbers, no bounds but sanity.

use std::time::{Duration, Instant};

use incumbent_server::Server;
use serde_json::json;

use super::http::{Connection, LEASES, ask};

async fn measure(name: &str, server: &Server, rounds: usize) -> (Duration, Duration) {
    let path = format!("{LEASES}/speed");
    let mut connection = Connection::open(server).await;
    let mut body =
        json!({"metadata": {"name": "speed"}, "spec": {"holderIdentity": "a", "leaseTransitions": 0}});
    body = connection.send(server, ask("PUT", &path).json(&body)).await.expect(201);
    let query = format!("{LEASES}?watch=true&fieldSelector=metadata.name%3Dspeed");
    let mut watch = ask("GET", query).stream(server).await;
    watch.next().await.unwrap();
    let (mut answers, mut events) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        body["spec"]["leaseTransitions"] = round.into();
        let start = Instant::now();
        let put = async {
            let reply = connection.send(server, ask("PUT", &path).json(&body)).await;
            (reply, start.elapsed())
        };
        let event = async {
            let event = watch.next().await.unwrap();
            (event, start.elapsed())
        };
        let ((reply, answered), (event, seen)) = tokio::join!(put, event);
        body = reply.expect(200);
        assert_eq!(event["object"]["metadata"]["resourceVersion"], body["metadata"]["resourceVersion"]);
        answers.push(answered);
        events.push(seen);
    }
    answers.sort();
    events.sort();
    let at = |list: &[Duration], percent: usize| list[(list.len() - 1) * percent / 100];
    println!(
        "{name}: answer p50 {:?} p99 {:?}; event p50 {:?} p99 {:?}",
        at(&answers, 50),
        at(&answers, 99),
        at(&events, 50),
        at(&events, 99)
    );
    (at(&answers, 50), at(&events, 50))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_write_is_not_held_up() {
    let memory = super::http::server().await;
    let dir = tempfile::tempdir().unwrap();
    let disk = super::http::started(Server::builder().data_dir(dir.path())).await;
    for (name, server) in [("memory", &memory), ("redb", &disk)] {
        let (answer, event) = measure(name, server, 200).await;
        // Nagle's wait is 40 ms; a timer or a poll would be felt, too.
        assert!(answer < Duration::from_millis(35), "{name}: {answer:?}");
        assert!(event < Duration::from_millis(35), "{name}: {event:?}");
    }
    memory.shutdown().await;
    disk.shutdown().await;
}
