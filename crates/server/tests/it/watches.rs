//! Watches: order, beginnings, ends, selectors, bookmarks.

use std::time::Duration;

use incumbent_server::Server;
use incumbent_server::store::Retention;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::http::{LEASES, PATIENCE, Stream, ask, server, started};

async fn write(server: &Server, name: &str, holder: &str) -> String {
    let body = json!({"metadata": {"name": name}, "spec": {"holderIdentity": holder}});
    let path = format!("{LEASES}/{name}");
    let reply = ask("PATCH", &*path).merge(&json!({"spec": {"holderIdentity": holder}})).send(server).await;
    let object = if reply.code == 404 {
        ask("POST", LEASES).json(&body).send(server).await.expect(201)
    } else {
        reply.expect(200)
    };
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn watch(server: &Server, query: &str) -> Stream {
    let stream = ask("GET", format!("{LEASES}?watch=true&{query}")).stream(server).await;
    assert_eq!(stream.code, 200);
    stream
}

fn brief(kind: &str, name: &str, revision: &str) -> (String, String, String) {
    (kind.into(), name.into(), revision.into())
}

#[tokio::test]
async fn b111_every_change_comes_once_in_order_from_every_revision() {
    let server = server().await;
    let start = ask("GET", LEASES).send(&server).await.expect(200);
    let start: u64 = start["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let mut live = watch(&server, &format!("resourceVersion={start}")).await;
    let mut wanted = Vec::new();
    for (name, holder) in [("a", "1"), ("b", "1"), ("a", "2"), ("a", "3"), ("b", "2")] {
        let known = wanted.iter().any(|it: &(String, String, String)| it.1 == name);
        let revision = write(&server, name, holder).await;
        wanted.push(brief(if known { "MODIFIED" } else { "ADDED" }, name, &revision));
    }
    ask("DELETE", format!("{LEASES}/a")).send(&server).await.expect(200);
    let last: u64 = wanted.last().unwrap().2.parse().unwrap();
    wanted.push(brief("DELETED", "a", &(last + 1).to_string()));
    for event in &wanted {
        assert_eq!(&live.brief().await, event);
    }
    for (index, event) in wanted.iter().enumerate() {
        let since: u64 = event.2.parse::<u64>().unwrap() - 1;
        let mut from = watch(&server, &format!("resourceVersion={since}")).await;
        for event in &wanted[index..] {
            assert_eq!(&from.brief().await, event, "since {since}");
        }
    }
}

#[tokio::test]
async fn without_a_revision_what_is_there_comes_first() {
    let server = server().await;
    let a = write(&server, "a", "1").await;
    for query in ["", "resourceVersion=0"] {
        let mut events = watch(&server, query).await;
        assert_eq!(events.brief().await, brief("ADDED", "a", &a));
    }
    let mut events = watch(&server, "fieldSelector=metadata.name%3Db").await;
    let b = write(&server, "b", "1").await;
    assert_eq!(events.brief().await, brief("ADDED", "b", &b), "others' objects and changes are not seen");
}

#[tokio::test]
async fn b105_a_watch_list_ends_its_beginning_with_a_bookmark() {
    let server = server().await;
    let options = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let end =
        |event: &Value| event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
    let mut empty = watch(&server, options).await;
    let first = empty.next().await.unwrap();
    assert!(first["type"] == "BOOKMARK" && end(&first), "{first}");
    let a = write(&server, "a", "1").await;
    assert_eq!(empty.brief().await, brief("ADDED", "a", &a));
    for version in ["", "&resourceVersion=0", &*format!("&resourceVersion={a}")] {
        let mut events = watch(&server, &format!("{options}{version}")).await;
        assert_eq!(events.brief().await, brief("ADDED", "a", &a), "{version}");
        let mark = events.next().await.unwrap();
        assert!(mark["type"] == "BOOKMARK" && end(&mark), "{mark}");
        assert_eq!(mark["object"]["metadata"]["resourceVersion"], &*a);
        assert_eq!(mark["object"]["kind"], "Lease");
    }
    let query = format!("{LEASES}?watch=true&sendInitialEvents=true");
    ask("GET", query).send(&server).await.refused(
        422,
        "Invalid",
        "requires setting resourceVersionMatch to NotOlderThan",
    );
}

#[tokio::test]
async fn an_object_that_leaves_the_selection_is_deleted() {
    let server = server().await;
    let label = |value: Value| {
        ask("PATCH", format!("{LEASES}/a"))
            .merge(&json!({"metadata": {"labels": {"on": value}}}))
            .send(&server)
    };
    write(&server, "a", "1").await;
    let mut events = watch(&server, "labelSelector=on%3Dyes").await;
    for (value, kind) in [("yes", "ADDED"), ("no", "DELETED"), ("other", ""), ("yes", "ADDED")] {
        let object = label(value.into()).await.expect(200);
        if !kind.is_empty() {
            let revision = object["metadata"]["resourceVersion"].as_str().unwrap();
            assert_eq!(events.brief().await, brief(kind, "a", revision), "{value}");
        }
    }
}

#[tokio::test]
async fn b70_a_forgotten_revision_is_answered_with_410() {
    let retention = Retention { events: 8, bytes: 1 << 20 };
    let server = started(Server::builder().retention(retention)).await;
    let page = ask("GET", "/api/v1/namespaces?limit=1").send(&server).await.expect(200);
    let first = write(&server, "a", "0").await;
    for round in 1..40 {
        write(&server, "a", &round.to_string()).await;
    }
    let mut events = watch(&server, &format!("resourceVersion={first}")).await;
    let error = events.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!((&error["object"]["code"], &error["object"]["reason"]), (&json!(410), &json!("Expired")));
    assert!(error["object"]["message"].as_str().unwrap().starts_with("too old resource version"), "{error}");
    assert_eq!(events.next().await, None, "no other event, and a clean end");
    let token = page["metadata"]["continue"].as_str().unwrap();
    let expired = ask("GET", format!("/api/v1/namespaces?limit=9&continue={token}")).send(&server).await;
    let expired = expired.refused(410, "Expired", "The provided continue parameter is too old");
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest =
        ask("GET", format!("/api/v1/namespaces?limit=9&continue={token}")).send(&server).await.expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_watch_ends_when_it_was_asked_to() {
    let server = server().await;
    let mut events = watch(&server, "timeoutSeconds=1").await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn watches_can_be_tables() {
    let server = server().await;
    write(&server, "a", "me").await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut events =
        ask("GET", format!("{LEASES}?watch=true")).header("Accept", accept).stream(&server).await;
    let event = events.next().await.unwrap();
    assert_eq!(event["object"]["kind"], "Table");
    assert_eq!(event["object"]["rows"][0]["cells"][1], "me");
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_nobody_up() {
    let server = server().await;
    // It asks and never reads.
    let mut silent = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    let request = format!(
        "GET {LEASES}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        server.token()
    );
    silent.write_all(request.as_bytes()).await.unwrap();
    let mut reader = watch(&server, "").await;
    let large = "x".repeat(100_000);
    let body = json!({"metadata": {"name": "a", "annotations": {"large": large}}});
    ask("POST", LEASES).json(&body).send(&server).await.expect(201);
    reader.next().await.unwrap();
    for round in 0..150 {
        let patch = json!({"spec": {"leaseTransitions": round}});
        let written = ask("PATCH", format!("{LEASES}/a")).merge(&patch).send(&server);
        tokio::time::timeout(PATIENCE, written).await.unwrap().expect(200);
        assert_eq!(reader.next().await.unwrap()["object"]["spec"]["leaseTransitions"], round);
    }
    drop(silent);
}

#[tokio::test]
async fn a_shutdown_ends_watches_cleanly_and_at_once() {
    let server = server().await;
    let mut events = watch(&server, "").await;
    let ended = tokio::spawn(async move { events.next().await });
    tokio::time::timeout(Duration::from_secs(4), server.shutdown())
        .await
        .expect("no grace period is waited out");
    assert_eq!(ended.await.unwrap(), None);
}
