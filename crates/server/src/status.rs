//! Errors as a Kubernetes client sees them: a `Status` object. Clients parse the reasons and some messages, so
//! both are worded as a real server does.

use serde_json::{Map, Value, json};

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self { reason: "FieldValueInvalid", field: field.into(), message }
    }

    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = format!("Required value: {why}");
        Self { reason: "FieldValueRequired", field: field.into(), message }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.into(), message: format!("Forbidden: {why}") }
    }

    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self { reason: "FieldValueNotSupported", field: field.into(), message }
    }
}

/// A failed request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Map<String, Value>>,
    /// What the `metadata` of the answer holds, for a list that cannot go on.
    pub(crate) list_meta: Option<Value>,
}

/// What an error is about, as `details` names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    /// The plural of the resource, or for validation the kind.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

impl Subject<'_> {
    /// `leases.coordination.k8s.io`.
    fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.into() } else { format!("{}.{}", self.kind, self.group) }
    }

    fn details(&self) -> Map<String, Value> {
        let parts = [("name", self.name), ("group", self.group), ("kind", self.kind)];
        parts.into_iter().filter(|part| !part.1.is_empty()).map(|(k, v)| (k.into(), v.into())).collect()
    }
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, list_meta: None }
    }

    fn about(mut self, subject: Subject<'_>) -> Self {
        self.details = Some(subject.details());
        self
    }

    fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn not_found(subject: Subject<'_>) -> Self {
        let message = format!("{} {:?} not found", subject.qualified(), subject.name);
        Self::new(404, "NotFound", message).about(subject)
    }

    /// For a path under a known prefix that leads nowhere.
    pub(crate) fn no_such_resource() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(Map::new());
        error
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::new(405, "MethodNotAllowed", message);
        error.details = Some(Map::new());
        error
    }

    pub(crate) fn not_acceptable(offered: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {offered}");
        let mut error = Self::new(406, "NotAcceptable", message);
        error.details = Some(Map::new());
        error
    }

    pub(crate) fn already_exists(subject: Subject<'_>) -> Self {
        let message = format!("{} {:?} already exists", subject.qualified(), subject.name);
        Self::new(409, "AlreadyExists", message).about(subject)
    }

    pub(crate) fn conflict(subject: Subject<'_>, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {:?}: {why}", subject.qualified(), subject.name);
        Self::new(409, "Conflict", message).about(subject)
    }

    pub(crate) fn modified(subject: Subject<'_>) -> Self {
        Self::conflict(
            subject,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    pub(crate) fn unsupported_media_type(offered: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {offered}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn invalid(subject: Subject<'_>, causes: Vec<Cause>) -> Self {
        let texts: Vec<_> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let list = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let message = format!("{} {:?} is invalid: {list}", subject.qualified(), subject.name);
        let causes: Vec<_> = causes
            .into_iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect();
        Self::new(422, "Invalid", message).about(subject).detail("causes", causes)
    }

    /// For a patch that cannot be applied to the object.
    pub(crate) fn unprocessable() -> Self {
        let mut error =
            Self::new(422, "Invalid", "the server rejected our request due to an error in our request");
        error.details = Some(Map::new());
        error
    }

    pub(crate) fn too_many_requests(why: &str) -> Self {
        Self::new(429, "TooManyRequests", why).detail("retryAfterSeconds", 1)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    pub(crate) fn plain_500(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).detail("retryAfterSeconds", 1)
    }

    pub(crate) fn too_large_revision(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        Self::new(504, "Timeout", message).detail("causes", vec![cause]).detail("retryAfterSeconds", 1)
    }

    /// The seconds after which the client is asked to try again.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// The `Status` object.
    pub(crate) fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(meta) = &self.list_meta {
            status["metadata"] = meta.clone();
        }
        if let Some(details) = &self.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}
