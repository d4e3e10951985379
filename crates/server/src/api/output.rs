//! The shape of an answer: the whole object, its metadata only, or a table.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::query::Query;
use crate::kinds::{Kind, Object};
use crate::status::ApiError;

/// What answers can be written in.
const OFFERED: &str = "application/json";

/// What of the objects a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Full,
    Partial,
    Table(Include),
}

/// What a row of a table carries beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

impl Shape {
    /// The first of the shapes that a client accepts.
    pub(super) fn negotiate(accept: &str, query: &Query) -> Result<Self, ApiError> {
        if accept.trim().is_empty() {
            return Ok(Self::Full);
        }
        let include = match query.get("includeObject") {
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            _ => Include::Metadata,
        };
        let shape = |clause: &str| {
            let mut parts = clause.split(';').map(str::trim);
            if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
                return None;
            }
            let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
            let value = |name: &str| parameters.iter().find(|pair| pair.0 == name).map(|pair| pair.1);
            match (value("as"), value("g"), value("v")) {
                (None, _, _) => Some(Self::Full),
                (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(Self::Table(include)),
                (
                    Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                    Some("meta.k8s.io"),
                    Some("v1"),
                ) => Some(Self::Partial),
                _ => None,
            }
        };
        accept.split(',').find_map(shape).ok_or_else(|| ApiError::not_acceptable(OFFERED))
    }

    /// One object.
    pub(super) fn object(self, kind: &Kind, object: Object) -> Value {
        match self {
            Self::Full => object.typed(kind).into_value(),
            Self::Partial => partial(&object),
            Self::Table(include) => {
                let version = object.meta_str("resourceVersion").to_owned();
                table(kind, json!({"resourceVersion": version}), vec![row(kind, object, include)])
            }
        }
    }

    /// A list with its metadata.
    pub(super) fn list(self, kind: &Kind, meta: Value, objects: Vec<Object>) -> Value {
        match self {
            Self::Full => {
                let items: Vec<_> = objects.into_iter().map(|object| object.untyped().into_value()).collect();
                let name = format!("{}List", kind.kind);
                json!({"kind": name, "apiVersion": kind.api_version(), "metadata": meta, "items": items})
            }
            Self::Partial => {
                let items: Vec<_> = objects.iter().map(partial).collect();
                json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": meta, "items": items,
                })
            }
            Self::Table(include) => {
                let rows = objects.into_iter().map(|object| row(kind, object, include)).collect();
                table(kind, meta, rows)
            }
        }
    }
}

fn partial(object: &Object) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.meta(),
    })
}

fn table(kind: &Kind, meta: Value, rows: Vec<Value>) -> Value {
    let column = |name: &str, format: &str, description: &str, priority: i32| {
        json!({
            "name": name, "type": "string", "format": format,
            "description": description, "priority": priority,
        })
    };
    let mut columns = vec![column("Name", "name", "The name of the object.", 0)];
    columns.extend(
        kind.columns.iter().filter(|it| it.priority == 0).map(|it| column(it.name, "", it.description, 0)),
    );
    columns.push(column("Age", "", "How long ago the object was made.", 0));
    columns.extend(
        kind.columns
            .iter()
            .filter(|it| it.priority > 0)
            .map(|it| column(it.name, "", it.description, it.priority)),
    );
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
        "columnDefinitions": columns, "rows": rows,
    })
}

fn row(kind: &Kind, object: Object, include: Include) -> Value {
    let mut cells = vec![Value::from(object.name())];
    cells.extend(kind.columns.iter().filter(|it| it.priority == 0).map(|it| (it.cell)(&object)));
    cells.push(age(object.meta_str("creationTimestamp")).into());
    cells.extend(kind.columns.iter().filter(|it| it.priority > 0).map(|it| (it.cell)(&object)));
    match include {
        Include::None => json!({"cells": cells, "object": null}),
        Include::Metadata => json!({"cells": cells, "object": partial(&object)}),
        Include::Object => json!({"cells": cells, "object": object.typed(kind).into_value()}),
    }
}

/// How long ago something was, as a short text: `7s`, `3m12s`, `36m`, `5h10m`, `3d`.
fn age(since: &str) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return "<unknown>".into() };
    brief(Timestamp::now().duration_since(since).as_secs())
}

fn brief(seconds: i64) -> String {
    let pair = |whole: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{rest}{small}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..0 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => pair(days / 365, "y", days % 365, "d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (2160, "36m"),
            (10_800, "3h"),
            (18_600, "5h10m"),
            (100_000, "27h"),
            (260_000, "3d"),
            (700_000, "8d"),
        ];
        for (seconds, text) in cases {
            assert_eq!(brief(seconds), text);
        }
    }

    #[test]
    fn the_first_shape_that_is_known_wins() {
        let query = Query::parse("");
        let shape = |accept| Shape::negotiate(accept, &query);
        assert_eq!(shape("application/vnd.kubernetes.protobuf, application/json"), Ok(Shape::Full));
        assert_eq!(
            shape("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Ok(Shape::Table(Include::Metadata))
        );
        assert_eq!(shape("application/json;as=Table;v=v7;g=meta.k8s.io,*/*"), Ok(Shape::Full));
        assert_eq!(shape("application/vnd.kubernetes.protobuf").unwrap_err().code, 406);
    }
}
