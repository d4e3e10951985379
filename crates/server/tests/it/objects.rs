//! Reading and writing leases: what a real server does, request by request.

use incumbent_server::Server;
use serde_json::{Value, json};

use super::http::{Ask, LEASES, ask, server};

const TIME: &str = "2026-11-30T23:15:37.225039Z";

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": TIME},
    })
}

fn at(name: &str) -> String {
    format!("{LEASES}/{name}")
}

async fn create(server: &Server, name: &str) -> Value {
    ask("POST", LEASES).json(&lease(name)).send(server).await.expect(201)
}

async fn get(server: &Server, name: &str) -> Value {
    ask("GET", at(name)).send(server).await.expect(200)
}

fn put(object: &Value) -> Ask {
    ask("PUT", at(object["metadata"]["name"].as_str().unwrap())).json(object)
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

#[tokio::test]
async fn a_lease_is_made_with_what_the_server_sets() {
    let server = server().await;
    let made = create(&server, "a").await;
    let meta = &made["metadata"];
    assert_eq!(meta["namespace"], "default");
    assert_eq!(meta["uid"].as_str().unwrap().len(), 36);
    assert!(meta["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(made["kind"], "Lease");
    assert_eq!(get(&server, "a").await, made);
    let status = ask("POST", LEASES).json(&lease("a")).send(&server).await.refused(
        409,
        "AlreadyExists",
        "leases.coordination.k8s.io \"a\" already exists",
    );
    assert_eq!(status["details"], json!({"name": "a", "group": "coordination.k8s.io", "kind": "leases"}));
    let other = create(&server, "b").await;
    assert!(revision(&other) > revision(&made));
    assert_ne!(other["metadata"]["uid"], meta["uid"]);
}

#[tokio::test]
async fn what_others_put_there_survives() {
    let server = server().await;
    let mut sent = lease("a");
    sent["metadata"]["labels"] = json!({"x": "y"});
    sent["metadata"]["annotations"] = json!({"example.com/z": "{}"});
    sent["metadata"]["finalizers"] = json!(["example.com/f"]);
    sent["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    sent["spec"]["strategy"] = "OldestEmulationVersion".into();
    sent["spec"]["preferredHolder"] = "b".into();
    let made = ask("POST", LEASES).json(&sent).send(&server).await.expect(201);
    for part in ["labels", "annotations", "finalizers", "ownerReferences"] {
        assert_eq!(made["metadata"][part], sent["metadata"][part], "{part}");
    }
    assert_eq!(made["spec"], sent["spec"]);
}

#[tokio::test]
async fn generated_names_differ() {
    let server = server().await;
    let body = json!({"metadata": {"generateName": "gen-"}});
    let one = ask("POST", LEASES).json(&body).send(&server).await.expect(201);
    let two = ask("POST", LEASES).json(&body).send(&server).await.expect(201);
    let name = one["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
    assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
}

#[tokio::test]
async fn b121_namespaces_keep_leases_apart() {
    let server = server().await;
    let there = "/apis/coordination.k8s.io/v1/namespaces/team/leases";
    let status = ask("POST", there).json(&lease("a")).send(&server).await.refused(
        404,
        "NotFound",
        "namespaces \"team\" not found",
    );
    assert_eq!(status["details"], json!({"name": "team", "kind": "namespaces"}));
    ask("PUT", format!("{there}/a"))
        .json(&lease("a"))
        .send(&server)
        .await
        .refused(404, "NotFound", "\"team\"");
    let team = json!({"metadata": {"name": "team"}});
    ask("POST", "/api/v1/namespaces").json(&team).send(&server).await.expect(201);
    ask("POST", there).json(&lease("a")).send(&server).await.expect(201);
    create(&server, "a").await;
    ask("DELETE", at("a")).send(&server).await.expect(200);
    ask("GET", format!("{there}/a")).send(&server).await.expect(200);
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let path = format!("/api/v1/namespaces/{name}");
        assert_eq!(ask("GET", path).send(&server).await.expect(200)["status"]["phase"], "Active");
    }
}

#[tokio::test]
async fn a_put_replaces_only_the_version_it_names() {
    let server = server().await;
    let made = put(&lease("a")).send(&server).await.expect(201);
    let unconditional = put(&lease("a")).send(&server).await;
    let status = unconditional.refused(
        422,
        "Invalid",
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    );
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.resourceVersion");
    let mut next = made.clone();
    next["spec"]["holderIdentity"] = "b".into();
    let changed = put(&next).send(&server).await.expect(200);
    assert!(revision(&changed) > revision(&made));
    put(&next).send(&server).await.refused(409, "Conflict", MODIFIED);
    next = changed.clone();
    next["metadata"]["uid"] = "other".into();
    put(&next).send(&server).await.refused(
        409,
        "Conflict",
        "Precondition failed: UID in precondition: other",
    );
    assert_eq!(get(&server, "a").await, changed);
}

#[tokio::test]
async fn a_put_that_changes_nothing_writes_nothing() {
    let server = server().await;
    let made = create(&server, "a").await;
    let mut watch =
        ask("GET", format!("{LEASES}?watch=1&resourceVersion={}", revision(&made))).stream(&server).await;
    let mut same = made.clone();
    same["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    same["metadata"]["labels"] = json!({});
    assert_eq!(put(&same).send(&server).await.expect(200), made);
    let patched = ask("PATCH", at("a")).merge(&json!({"spec": {"holderIdentity": "a"}})).send(&server).await;
    assert_eq!(patched.expect(200), made);
    let next = create(&server, "b").await;
    assert_eq!(revision(&next), revision(&made) + 1);
    assert_eq!(watch.brief().await.1, "b", "no event came before");
}

#[tokio::test]
async fn a_put_on_a_deleted_object_makes_it_again_unless_it_names_the_uid() {
    let server = server().await;
    let old = create(&server, "a").await;
    ask("DELETE", at("a")).send(&server).await.expect(200);
    put(&old).send(&server).await.refused(409, "Conflict", "UID in object meta: ");
    let mut without = old.clone();
    without["metadata"].as_object_mut().unwrap().remove("uid");
    let again = put(&without).send(&server).await.expect(201);
    assert_ne!(again["metadata"]["uid"], old["metadata"]["uid"]);
    assert!(revision(&again) > revision(&old) + 1, "the delete has a revision, too");
}

#[tokio::test]
async fn one_of_many_writers_wins() {
    let server = server().await;
    let made = create(&server, "a").await;
    let writers = (0..12).map(|writer| {
        let mut next = made.clone();
        next["spec"]["holderIdentity"] = writer.to_string().into();
        put(&next).send(&server)
    });
    let codes: Vec<_> =
        futures::future::join_all(writers).await.into_iter().map(|reply| reply.code).collect();
    assert_eq!(codes.iter().filter(|code| **code == 200).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 409).count(), 11, "{codes:?}");
}

#[tokio::test]
async fn body_and_path_have_to_agree() {
    let server = server().await;
    let mut elsewhere = lease("a");
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    let refused = ask("POST", LEASES).json(&elsewhere).send(&server).await;
    refused.refused(400, "BadRequest", "the namespace of the provided object does not match");
    let refused = ask("PUT", at("b")).json(&lease("a")).send(&server).await;
    refused.refused(400, "BadRequest", "the name of the object (a) does not match the name on the URL (b)");
    let refused = ask("PUT", at("b")).json(&json!({"metadata": {}})).send(&server).await;
    refused.refused(400, "BadRequest", "name must be provided");
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}});
    ask("POST", LEASES).json(&pod).send(&server).await.refused(
        400,
        "BadRequest",
        "cannot be handled as a Lease",
    );
}

#[tokio::test]
async fn b104_a_micro_time_has_six_digits() {
    let server = server().await;
    for bad in [
        "2026-11-30T23:15:37Z",
        "2026-11-30T23:15:37.225Z",
        "2026-11-30T23:15:37.2250391Z",
        "2026-11-30T23:15:37.225039000Z",
        "",
        "now",
    ] {
        let mut body = lease("a");
        body["spec"]["renewTime"] = bad.into();
        ask("POST", LEASES).json(&body).send(&server).await.refused(400, "BadRequest", "parsing time");
    }
    let mut body = lease("a");
    body["spec"]["renewTime"] = Value::Null;
    body["spec"]["acquireTime"] = "2026-12-01T01:15:37.000001+02:00".into();
    let made = ask("POST", LEASES).json(&body).send(&server).await.expect(201);
    assert_eq!(made["spec"].get("renewTime"), None);
    assert_eq!(made["spec"]["acquireTime"], "2026-11-30T23:15:37.000001Z");
}

#[tokio::test]
async fn b108_fields_are_checked_and_every_fault_is_named() {
    let server = server().await;
    let bad = json!({
        "metadata": {"name": "host_1234", "labels": {"a b": "c d"}},
        "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1, "strategy": "newest", "preferredHolder": "x"},
    });
    let status = ask("POST", LEASES).json(&bad).send(&server).await.refused(422, "Invalid", "is invalid: [");
    let causes: Vec<_> =
        status["details"]["causes"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    assert_eq!(
        causes,
        [
            "metadata.name",
            "metadata.labels",
            "metadata.labels",
            "spec.leaseDurationSeconds",
            "spec.leaseTransitions",
            "spec.strategy.strategy",
        ]
    );
    assert_eq!(status["details"]["kind"], "Lease");
    for (spec, message) in [
        (
            json!({"preferredHolder": "x"}),
            "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined",
        ),
        (json!({"strategy": "a/b/c"}), "spec.strategy.strategy: Invalid value: \"a/b/c\""),
        (json!({"strategy": ""}), "Unsupported value: \"\": supported values: \"OldestEmulationVersion\""),
    ] {
        let body = json!({"metadata": {"name": "a"}, "spec": spec});
        ask("POST", LEASES).json(&body).send(&server).await.refused(422, "Invalid", message);
    }
    let good =
        json!({"metadata": {"name": "a"}, "spec": {"strategy": "example.com/mine", "preferredHolder": "x"}});
    ask("POST", LEASES).json(&good).send(&server).await.expect(201);
    for (spec, wanted) in [
        (json!({"leaseDurationSeconds": "x"}), "of type int32"),
        (json!({"leaseDurationSeconds": 99_999_999_999_i64}), "number 99999999999"),
        (
            json!({"holderIdentity": 3}),
            "cannot unmarshal number into Go struct field LeaseSpec.spec.holderIdentity of type string",
        ),
        (json!([]), "cannot unmarshal array"),
    ] {
        let body = json!({"metadata": {"name": "b"}, "spec": spec});
        ask("POST", LEASES).json(&body).send(&server).await.refused(400, "BadRequest", wanted);
    }
    let nameless = json!({"metadata": {}});
    ask("POST", LEASES).json(&nameless).send(&server).await.refused(
        422,
        "Invalid",
        "name or generateName is required",
    );
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_word() {
    let server = server().await;
    let mut body = lease("a");
    body["spec"]["later"] = 1.into();
    let strict = format!("{LEASES}?fieldValidation=Strict");
    let refused = ask("POST", strict).json(&body).send(&server).await;
    refused.refused(400, "BadRequest", "strict decoding error: unknown field \"spec.later\"");
    let reply = ask("POST", LEASES).json(&body).send(&server).await;
    assert!(reply.head.contains(r#"299 - "unknown field \"spec.later\"""#), "{}", reply.head);
    assert_eq!(reply.expect(201)["spec"].get("later"), None);
    body["metadata"]["name"] = "b".into();
    let quiet = ask("POST", format!("{LEASES}?fieldValidation=Ignore")).json(&body).send(&server).await;
    assert!(!quiet.head.contains("299"), "{}", quiet.head);
    quiet.expect(201);
}

#[tokio::test]
async fn b106_only_json_is_spoken() {
    let server = server().await;
    for kind in ["application/vnd.kubernetes.protobuf", "application/cbor", "text/plain"] {
        let reply = ask("POST", LEASES).raw(kind, "k8s\0").send(&server).await;
        reply.refused(415, "UnsupportedMediaType", "application/json");
    }
    create(&server, "a").await;
    let path = || ask("GET", at("a"));
    path().header("Accept", "application/vnd.kubernetes.protobuf").send(&server).await.refused(
        406,
        "NotAcceptable",
        "406",
    );
    path()
        .header("Accept", "application/vnd.kubernetes.protobuf, application/json")
        .send(&server)
        .await
        .expect(200);
    ask("PATCH", at("a")).raw("application/json", "{}").send(&server).await.refused(
        415,
        "UnsupportedMediaType",
        "",
    );
    ask("POST", LEASES).raw("application/json", "{bad").send(&server).await.refused(
        400,
        "BadRequest",
        "json parse error",
    );
    ask("POST", LEASES).raw("application/json", "").send(&server).await.refused(400, "BadRequest", "");
}

#[tokio::test]
async fn patches_change_what_they_name() {
    let server = server().await;
    let made = create(&server, "a").await;
    for kind in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        let patch = |body: &str| ask("PATCH", at("a")).raw(kind, body);
        let changed = patch(r#"{"metadata":{"annotations":{"k":"v"}},"spec":{"holderIdentity":null}}"#);
        let changed = changed.send(&server).await.expect(200);
        assert_eq!(changed["metadata"]["annotations"], json!({"k": "v"}));
        assert_eq!(changed["spec"].get("holderIdentity"), None);
        assert_eq!(changed["spec"]["renewTime"], made["spec"]["renewTime"]);
        let stale = format!(r#"{{"metadata":{{"resourceVersion":"{}"}}}}"#, revision(&made));
        patch(&stale).send(&server).await.refused(409, "Conflict", MODIFIED);
        let right = format!(
            r#"{{"metadata":{{"resourceVersion":"{}","annotations":null}},"spec":{{"holderIdentity":"a"}}}}"#,
            revision(&changed)
        );
        let back = patch(&right).send(&server).await.expect(200);
        assert_eq!(back["metadata"].get("annotations"), None);
        patch(r#"{"metadata":{"uid":"1"}}"#).send(&server).await.refused(
            422,
            "Invalid",
            "metadata.uid: Invalid value: \"1\": field is immutable",
        );
        patch(r#"{"metadata":{"name":"b"}}"#).send(&server).await.refused(
            400,
            "BadRequest",
            "does not match",
        );
        patch(r#"{"spec":{"renewTime":"bad"}}"#).send(&server).await.refused(
            422,
            "Invalid",
            "cannot parse \"bad\" as \"2006\"",
        );
        patch(r#"{"spec":{"leaseTransitions":-1}}"#).send(&server).await.refused(
            422,
            "Invalid",
            "spec.leaseTransitions",
        );
        patch("[]").send(&server).await.refused(400, "BadRequest", "");
        ask("PATCH", at("none")).raw(kind, "{}").send(&server).await.refused(
            404,
            "NotFound",
            "\"none\" not found",
        );
    }
    let json = |body: &str| ask("PATCH", at("a")).raw("application/json-patch+json", body);
    let changed = json(
        r#"[{"op":"test","path":"/spec/holderIdentity","value":"a"},{"op":"replace","path":"/spec/holderIdentity","value":"j"}]"#,
    );
    assert_eq!(changed.send(&server).await.expect(200)["spec"]["holderIdentity"], "j");
    let failed = json(
        r#"[{"op":"replace","path":"/spec/holderIdentity","value":"k"},{"op":"test","path":"/spec/leaseDurationSeconds","value":1}]"#,
    );
    failed.send(&server).await.refused(422, "Invalid", "the server rejected our request");
    assert_eq!(get(&server, "a").await["spec"]["holderIdentity"], "j", "a patch happens as a whole");
    json("{}").send(&server).await.refused(400, "BadRequest", "error decoding patch");
}

#[tokio::test]
async fn patches_without_a_revision_all_happen() {
    let server = server().await;
    create(&server, "a").await;
    let patches = (0..16).map(|number| {
        let body = json!({"metadata": {"annotations": {format!("k{number}"): "v"}}});
        ask("PATCH", at("a")).merge(&body).send(&server)
    });
    for reply in futures::future::join_all(patches).await {
        reply.expect(200);
    }
    assert_eq!(get(&server, "a").await["metadata"]["annotations"].as_object().unwrap().len(), 16);
}

#[tokio::test]
async fn deletes_heed_their_preconditions() {
    let server = server().await;
    let made = create(&server, "a").await;
    let delete = |body: Value| ask("DELETE", at("a")).json(&body);
    let refused = delete(json!({"preconditions": {"uid": "x"}})).send(&server).await;
    refused.refused(409, "Conflict", "the UID in the precondition (x) does not match the UID in record");
    let refused = delete(json!({"preconditions": {"resourceVersion": "1"}})).send(&server).await;
    refused.refused(409, "Conflict", "the ResourceVersion in the precondition (1) does not match");
    let right = json!({
        "kind": "DeleteOptions", "apiVersion": "coordination.k8s.io/v1", "propagationPolicy": "Background",
        "preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]},
    });
    let status = delete(right).send(&server).await.expect(200);
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"]["uid"], made["metadata"]["uid"]);
    ask("DELETE", at("a")).send(&server).await.refused(
        404,
        "NotFound",
        "leases.coordination.k8s.io \"a\" not found",
    );
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    let server = server().await;
    let mut body = lease("a");
    body["metadata"]["finalizers"] = json!(["example.com/f"]);
    ask("POST", LEASES).json(&body).send(&server).await.expect(201);
    let marked = ask("DELETE", at("a")).send(&server).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let again = ask("DELETE", at("a")).send(&server).await.expect(200);
    assert_eq!(again, marked, "a second delete changes nothing");
    let more = json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}});
    let refused = ask("PATCH", at("a")).merge(&more).send(&server).await;
    refused.refused(422, "Invalid", "no new finalizers can be added");
    ask("PATCH", at("a")).merge(&json!({"metadata": {"finalizers": null}})).send(&server).await.expect(200);
    ask("GET", at("a")).send(&server).await.refused(404, "NotFound", "");
}

#[tokio::test]
async fn collections_are_deleted_by_label() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        let mut body = lease(name);
        body["metadata"]["labels"] = json!({"keep": if name == "b" { "yes" } else { "no" }});
        ask("POST", LEASES).json(&body).send(&server).await.expect(201);
    }
    let gone = ask("DELETE", format!("{LEASES}?labelSelector=keep%3Dno")).send(&server).await.expect(200);
    assert_eq!(gone["items"].as_array().unwrap().len(), 2);
    let left = ask("GET", LEASES).send(&server).await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let server = server().await;
    let made = create(&server, "a").await;
    let dry = |path: String| format!("{path}?dryRun=All");
    let other = ask("POST", dry(LEASES.into())).json(&lease("b")).send(&server).await.expect(201);
    assert_eq!(other["metadata"].get("resourceVersion"), None);
    ask("POST", dry(LEASES.into())).json(&lease("a")).send(&server).await.refused(409, "AlreadyExists", "");
    let mut next = made.clone();
    next["spec"]["holderIdentity"] = "b".into();
    ask("PUT", dry(at("a"))).json(&next).send(&server).await.expect(200);
    ask("PATCH", dry(at("a")))
        .merge(&json!({"spec": {"holderIdentity": "c"}}))
        .send(&server)
        .await
        .expect(200);
    ask("DELETE", dry(at("a"))).send(&server).await.expect(200);
    ask("DELETE", at("a")).json(&json!({"dryRun": ["All"]})).send(&server).await.expect(200);
    assert_eq!(get(&server, "a").await, made);
    ask("GET", at("b")).send(&server).await.refused(404, "NotFound", "");
    ask("POST", format!("{LEASES}?dryRun=Some"))
        .json(&lease("c"))
        .send(&server)
        .await
        .refused(422, "Invalid", "dryRun");
}

#[tokio::test]
async fn lists_are_selected_and_paged_as_of_one_revision() {
    let server = server().await;
    for name in ["a", "b", "c", "d", "e"] {
        let mut body = lease(name);
        body["metadata"]["labels"] = json!({"half": if name < "c" { "first" } else { "second" }});
        ask("POST", LEASES).json(&body).send(&server).await.expect(201);
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let list = |query: &str| ask("GET", format!("{LEASES}?{query}")).send(&server);
    let all = list("").await.expect(200);
    assert_eq!(all["kind"], "LeaseList");
    assert_eq!(names(&all), ["a", "b", "c", "d", "e"]);
    assert_eq!(names(&list("labelSelector=half%3Dsecond").await.expect(200)), ["c", "d", "e"]);
    assert_eq!(names(&list("fieldSelector=metadata.name%3Db").await.expect(200)), ["b"]);
    let everywhere = "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.namespace%3Dkube-system";
    assert_eq!(names(&ask("GET", everywhere).send(&server).await.expect(200)), [""; 0]);
    list("fieldSelector=spec.holderIdentity%3Da").await.refused(
        400,
        "BadRequest",
        "is not a known field selector",
    );
    list("resourceVersion=abc").await.refused(400, "BadRequest", "invalid syntax");
    let status =
        list("resourceVersion=999999").await.refused(504, "Timeout", "Too large resource version: 999999");
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");

    let first = list("limit=2").await.expect(200);
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a".into(), "b".into()], &json!(3))
    );
    ask("DELETE", at("d")).send(&server).await.expect(200);
    create(&server, "bb").await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = list(&format!("limit=5&continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["c", "d", "e"], "the list goes on as it was");
    assert_eq!(rest["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let selected = list("limit=1&labelSelector=half%3Dsecond").await.expect(200);
    assert_eq!(names(&selected), ["c"]);
    let exact = format!(
        "resourceVersionMatch=Exact&resourceVersion={}",
        first["metadata"]["resourceVersion"].as_str().unwrap()
    );
    assert_eq!(names(&list(&exact).await.expect(200)), ["a", "b", "c", "d", "e"]);
    list("continue=abc").await.refused(400, "BadRequest", "continue");
}

#[tokio::test]
async fn b107_tables_have_the_columns_of_kubectl() {
    let server = server().await;
    create(&server, "a").await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    for path in [at("a"), LEASES.to_owned()] {
        let table = ask("GET", path).header("Accept", accept).send(&server).await.expect(200);
        assert_eq!(table["kind"], "Table");
        let columns = table["columnDefinitions"].as_array().unwrap();
        let shown: Vec<_> = columns.iter().filter(|it| it["priority"] == 0).map(|it| &it["name"]).collect();
        assert_eq!(shown, ["Name", "Holder", "Age"]);
        let row = &table["rows"][0];
        assert_eq!(row["cells"].as_array().unwrap().len(), columns.len());
        assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("a"), &json!("a")));
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    }
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = ask("GET", LEASES).header("Accept", partial).send(&server).await.expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0].get("spec"), None);
}

#[tokio::test]
async fn discovery_names_what_there_is() {
    let server = server().await;
    let get = |path: &'static str| ask("GET", path).send(&server);
    assert_eq!(get("/api").await.expect(200)["versions"], json!(["v1"]));
    assert_eq!(get("/apis").await.expect(200)["groups"][0]["name"], "coordination.k8s.io");
    let group = get("/apis/coordination.k8s.io").await.expect(200);
    assert_eq!(group["preferredVersion"]["groupVersion"], "coordination.k8s.io/v1");
    let resources = get("/apis/coordination.k8s.io/v1").await.expect(200);
    assert_eq!(resources["resources"][0]["name"], "leases");
    assert!(resources["resources"][0]["verbs"].as_array().unwrap().contains(&json!("watch")));
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let reply = ask("GET", "/apis").header("Accept", accept).send(&server).await;
    assert!(reply.head.contains("as=APIGroupDiscoveryList"), "{}", reply.head);
    assert_eq!(reply.expect(200)["items"][0]["versions"][0]["resources"][0]["resource"], "leases");
    get("/apis/coordination.k8s.io/v9").await.refused(
        404,
        "NotFound",
        "could not find the requested resource",
    );
    get("/apis/coordination.k8s.io/v1/things").await.refused(
        404,
        "NotFound",
        "could not find the requested resource",
    );
    assert_eq!(get("/apis/none/v1").await.code, 404);
    ask("POST", at("a")).json(&lease("a")).send(&server).await.refused(405, "MethodNotAllowed", "");
    ask("PATCH", LEASES).merge(&json!({})).send(&server).await.refused(405, "MethodNotAllowed", "");
}

#[tokio::test]
async fn openapi_says_what_kubectl_asks_before_it_creates() {
    let server = server().await;
    let index = ask("GET", "/openapi/v3").send(&server).await.expect(200);
    let url = index["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = ask("GET", url).send(&server).await.expect(200);
    let path = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}";
    let patch = &document["paths"][path]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Lease");
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    let lease = &document["components"]["schemas"]["io.k8s.api.coordination.v1.Lease"];
    assert_eq!(lease["properties"]["spec"]["properties"]["renewTime"]["format"], "date-time");
    ask("GET", "/openapi/v3/apis/none/v1").send(&server).await.refused(404, "NotFound", "");
}

#[tokio::test]
async fn namespaces_keep_what_the_server_says_of_them() {
    let server = server().await;
    let team = json!({"metadata": {"name": "team", "labels": {"a": "b"}}});
    let made = ask("POST", "/api/v1/namespaces").json(&team).send(&server).await.expect(201);
    assert_eq!(made["metadata"]["labels"], json!({"a": "b", "kubernetes.io/metadata.name": "team"}));
    let patch = json!({"metadata": {"labels": null}, "status": null, "spec": null});
    let patched = ask("PATCH", "/api/v1/namespaces/team").merge(&patch).send(&server).await.expect(200);
    assert_eq!(patched["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "team"}));
    assert_eq!((&patched["status"], &patched["spec"]), (&made["status"], &made["spec"]));
    let body = json!({"metadata": {"name": "other"}});
    ask("PUT", "/api/v1/namespaces/other").json(&body).send(&server).await.refused(
        404,
        "NotFound",
        "\"other\" not found",
    );
}
