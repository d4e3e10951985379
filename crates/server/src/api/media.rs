//! What a body is written in.

use bytes::Bytes;
use serde_json::Value;

use crate::status::ApiError;

/// What a body may be written in.
const OFFERED: &str = "application/json";

/// The media type of a header, without parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The object in a body.
pub(super) fn object(content_type: &str, body: &Bytes) -> Result<Value, ApiError> {
    match essence(content_type) {
        "" | "application/json" => serde_json::from_slice(body).map_err(|error| {
            let why = format!("couldn't get version/kind; json parse error: {error}");
            ApiError::bad_request(format!("the object provided is unrecognized: {why}"))
        }),
        _ => Err(ApiError::unsupported_media_type(OFFERED)),
    }
}

/// A change to an object.
#[derive(Debug)]
pub(super) enum Patch {
    /// RFC 7386. A strategic merge patch is the same for kinds without lists that have keys.
    Merge(Value),
    /// RFC 6902.
    Json(json_patch::Patch),
}

impl Patch {
    pub(super) fn read(content_type: &str, body: &Bytes) -> Result<Self, ApiError> {
        let value = || -> Result<Value, ApiError> {
            serde_json::from_slice(body).map_err(|_| ApiError::bad_request("invalid JSON patch"))
        };
        match essence(content_type) {
            "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                let patch = value()?;
                if !patch.is_object() {
                    let what = if patch.is_array() { "array" } else { "value" };
                    return Err(ApiError::bad_request(format!(
                        "error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
                    )));
                }
                Ok(Self::Merge(patch))
            }
            "application/json-patch+json" => {
                let patch = value()?;
                if !patch.is_array() {
                    return Err(ApiError::bad_request(
                        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
                    ));
                }
                serde_json::from_value(patch).map(Self::Json).map_err(|_| ApiError::unprocessable())
            }
            _ => {
                let offered = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";
                Err(ApiError::unsupported_media_type(offered))
            }
        }
    }

    /// The object after the change.
    ///
    /// # Errors
    /// A test in the patch failed, or a path leads nowhere.
    pub(super) fn apply(&self, mut object: Value) -> Result<Value, ApiError> {
        match self {
            Self::Merge(patch) => json_patch::merge(&mut object, patch),
            Self::Json(patch) => {
                json_patch::patch(&mut object, patch).map_err(|_| ApiError::unprocessable())?;
            }
        }
        Ok(object)
    }
}
