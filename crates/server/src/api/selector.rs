//! Which objects a list or a watch is about.

use serde_json::Value;

use super::query::Query;
use crate::kinds::{Kind, Object};
use crate::status::ApiError;
use crate::store::Scope;

/// Conditions on objects, all of which have to hold.
#[derive(Debug, Default)]
pub(super) struct Selector {
    fields: Vec<FieldTerm>,
    labels: Vec<LabelTerm>,
}

#[derive(Debug)]
struct FieldTerm {
    field: &'static str,
    value: String,
    equal: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct LabelTerm {
    key: String,
    wanted: Wanted,
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Selector {
    pub(super) fn read(query: &Query) -> Result<Self, ApiError> {
        let fields = query.get("fieldSelector").map(fields).transpose()?.unwrap_or_default();
        let labels = query.get("labelSelector").map(labels).transpose()?.unwrap_or_default();
        Ok(Self { fields, labels })
    }

    /// The smallest scope that holds everything selected.
    pub(super) fn scope(&self, kind: &Kind, namespace: Option<&str>) -> Scope {
        let wanted = |field: &str| {
            self.fields.iter().find(|term| term.field == field && term.equal).map(|term| &*term.value)
        };
        let namespace = namespace.or_else(|| wanted("metadata.namespace"));
        match (wanted("metadata.name"), namespace, kind.namespaced) {
            (Some(name), Some(namespace), true) if !name.contains('/') && !namespace.contains('/') => {
                Scope::One(kind.key(namespace, name))
            }
            (Some(name), _, false) if !name.contains('/') => Scope::One(kind.key("", name)),
            (_, Some(namespace), true) => kind.scope(Some(namespace)),
            _ => kind.scope(None),
        }
    }

    pub(super) fn selects(&self, object: &Object) -> bool {
        let field = |term: &FieldTerm| {
            let value = match term.field {
                "metadata.name" => object.name(),
                _ => object.meta_str("namespace"),
            };
            (value == term.value) == term.equal
        };
        self.fields.iter().all(field) && self.labels.iter().all(|term| term.holds(object))
    }

    /// Whether whatever is in its scope is selected.
    pub(super) fn selects_all_in_scope(&self) -> bool {
        self.labels.is_empty() && self.fields.iter().all(|term| term.equal)
    }
}

impl LabelTerm {
    fn holds(&self, object: &Object) -> bool {
        let labels = object.meta_value("labels");
        let value = labels.and_then(|labels| labels.get(&self.key)).and_then(Value::as_str);
        match (&self.wanted, value) {
            (Wanted::Exists, value) => value.is_some(),
            (Wanted::Absent, value) => value.is_none(),
            (Wanted::In(values), Some(value)) => values.iter().any(|wanted| wanted == value),
            (Wanted::In(_), None) => false,
            (Wanted::NotIn(values), Some(value)) => values.iter().all(|wanted| wanted != value),
            (Wanted::NotIn(_), None) => true,
        }
    }
}

fn fields(text: &str) -> Result<Vec<FieldTerm>, ApiError> {
    let term = |term: &str| {
        let parts = [("!=", false), ("==", true), ("=", true)].into_iter().find_map(|(operator, equal)| {
            term.split_once(operator).map(|(field, value)| (field.trim(), value.trim(), equal))
        });
        let Some((field, value, equal)) = parts else {
            return Err(ApiError::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{term}'"
            )));
        };
        let known = ["metadata.name", "metadata.namespace"];
        let Some(field) = known.into_iter().find(|known| *known == field) else {
            return Err(ApiError::bad_request(format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )));
        };
        Ok(FieldTerm { field, value: value.into(), equal })
    };
    text.split(',').filter(|part| !part.is_empty()).map(term).collect()
}

fn labels(text: &str) -> Result<Vec<LabelTerm>, ApiError> {
    top_level_parts(text).into_iter().map(label).collect()
}

/// Splits at the commas that are not in parentheses.
fn top_level_parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn label(term: &str) -> Result<LabelTerm, ApiError> {
    let made = |key: &str, wanted| Ok(LabelTerm { key: key.trim().into(), wanted });
    if let Some(key) = term.strip_prefix('!') {
        return made(key, Wanted::Absent);
    }
    if let Some((head, values)) = term.strip_suffix(')').and_then(|term| term.split_once('(')) {
        let values: Vec<String> = values.split(',').map(|value| value.trim().into()).collect();
        return match head.split_whitespace().collect::<Vec<_>>()[..] {
            [key, "in"] => made(key, Wanted::In(values)),
            [key, "notin"] => made(key, Wanted::NotIn(values)),
            _ => Err(unreadable(head.split_whitespace().nth(1).unwrap_or_default())),
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return made(key, Wanted::NotIn(vec![value.trim().into()]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return made(key, Wanted::In(vec![value.trim().into()]));
    }
    match term.split_whitespace().collect::<Vec<_>>()[..] {
        [key] => made(key, Wanted::Exists),
        [_, second, ..] => Err(unreadable(second)),
        [] => Err(unreadable("")),
    }
}

fn unreadable(found: &str) -> ApiError {
    let expected = "in, notin, =, ==, !=, gt, lt";
    ApiError::bad_request(format!("unable to parse requirement: found '{found}', expected: {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(selector: &str, labels: Value) -> bool {
        let object = json!({"metadata": {"labels": labels}});
        let Value::Object(fields) = object else { unreachable!() };
        let query = Query::parse(&format!("labelSelector={}", selector.replace('=', "%3D")));
        Selector::read(&query).unwrap().selects(&Object::new(fields))
    }

    #[test]
    fn label_selectors() {
        let labels = json!({"a": "1", "b": ""});
        for yes in
            ["a", "a=1", "a==1", "a!=2", "c!=2", "!c", "a in (1, 2)", "a notin (2),b", "c notin (2)", "b="]
        {
            assert!(selects(yes, labels.clone()), "{yes}");
        }
        for no in ["c", "a=2", "a!=1", "!a", "a in (2,3)", "a notin (1)", "a,c", "c in (1)"] {
            assert!(!selects(no, labels.clone()), "{no}");
        }
        assert!(labels_fail("a b c"));
    }

    fn labels_fail(text: &str) -> bool {
        super::labels(text).is_err()
    }
}
