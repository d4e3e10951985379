//! What the server knows, as clients ask for it.

use http::StatusCode;
use serde_json::{Value, json};

use super::route::Discovery;
use super::{Answer, full, json as answer_json};
use crate::kinds::{self, Kind};
use crate::status::ApiError;

/// The Kubernetes version whose behaviour is followed.
const MAJOR: &str = "1";
const MINOR: &str = "37";

/// `/version`.
pub(super) fn version() -> Value {
    json!({
        "major": MAJOR, "minor": MINOR,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+incumbent-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// Answers for one of the documents.
pub(super) fn answer(what: Discovery, accept: &str) -> Result<Answer, ApiError> {
    let found = |value: Value| Ok(answer_json(StatusCode::OK, &value));
    match what {
        Discovery::Legacy | Discovery::Groups if accept.contains("as=APIGroupDiscoveryList") => {
            let legacy = matches!(what, Discovery::Legacy);
            Ok(aggregated(legacy, accept))
        }
        Discovery::Legacy => found(json!({
            "kind": "APIVersions", "versions": versions(""), "serverAddressByClientCIDRs": [],
        })),
        Discovery::Groups => {
            let groups: Vec<_> = groups().filter(|group| !group.is_empty()).map(group).collect();
            found(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        // The legacy group has no document of its own.
        Discovery::Group("") => Err(ApiError::no_such_resource()),
        Discovery::Group(name) => {
            let mut document = group(name);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            found(document)
        }
        Discovery::Version { group, version } => {
            let resources: Vec<_> = of_version(group, version).map(resource).collect();
            let group_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
            found(json!({
                "kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": group_version, "resources": resources,
            }))
        }
    }
}

fn groups() -> impl Iterator<Item = &'static str> {
    let mut seen = Vec::new();
    kinds::ALL.iter().map(|kind| kind.group).filter(move |group| {
        let new = !seen.contains(group);
        seen.push(*group);
        new
    })
}

fn versions(group: &str) -> Vec<&'static str> {
    let mut versions: Vec<_> =
        kinds::ALL.iter().filter(|kind| kind.group == group).map(|kind| kind.version).collect();
    versions.dedup();
    versions
}

fn of_version(group: &'static str, version: &'static str) -> impl Iterator<Item = &'static Kind> {
    kinds::ALL.iter().copied().filter(move |kind| kind.group == group && kind.version == version)
}

fn group(name: &str) -> Value {
    let versions: Vec<_> = versions(name)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn resource(kind: &Kind) -> Value {
    let mut resource = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    resource
}

/// All groups, versions and resources in one document.
fn aggregated(legacy: bool, accept: &str) -> Answer {
    // Both versions of the document have the same fields.
    let (version, content_type) = if accept.contains("v=v2;") || accept.contains("v=v2,") {
        ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    } else {
        ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
    };
    let items: Vec<_> = groups()
        .filter(|group| group.is_empty() == legacy)
        .map(|group| {
            let versions: Vec<_> = versions(group)
                .into_iter()
                .map(|version| {
                    let resources: Vec<_> = of_version(group, version).map(discovered).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let meta = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": meta, "versions": versions})
        })
        .collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    });
    full(StatusCode::OK, content_type, document.to_string())
}

fn discovered(kind: &Kind) -> Value {
    let mut resource = json!({
        "resource": kind.plural, "singularResource": kind.singular,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" }, "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    resource
}
