//! What a path names.

use http::Method;

use super::query::Query;
use crate::kinds::{self, Kind};

/// What a path names.
#[derive(Debug)]
pub(super) enum Route {
    Health(&'static str),
    Version,
    Discovery(Discovery),
    /// The index of `/openapi/v3`, or the document of a group version.
    OpenApi(Option<String>),
    Resource(Target),
    /// Nothing.
    NoSuchPage,
    /// Nothing, in a group that exists.
    NoSuchResource,
}

/// A document about what the server knows.
#[derive(Debug)]
pub(super) enum Discovery {
    /// `/api`: the legacy group's versions.
    Legacy,
    /// `/apis`: all groups.
    Groups,
    /// `/apis/GROUP`.
    Group(&'static str),
    /// `/api/v1`, `/apis/GROUP/VERSION`.
    Version { group: &'static str, version: &'static str },
}

/// A resource, or one object of it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) kind: &'static Kind,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
}

impl Target {
    /// The verb of a method on it; none if it cannot be done.
    pub(super) fn verb(&self, method: &Method, query: &Query) -> Option<&'static str> {
        let in_scope = !self.kind.namespaced || self.namespace.is_some();
        let verb = match (method, &self.name) {
            (&Method::GET, Some(_)) => "get",
            (&Method::GET, None) if query.flag("watch") => "watch",
            (&Method::GET, None) => "list",
            (&Method::POST, None) if in_scope => "create",
            (&Method::PUT, Some(_)) => "update",
            (&Method::PATCH, Some(_)) => "patch",
            (&Method::DELETE, Some(_)) => "delete",
            (&Method::DELETE, None) if in_scope => "deletecollection",
            _ => return None,
        };
        self.kind.can(verb).then_some(verb)
    }
}

/// Reads a path.
pub(super) fn route(path: &str) -> Route {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        ["healthz"] => Route::Health("healthz"),
        ["livez"] => Route::Health("livez"),
        ["readyz"] => Route::Health("readyz"),
        ["version"] => Route::Version,
        ["openapi", "v3"] => Route::OpenApi(None),
        ["openapi", "v3", ref rest @ ..] => Route::OpenApi(Some(rest.join("/"))),
        ["api"] => Route::Discovery(Discovery::Legacy),
        ["apis"] => Route::Discovery(Discovery::Groups),
        ["api", ref rest @ ..] => in_group("", rest),
        ["apis", group, ref rest @ ..] => in_group(group, rest),
        _ => Route::NoSuchPage,
    }
}

fn in_group(group: &str, rest: &[&str]) -> Route {
    let Some(known) = kinds::ALL.iter().find(|kind| kind.group == group) else { return Route::NoSuchPage };
    let [version, rest @ ..] = rest else { return Route::Discovery(Discovery::Group(known.group)) };
    let of_version =
        || kinds::ALL.iter().filter(|kind| kind.group == group && kind.version == *version).copied();
    let Some(known) = of_version().next() else { return Route::NoSuchResource };
    let find = |plural: &str| of_version().find(|kind| kind.plural == plural);
    let target = |kind: Option<&'static Kind>, namespace: Option<&str>, name: Option<&str>| match kind {
        Some(kind) => {
            Route::Resource(Target { kind, namespace: namespace.map(decoded), name: name.map(decoded) })
        }
        None => Route::NoSuchResource,
    };
    match rest {
        [] => Route::Discovery(Discovery::Version { group: known.group, version: known.version }),
        ["namespaces", namespace, plural] => {
            target(find(plural).filter(|kind| kind.namespaced), Some(namespace), None)
        }
        ["namespaces", namespace, plural, name] => {
            target(find(plural).filter(|kind| kind.namespaced), Some(namespace), Some(name))
        }
        [plural] => target(find(plural), None, None),
        [plural, name] => target(find(plural).filter(|kind| !kind.namespaced), None, Some(name)),
        _ => Route::NoSuchResource,
    }
}

/// A part of a path as it was meant. No valid name holds a slash, so an encoded one cannot lead elsewhere.
fn decoded(part: &str) -> String {
    super::query::decode(part, false).replace('/', "%2F")
}
