//! Metadata: its fields, its rules, and what an update may not change.

use serde_json::{Value, json};

use super::schema::{Field, Struct, Type};
use super::{Kind, Object, names};
use crate::status::Cause;

const OWNER: Struct = Struct {
    name: "OwnerReference",
    fields: &[
        Field::optional("apiVersion", Type::Text),
        Field::optional("kind", Type::Text),
        Field::optional("name", Type::Text),
        Field::optional("uid", Type::Text),
        Field::optional("controller", Type::Flag),
        Field::optional("blockOwnerDeletion", Type::Flag),
    ],
};

/// `ObjectMeta`.
pub(super) const META: Struct = Struct {
    name: "ObjectMeta",
    fields: &[
        Field::plain("name", Type::Text),
        Field::plain("generateName", Type::Text),
        Field::plain("namespace", Type::Text),
        Field::plain("selfLink", Type::Ignored),
        Field::plain("uid", Type::Text),
        Field::plain("resourceVersion", Type::Text),
        Field::plain("generation", Type::Int64),
        Field::plain("creationTimestamp", Type::Time),
        Field::plain("deletionTimestamp", Type::Time),
        Field::optional("deletionGracePeriodSeconds", Type::Int64),
        Field::plain("labels", Type::TextMap),
        Field::plain("annotations", Type::TextMap),
        Field::plain("ownerReferences", Type::List(&Type::Struct(&OWNER))),
        Field::plain("finalizers", Type::List(&Type::Text)),
        // Which field belongs to which manager is not tracked.
        Field::plain("managedFields", Type::Ignored),
    ],
};

/// What annotations may weigh, as a real server has it.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// What is wrong with an object that is to be made.
pub(crate) fn check_create(kind: &Kind, object: &Object) -> Vec<Cause> {
    let mut causes = check(kind, object);
    (kind.validate)(object, &mut causes);
    causes
}

/// What is wrong with an object that is to replace another.
pub(crate) fn check_update(kind: &Kind, object: &Object, old: &Object) -> Vec<Cause> {
    let mut causes = check(kind, object);
    for field in ["name", "namespace", "uid"] {
        if object.meta_str(field) != old.meta_str(field) {
            let value = json!(object.meta_str(field));
            causes.push(Cause::invalid(format!("metadata.{field}"), &value, "field is immutable"));
        }
    }
    if object.meta_value("deletionTimestamp").is_some() {
        let known = old.finalizers();
        let new: Vec<_> = object.finalizers().into_iter().filter(|name| !known.contains(name)).collect();
        if !new.is_empty() {
            let list: Vec<_> = new.iter().map(|name| format!("{name:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    (kind.validate)(object, &mut causes);
    causes
}

fn check(kind: &Kind, object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object.name();
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Some(why) = (kind.name_rule)(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    let map = |field| object.meta_value(field).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in map("labels") {
        if let Some(why) = names::qualified(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), why));
        }
        if let Some(why) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, why));
        }
    }
    let mut weight = 0;
    for (key, value) in map("annotations") {
        weight += key.len() + value.as_str().unwrap_or_default().len();
        // Of an annotation's key only the spelling matters, not the case.
        if let Some(why) = names::qualified(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), why));
        }
    }
    if weight > ANNOTATIONS_MAX {
        let message = format!("Too long: may not be more than {ANNOTATIONS_MAX} bytes");
        causes.push(Cause { reason: "FieldValueTooLong", field: "metadata.annotations".into(), message });
    }
    check_owners(object, &mut causes);
    for name in object.finalizers() {
        if let Some(why) = names::qualified(name) {
            causes.push(Cause::invalid("metadata.finalizers", &json!(name), why));
        }
    }
    causes
}

fn check_owners(object: &Object, causes: &mut Vec<Cause>) {
    let owners = object.meta_value("ownerReferences").and_then(Value::as_array);
    let mut controllers = 0;
    for (index, owner) in owners.into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let field = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::required(field, "must not be empty"));
            }
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let why = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid("metadata.ownerReferences", &json!(controllers), why));
    }
}
