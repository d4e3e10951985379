//! The options of a request, in its query.

use serde_json::json;

use crate::status::{ApiError, Cause, Subject};

/// A query, taken apart.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

/// What to do with fields that are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// The value of an option; none if it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|pair| pair.0 == name);
        pair.map(|pair| &*pair.1).filter(|value| !value.is_empty())
    }

    /// Whether an option is set and true.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.iter().any(|pair| pair.0 == name && !matches!(&*pair.1, "false" | "0"))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|pair| pair.0 == name)
    }

    /// A number.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let read = |text: &str| {
            let why = || ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
            text.parse().map_err(|_| why())
        };
        self.get(name).map(read).transpose()
    }

    /// Whether nothing is to be written; `kind` names the options in an error.
    pub(super) fn dry_run(&self, kind: &str) -> Result<bool, ApiError> {
        let given: Vec<_> = self.0.iter().filter(|pair| pair.0 == "dryRun").map(|pair| &*pair.1).collect();
        check_dry_run(&given, kind)
    }

    /// What to do with fields that are not known.
    pub(super) fn field_validation(&self, kind: &str) -> Result<FieldValidation, ApiError> {
        match self.get("fieldValidation") {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some(other) => {
                let supported = &["", "Ignore", "Strict", "Warn"];
                Err(invalid(kind, vec![Cause::not_supported("fieldValidation", &json!(other), supported)]))
            }
        }
    }

    /// `resourceVersion`: none, or a number.
    pub(super) fn resource_version(&self) -> Result<Option<u64>, ApiError> {
        self.get("resourceVersion").map(revision).transpose()
    }

    /// Checks which options may stand together, for a list or a watch.
    pub(super) fn check_list(&self) -> Result<(), ApiError> {
        let watch = self.flag("watch");
        let matching = self.get("resourceVersionMatch");
        let version = self.get("resourceVersion");
        let initial = self.has("sendInitialEvents");
        let field = "resourceVersionMatch";
        let mut causes = Vec::new();
        match (watch, matching) {
            (true, Some(given)) => {
                if !initial {
                    let why =
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                    causes.push(Cause::forbidden(field, why));
                }
                if given != "NotOlderThan" {
                    causes.push(Cause::not_supported(field, &json!(given), &["NotOlderThan"]));
                }
            }
            (true, None) if initial => {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                causes.push(Cause::forbidden(field, why));
            }
            (false, _) if initial => {
                causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
            }
            (false, Some(given)) => {
                if version.is_none() {
                    let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                    causes.push(Cause::forbidden(field, why));
                }
                if self.get("continue").is_some() {
                    let why = "resourceVersionMatch is forbidden when continue is provided";
                    causes.push(Cause::forbidden(field, why));
                }
                if !matches!(given, "Exact" | "NotOlderThan") {
                    causes.push(Cause::not_supported(field, &json!(given), &["Exact", "NotOlderThan", ""]));
                }
                if given == "Exact" && version == Some("0") {
                    let why = "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"";
                    causes.push(Cause::forbidden(field, why));
                }
            }
            _ => {}
        }
        if causes.is_empty() { Ok(()) } else { Err(invalid("ListOptions", causes)) }
    }
}

/// `dryRun` of a query or of a body.
pub(super) fn check_dry_run(given: &[&str], kind: &str) -> Result<bool, ApiError> {
    if given.iter().any(|value| *value != "All") {
        return Err(invalid(kind, vec![Cause::not_supported("dryRun", &json!(given), &["All"])]));
    }
    Ok(!given.is_empty())
}

fn invalid(kind: &str, causes: Vec<Cause>) -> ApiError {
    ApiError::invalid(Subject { group: "meta.k8s.io", kind, name: "" }, causes)
}

fn revision(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        let what = "invalid resource version: resourceVersion: Invalid value";
        ApiError::bad_request(format!(
            "{what}: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// Undoes percent encoding. What is not UTF-8 is replaced, and so equals no name.
pub(super) fn decode(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = match tail {
            [high, low, ..] if *first == b'%' => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                digit(high).zip(digit(low)).map(|(high, low)| (high * 16 + low) as u8)
            }
            _ => None,
        };
        let (byte, taken) = match (hex, first) {
            (Some(byte), _) => (byte, 3),
            (None, b'+') if plus_is_space => (b' ', 1),
            (None, other) => (*other, 1),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("fieldSelector=metadata.name%3Da&x=a+b%zz%4&watch&dryRun=All");
        assert_eq!(query.get("fieldSelector"), Some("metadata.name=a"));
        assert_eq!(query.get("x"), Some("a b%zz%4"));
        assert!(query.flag("watch"));
        assert!(query.dry_run("X").unwrap());
    }
}
