//! `Namespace` of `v1`: enough of it to hold leases.

use serde_json::{Value, json};

use super::schema::{Field, Struct, Type};
use super::{Column, Kind, Object, meta, names};

const SPEC: Struct =
    Struct { name: "NamespaceSpec", fields: &[Field::plain("finalizers", Type::List(&Type::Text))] };

const STATUS: Struct = Struct {
    name: "NamespaceStatus",
    fields: &[Field::plain("phase", Type::Text), Field::plain("conditions", Type::Ignored)],
};

const SCHEMA: Struct = Struct {
    name: "Namespace",
    fields: &[
        Field::optional("metadata", Type::Struct(&meta::META)),
        Field::optional("spec", Type::Struct(&SPEC)),
        Field::optional("status", Type::Struct(&STATUS)),
    ],
};

pub(crate) static NAMESPACE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    namespaced: false,
    verbs: &["create", "get", "list", "patch", "update", "watch"],
    create_on_update: false,
    schema: &SCHEMA,
    name_rule: names::label,
    validate: |_, _| {},
    complete: |namespace| {
        let mut labels = namespace.meta_value("labels").cloned().unwrap_or_else(|| json!({}));
        labels["kubernetes.io/metadata.name"] = namespace.name().into();
        namespace.set_meta("labels", labels);
        namespace.fields_mut().insert("spec".into(), json!({"finalizers": ["kubernetes"]}));
        namespace.fields_mut().insert("status".into(), json!({"phase": "Active"}));
    },
    columns: &[Column {
        name: "Status",
        description: "Whether it can be used.",
        priority: 0,
        cell: |namespace| namespace.fields()["status"]["phase"].clone(),
    }],
};

/// The namespaces that are there from the start.
pub(crate) fn initial_namespaces() -> impl Iterator<Item = Object> {
    ["default", "kube-system", "kube-public", "kube-node-lease"].into_iter().map(|name| {
        let mut namespace = Object::new(serde_json::Map::new());
        namespace.set_meta("name", Value::from(name));
        namespace
    })
}
