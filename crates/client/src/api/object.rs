//! Between a Lease as JSON and the record that the rules know. What others put into the object survives: a
//! write lays the known fields over the object as it was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use incumbent_core::{LockName, Record, Revision, WallTime};
use serde_json::{Map, Value, json};

/// Reads a Lease. The error says what cannot be understood.
pub(crate) fn to_record(object: Value) -> Result<Record, String> {
    let metadata = &object["metadata"];
    let text = |v: &Value| v.as_str().map(str::to_owned);
    let revision = match &metadata["resourceVersion"] {
        // Only an object that was not stored (`dryRun`) has none.
        Value::Null => 0,
        given => given
            .as_str()
            .and_then(|v| v.parse().ok())
            .ok_or_else(|| format!("the server's resourceVersion {given} is not a number"))?,
    };
    let annotations: BTreeMap<String, String> = metadata["annotations"]
        .as_object()
        .map(|m| m.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect())
        .unwrap_or_default();
    let spec = &object["spec"];
    let number = |v: &Value| v.as_i64().and_then(|n| i32::try_from(n).ok());
    let time = |v: &Value| v.as_str().and_then(WallTime::parse);
    Ok(Record {
        uid: text(&metadata["uid"]).unwrap_or_default(),
        revision: Revision(revision),
        annotations,
        holder: text(&spec["holderIdentity"]),
        duration_seconds: number(&spec["leaseDurationSeconds"]),
        acquire_time: time(&spec["acquireTime"]),
        renew_time: time(&spec["renewTime"]),
        transitions: number(&spec["leaseTransitions"]),
        strategy: text(&spec["strategy"]),
        preferred_holder: text(&spec["preferredHolder"]),
        rest: Some(Arc::new(object)),
    })
}

/// The Lease to send.
pub(crate) fn from_record(record: &Record, lock: &LockName) -> Value {
    let mut object = record.rest.as_deref().cloned().unwrap_or_else(|| json!({}));
    object["apiVersion"] = json!("coordination.k8s.io/v1");
    object["kind"] = json!("Lease");
    let metadata = section(&mut object, "metadata");
    metadata.insert("name".into(), json!(lock.name()));
    metadata.insert("namespace".into(), json!(lock.namespace()));
    // The server keeps what it finds; sent back, they only make the request longer.
    metadata.remove("managedFields");
    put(metadata, "uid", Some(record.uid.as_str()).filter(|u| !u.is_empty()).map(Value::from));
    let revision = (record.revision > Revision(0)).then(|| Value::from(record.revision.to_string()));
    put(metadata, "resourceVersion", revision);
    let annotations = (!record.annotations.is_empty()).then(|| json!(record.annotations));
    put(metadata, "annotations", annotations);
    let spec = section(&mut object, "spec");
    put(spec, "holderIdentity", record.holder.clone().map(Value::from));
    put(spec, "leaseDurationSeconds", record.duration_seconds.map(Value::from));
    put(spec, "acquireTime", record.acquire_time.map(|t| t.to_string().into()));
    put(spec, "renewTime", record.renew_time.map(|t| t.to_string().into()));
    put(spec, "leaseTransitions", record.transitions.map(Value::from));
    put(spec, "strategy", record.strategy.clone().map(Value::from));
    put(spec, "preferredHolder", record.preferred_holder.clone().map(Value::from));
    object
}

fn section<'o>(object: &'o mut Value, name: &str) -> &'o mut Map<String, Value> {
    if !object[name].is_object() {
        object[name] = json!({});
    }
    // Just made an object if it was none.
    match &mut object[name] {
        Value::Object(map) => map,
        _ => unreachable!("an object"),
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            map.insert(key.to_owned(), value);
        }
        None => {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_survives_and_the_rest_is_laid_over_it() {
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "l", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "labels": { "a": "b" }, "annotations": { "x": "y", "gone": "z" },
                "ownerReferences": [{ "name": "o" }], "managedFields": [{}],
            },
            "spec": {
                "holderIdentity": "h", "leaseDurationSeconds": 15, "leaseTransitions": 3,
                "acquireTime": "2026-01-01T00:00:00.000001Z", "renewTime": "2026-01-01T00:00:05.000000Z",
                "strategy": "example.com/s", "preferredHolder": "p", "future": { "field": 1 },
            },
        });
        let mut record = to_record(object).unwrap();
        assert_eq!(record.revision, Revision(7));
        assert_eq!(record.holder(), Some("h"));
        record.holder = Some(String::new());
        record.preferred_holder = None;
        record.annotations.remove("gone");
        let lock = LockName::new("n", "l").unwrap();
        let sent = from_record(&record, &lock);
        assert_eq!(sent["metadata"]["labels"], json!({ "a": "b" }));
        assert_eq!(sent["metadata"]["ownerReferences"], json!([{ "name": "o" }]));
        assert_eq!(sent["metadata"]["annotations"], json!({ "x": "y" }));
        assert_eq!(sent["metadata"]["resourceVersion"], "7");
        assert_eq!(sent["spec"]["future"], json!({ "field": 1 }));
        assert_eq!(sent["spec"]["holderIdentity"], "", "a free lock is written as an empty holder");
        assert_eq!(sent["spec"]["strategy"], "example.com/s");
        assert!(sent["spec"].get("preferredHolder").is_none());
        assert_eq!(sent["spec"]["renewTime"], "2026-01-01T00:00:05.000000Z", "six digits, always");
        assert!(sent["metadata"].get("managedFields").is_none());
    }

    #[test]
    fn a_new_lock_has_neither_uid_nor_revision() {
        let lock = LockName::new("n", "l").unwrap();
        let sent = from_record(&Record::default(), &lock);
        assert!(sent["metadata"].get("uid").is_none() && sent["metadata"].get("resourceVersion").is_none());
        assert_eq!(sent["metadata"]["namespace"], "n");
    }

    #[test]
    fn a_server_without_numbers_for_revisions_is_named() {
        let error = to_record(json!({ "metadata": { "resourceVersion": "abc" } })).unwrap_err();
        assert!(error.contains("abc"), "{error}");
    }
}
