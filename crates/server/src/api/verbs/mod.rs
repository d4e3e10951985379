//! What can be done with a resource, one file a verb.

mod create;
mod delete;
mod patch;
mod read;
mod update;
mod watch;

pub(super) use self::create::{create, stamp};
pub(super) use self::delete::{delete, delete_collection};
pub(super) use self::patch::patch;
pub(super) use self::read::{get, list};
pub(super) use self::update::update;
pub(super) use self::watch::watch;

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::query::FieldValidation;
use super::{Answer, Api, Call, OBJECT_MAX, json, warn};
use crate::kinds::{DecodeError, Kind, Object};
use crate::status::ApiError;
use crate::store::{Action, Change, Condition, Event, Key, StoreError};

/// How often a write without a revision is tried against the newest version before it is given up.
const TRIES: usize = 32;

/// What a write came to.
struct Written {
    status: StatusCode,
    object: Object,
}

/// The object in a request.
fn decode(
    call: &Call<'_>,
    body: Value,
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), ApiError> {
    let kind = call.kind();
    let refused = |given: &str, why: &str| {
        let text =
            format!("{given} in version {:?} cannot be handled as a {}: {why}", kind.version, kind.kind);
        ApiError::bad_request(text)
    };
    let decoded = kind.decode(body).map_err(|error| match error {
        DecodeError::WrongKind { given, why } => refused(&given, &why),
        DecodeError::Field(why) => refused(kind.kind, &why),
    })?;
    match validation {
        FieldValidation::Strict if !decoded.unknown.is_empty() => {
            let why = format!("strict decoding error: {}", decoded.unknown.join(", "));
            Err(refused(kind.kind, &why))
        }
        FieldValidation::Ignore => Ok((decoded.object, Vec::new())),
        _ => Ok((decoded.object, decoded.unknown)),
    }
}

/// Holds the namespace of a body against that of the path, and fills it in.
fn settle_namespace(call: &Call<'_>, object: &mut Object) -> Result<(), ApiError> {
    let given = object.meta_str("namespace");
    if given != call.namespace() && !given.is_empty() {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(why));
    }
    if call.kind().namespaced {
        object.set_meta("namespace", call.namespace());
    }
    Ok(())
}

/// Holds the name of a body against that of the path.
fn settle_name(call: &Call<'_>, object: &Object) -> Result<(), ApiError> {
    match (object.name(), call.name()) {
        ("", wanted) => Err(ApiError::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ))),
        (given, wanted) if given != wanted => Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({wanted})"
        ))),
        _ => Ok(()),
    }
}

fn stored(object: &Object) -> Result<Bytes, ApiError> {
    let value = object.to_stored().map_err(|error| ApiError::internal(error.to_string()))?;
    if value.len() > OBJECT_MAX {
        return Err(ApiError::too_large(OBJECT_MAX));
    }
    Ok(value)
}

/// Commits a change and writes it down for the audit.
async fn commit(
    api: &Api,
    verb: &'static str,
    key: Key,
    condition: Condition,
    action: Action,
) -> Result<Arc<Event>, StoreError> {
    let outcome = api.store.commit(Change { key: key.clone(), condition, action }).await;
    match &outcome {
        Ok(event) => tracing::debug!(target: "audit", verb, %key, revision = event.revision, "written"),
        Err(error) => tracing::debug!(target: "audit", verb, %key, %error, "refused"),
    }
    outcome
}

/// The answer to a write.
fn answer(call: &Call<'_>, written: Written, warnings: &[String]) -> Answer {
    let mut answer = json(written.status, &call.shape.object(call.kind(), written.object));
    warn(&mut answer, warnings);
    answer
}

/// What is said of a uid that is not the object's.
fn other_uid(kind: &Kind, key: &Key, given: &str, found: &str) -> ApiError {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {given}, UID in object meta: {found}",
        kind.plural,
        key.namespace(),
        key.name()
    );
    ApiError::conflict(kind.subject(key.name()), &why)
}
