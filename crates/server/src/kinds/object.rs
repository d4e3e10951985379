//! An object as the server handles it: JSON that follows its kind's schema.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::Kind;
use crate::store::Record;

/// An object. Its `metadata` is always there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object(Map<String, Value>);

impl Object {
    pub(crate) fn new(mut fields: Map<String, Value>) -> Self {
        if !fields.get("metadata").is_some_and(Value::is_object) {
            fields.insert("metadata".into(), Value::Object(Map::new()));
        }
        Self(fields)
    }

    /// The object of a record, with the revision that a client is to see.
    ///
    /// # Errors
    /// The record was not written by [`to_stored`](Self::to_stored).
    pub(crate) fn from_record(record: &Record, revision: u64) -> Result<Self, serde_json::Error> {
        let mut object = Self::new(serde_json::from_slice(&record.value)?);
        object.set_meta("resourceVersion", revision.to_string());
        Ok(object)
    }

    /// What the store keeps: equal objects have equal bytes, and the revision is not among them.
    pub(crate) fn to_stored(&self) -> Result<Bytes, serde_json::Error> {
        let mut object = self.clone();
        object.clear_meta("resourceVersion");
        Ok(serde_json::to_vec(&object.0)?.into())
    }

    pub(crate) fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    pub(crate) fn fields_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.0
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// Names its kind, as an answer does; an item of a list does not.
    pub(crate) fn typed(mut self, kind: &Kind) -> Self {
        self.0.insert("kind".into(), kind.kind.into());
        self.0.insert("apiVersion".into(), kind.api_version().into());
        self
    }

    pub(crate) fn untyped(mut self) -> Self {
        self.0.remove("kind");
        self.0.remove("apiVersion");
        self
    }

    pub(crate) fn meta(&self) -> Option<&Map<String, Value>> {
        self.0.get("metadata").and_then(Value::as_object)
    }

    fn meta_mut(&mut self) -> &mut Map<String, Value> {
        let meta = self.0.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if !meta.is_object() {
            *meta = Value::Object(Map::new());
        }
        match meta {
            Value::Object(meta) => meta,
            _ => unreachable!("it was made an object above"),
        }
    }

    pub(crate) fn meta_value(&self, field: &str) -> Option<&Value> {
        self.meta()?.get(field)
    }

    /// A text of the metadata; empty if it is not there.
    pub(crate) fn meta_str(&self, field: &str) -> &str {
        self.meta_value(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn set_meta(&mut self, field: &str, value: impl Into<Value>) {
        self.meta_mut().insert(field.into(), value.into());
    }

    pub(crate) fn clear_meta(&mut self, field: &str) {
        self.meta_mut().remove(field);
    }

    /// Takes a field of the metadata over from another object, also that it is not there.
    pub(crate) fn copy_meta(&mut self, field: &str, from: &Self) {
        match from.meta_value(field) {
            Some(value) => self.set_meta(field, value.clone()),
            None => self.clear_meta(field),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.meta_str("name")
    }

    pub(crate) fn spec(&self, field: &str) -> Option<&Value> {
        self.0.get("spec")?.get(field)
    }

    pub(crate) fn finalizers(&self) -> Vec<&str> {
        let list = self.meta_value("finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }
}
