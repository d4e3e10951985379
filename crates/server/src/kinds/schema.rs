//! What fields a kind has. Reading follows it: unknown fields are dropped and reported, null means absent,
//! types are checked, times are brought into one form. So equal objects have equal bytes in the store.

use serde_json::{Map, Value};

use super::{Kind, Object, microtime};

/// The type of a field.
#[derive(Debug)]
pub(crate) enum Type {
    Text,
    Int32,
    Int64,
    Flag,
    /// Whole seconds.
    Time,
    MicroTime,
    TextMap,
    List(&'static Type),
    Struct(&'static Struct),
    /// Accepted and dropped without a word.
    Ignored,
}

/// A group of fields.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Its name as error messages give it.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) ty: Type,
    /// Whether an empty value is the same as none.
    pub(crate) omit_empty: bool,
}

impl Field {
    /// A field whose empty value is the same as none.
    pub(crate) const fn plain(name: &'static str, ty: Type) -> Self {
        Self { name, ty, omit_empty: true }
    }

    /// A field for which empty and absent differ.
    pub(crate) const fn optional(name: &'static str, ty: Type) -> Self {
        Self { name, ty, omit_empty: false }
    }
}

/// Why JSON is not an object of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The type that the object gives is another one.
    WrongKind { given: String, why: String },
    /// A field has the wrong type or form.
    Field(String),
}

/// An object that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) object: Object,
    /// `unknown field "spec.x"`, for each that was dropped.
    pub(crate) unknown: Vec<String>,
}

pub(super) fn decode(kind: &Kind, value: Value) -> Result<Decoded, DecodeError> {
    let Value::Object(mut fields) = value else {
        let text =
            format!("json: cannot unmarshal {} into Go value of type v1.{}", name_of(&value), kind.kind);
        return Err(DecodeError::Field(text));
    };
    let mut take = |name| match fields.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (given_kind, given_version) = (take("kind"), take("apiVersion"));
    let right = |given: &str, wanted: &str| given.is_empty() || given == wanted;
    if !right(&given_kind, kind.kind) || !right(&given_version, &kind.api_version()) {
        let why = format!("no kind {given_kind:?} is registered for version {given_version:?}");
        return Err(DecodeError::WrongKind { given: given_kind, why });
    }
    let mut reader = Reader { path: Vec::new(), unknown: Vec::new() };
    let fields = reader.fields(kind.schema, fields).map_err(DecodeError::Field)?;
    Ok(Decoded { object: Object::new(fields), unknown: reader.unknown })
}

struct Reader {
    path: Vec<String>,
    unknown: Vec<String>,
}

impl Reader {
    fn fields(&mut self, schema: &Struct, given: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut read = Map::new();
        for (name, value) in given {
            self.path.push(name);
            let name = self.path.last().cloned().unwrap_or_default();
            match schema.fields.iter().find(|field| field.name == name) {
                None => self.unknown.push(format!("unknown field {:?}", self.path.join("."))),
                Some(field) => {
                    let value = self.value(schema, &field.ty, value)?;
                    if !(value.is_null() || field.omit_empty && is_empty(&value)) {
                        read.insert(name, value);
                    }
                }
            }
            self.path.pop();
        }
        Ok(read)
    }

    /// The value in its one form; null for none.
    fn value(&mut self, within: &Struct, ty: &Type, value: Value) -> Result<Value, String> {
        if value.is_null() {
            return Ok(value);
        }
        match (ty, value) {
            (Type::Ignored, _) => Ok(Value::Null),
            (Type::Text, value @ Value::String(_)) | (Type::Flag, value @ Value::Bool(_)) => Ok(value),
            (Type::Time, Value::String(text)) => microtime::canonical_seconds(&text).map(Value::from),
            (Type::MicroTime, Value::String(text)) => microtime::canonical_micro(&text).map(Value::from),
            (Type::Int32, Value::Number(number)) => match number.as_i64().map(i32::try_from) {
                Some(Ok(number)) => Ok(number.into()),
                _ => Err(self.mismatch(within, &format!("number {number}"), "int32")),
            },
            (Type::Int64, Value::Number(number)) => match number.as_i64() {
                Some(number) => Ok(number.into()),
                None => Err(self.mismatch(within, &format!("number {number}"), "int64")),
            },
            (Type::TextMap, Value::Object(map)) => {
                let wrong = map.values().find(|value| !value.is_string() && !value.is_null());
                if let Some(wrong) = wrong {
                    return Err(self.mismatch(within, name_of(wrong), "string"));
                }
                let texts =
                    map.into_iter().map(|(key, value)| (key, Value::from(value.as_str().unwrap_or(""))));
                Ok(Value::Object(texts.collect()))
            }
            (Type::List(item), Value::Array(items)) => {
                let items: Result<Vec<_>, _> =
                    items.into_iter().map(|value| self.value(within, item, value)).collect();
                items.map(Value::Array)
            }
            (Type::Struct(schema), Value::Object(fields)) => self.fields(schema, fields).map(Value::Object),
            (ty, value) => Err(self.mismatch(within, name_of(&value), type_name(ty))),
        }
    }

    fn mismatch(&self, within: &Struct, given: &str, wanted: &str) -> String {
        let path = self.path.join(".");
        format!("json: cannot unmarshal {given} into Go struct field {}.{path} of type {wanted}", within.name)
    }
}

fn type_name(ty: &Type) -> &'static str {
    match ty {
        Type::Text | Type::Time | Type::MicroTime => "string",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Flag => "bool",
        Type::TextMap => "map[string]string",
        Type::List(_) => "list",
        Type::Struct(schema) => schema.name,
        Type::Ignored => "anything",
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Null => true,
    }
}
