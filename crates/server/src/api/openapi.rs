//! `/openapi/v3`: the fields of each kind, and which options a request takes. kubectl asks for it before it
//! creates, applies or explains.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{Answer, json as answer_json};
use crate::kinds::{self, Kind, Struct, Type};
use crate::status::ApiError;

/// The index of the documents, or the document of one group version.
pub(super) fn answer(path: Option<&str>) -> Result<Answer, ApiError> {
    let document = match path {
        None => index(),
        Some(path) => {
            let kinds: Vec<_> =
                kinds::ALL.iter().copied().filter(|kind| group_version_path(kind) == path).collect();
            if kinds.is_empty() {
                return Err(ApiError::no_such_resource());
            }
            document(&kinds)
        }
    };
    Ok(answer_json(StatusCode::OK, &document))
}

/// `apis/coordination.k8s.io/v1`.
fn group_version_path(kind: &Kind) -> String {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", kind.api_version())
}

fn index() -> Value {
    let paths: Map<_, _> = kinds::ALL
        .iter()
        .map(|kind| {
            let path = group_version_path(kind);
            let url = format!("/openapi/v3/{path}?hash={}", env!("CARGO_PKG_VERSION"));
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

fn document(kinds: &[&Kind]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in kinds {
        let of_kind = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let mut schema = object(kind.schema);
        schema["properties"]["apiVersion"] = json!({"type": "string"});
        schema["properties"]["kind"] = json!({"type": "string"});
        schema["x-kubernetes-group-version-kind"] = json!([of_kind]);
        schemas.insert(schema_name(kind), schema);
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("/{}{scope}/{}", group_version_path(kind), kind.plural);
        let item = format!("{collection}/{{name}}");
        for (path, operations) in [
            (collection, &[("get", "list"), ("post", "create"), ("delete", "deletecollection")][..]),
            (item, &[("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete")][..]),
        ] {
            let operations: Map<_, _> = operations
                .iter()
                .filter(|(_, verb)| kind.can(verb))
                .map(|(method, verb)| ((*method).to_owned(), operation(kind, verb, &of_kind)))
                .collect();
            paths.insert(path, Value::Object(operations));
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "incumbent", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// `io.k8s.api.coordination.v1.Lease`.
fn schema_name(kind: &Kind) -> String {
    let group = kind.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    format!("io.k8s.api.{group}.{}.{}", kind.version, kind.kind)
}

fn operation(kind: &Kind, verb: &str, of_kind: &Value) -> Value {
    let options: &[&str] = match verb {
        "create" | "update" | "patch" => &["dryRun", "fieldManager", "fieldValidation"],
        "list" => &[
            "allowWatchBookmarks",
            "continue",
            "fieldSelector",
            "labelSelector",
            "limit",
            "resourceVersion",
            "resourceVersionMatch",
            "sendInitialEvents",
            "timeoutSeconds",
            "watch",
        ],
        "delete" | "deletecollection" => &["dryRun", "propagationPolicy"],
        _ => &["resourceVersion"],
    };
    let parameters: Vec<_> = options
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    let schema = json!({"$ref": format!("#/components/schemas/{}", schema_name(kind))});
    json!({
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": of_kind,
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
    })
}

fn object(schema: &Struct) -> Value {
    let properties: Map<_, _> =
        schema.fields.iter().map(|field| (field.name.to_owned(), property(&field.ty))).collect();
    json!({"type": "object", "properties": properties})
}

fn property(ty: &Type) -> Value {
    match ty {
        Type::Text => json!({"type": "string"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Flag => json!({"type": "boolean"}),
        Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
        Type::TextMap => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Type::List(item) => json!({"type": "array", "items": property(item)}),
        Type::Struct(schema) => object(schema),
        Type::Ignored => json!({}),
    }
}
