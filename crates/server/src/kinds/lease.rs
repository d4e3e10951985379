//! `Lease` of `coordination.k8s.io/v1`.

use serde_json::{Value, json};

use super::schema::{Field, Struct, Type};
use super::{Column, Kind, Object, meta, names};
use crate::status::Cause;

const SPEC: Struct = Struct {
    name: "LeaseSpec",
    fields: &[
        Field::optional("holderIdentity", Type::Text),
        Field::optional("leaseDurationSeconds", Type::Int32),
        Field::optional("acquireTime", Type::MicroTime),
        Field::optional("renewTime", Type::MicroTime),
        Field::optional("leaseTransitions", Type::Int32),
        Field::optional("strategy", Type::Text),
        Field::optional("preferredHolder", Type::Text),
    ],
};

const SCHEMA: Struct = Struct {
    name: "Lease",
    fields: &[
        Field::optional("metadata", Type::Struct(&meta::META)),
        Field::optional("spec", Type::Struct(&SPEC)),
    ],
};

pub(crate) static LEASE: Kind = Kind {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    short_names: &[],
    namespaced: true,
    verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    create_on_update: true,
    schema: &SCHEMA,
    name_rule: names::subdomain,
    validate,
    complete: |lease| {
        lease.fields_mut().entry("spec").or_insert_with(|| json!({}));
    },
    columns: &[
        text_column("Holder", "Who holds the lease.", 0, "holderIdentity"),
        text_column("Renewed", "When the holder last renewed it.", 1, "renewTime"),
        text_column("Strategy", "How its holder is chosen.", 1, "strategy"),
        text_column("Preferred", "To whom its holder is asked to yield.", 1, "preferredHolder"),
    ],
};

const fn text_column(
    name: &'static str,
    description: &'static str,
    priority: i32,
    field: &'static str,
) -> Column {
    // A cell is a plain function, so each field has one.
    let cell = match field.as_bytes() {
        b"holderIdentity" => |lease: &Object| text(lease, "holderIdentity"),
        b"renewTime" => |lease: &Object| text(lease, "renewTime"),
        b"strategy" => |lease: &Object| text(lease, "strategy"),
        _ => |lease: &Object| text(lease, "preferredHolder"),
    };
    Column { name, description, priority, cell }
}

fn text(lease: &Object, field: &str) -> Value {
    lease.spec(field).cloned().unwrap_or_else(|| "".into())
}

/// The strategies that have no prefix.
const STRATEGIES: &[&str] = &["OldestEmulationVersion"];

fn validate(lease: &Object, causes: &mut Vec<Cause>) {
    let number = |field| lease.spec(field).and_then(|value| Some((value.as_i64()?, value)));
    if let Some((0 | i64::MIN..0, value)) = number("leaseDurationSeconds") {
        causes.push(Cause::invalid("spec.leaseDurationSeconds", value, "must be greater than 0"));
    }
    if let Some((i64::MIN..0, value)) = number("leaseTransitions") {
        causes.push(Cause::invalid("spec.leaseTransitions", value, "must be greater than or equal to 0"));
    }
    let strategy = lease.spec("strategy");
    if let Some(value) = strategy {
        let text = value.as_str().unwrap_or_default();
        // A real server names the field twice.
        let field = "spec.strategy.strategy";
        if !text.contains('/') {
            if !STRATEGIES.contains(&text) {
                causes.push(Cause::not_supported(field, value, STRATEGIES));
            }
        } else if let Some(why) = names::qualified(text) {
            causes.push(Cause::invalid(field, value, why));
        }
    }
    let set = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if set(lease.spec("preferredHolder")) && !set(strategy) {
        let why = "may only be specified if `strategy` is defined";
        causes.push(Cause::forbidden("spec.preferredHolder", why));
    }
}
