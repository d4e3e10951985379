//! PUT: another version of an object, or a new object.

use http::StatusCode;
use serde_json::{Value, json};

use super::{
    TRIES, Written, answer, commit, create, decode, other_uid, settle_name, settle_namespace, stored,
};
use crate::api::{Answer, Api, Call};
use crate::kinds::{self, Object};
use crate::status::{ApiError, Cause};
use crate::store::{Action, Condition, Record, StoreError};

pub(in crate::api) async fn update(api: &Api, call: &Call<'_>, body: Value) -> Result<Answer, ApiError> {
    let validation = call.query.field_validation("UpdateOptions")?;
    let dry = call.query.dry_run("UpdateOptions")?;
    let (mut object, warnings) = decode(call, body, validation)?;
    settle_name(call, &object)?;
    settle_namespace(call, &mut object)?;
    let wanted = expected_revision(&object)?;
    let kind = call.kind();
    let key = kind.key(call.namespace(), call.name());
    for _ in 0..TRIES {
        let written = match api.store.get(&key).await? {
            Some(record) => {
                let old = Api::object(&record, record.modified)?;
                let (given, found) = (object.meta_str("uid"), old.meta_str("uid"));
                if !given.is_empty() && given != found {
                    return Err(other_uid(kind, &key, given, found));
                }
                match wanted {
                    None => {
                        let why = "must be specified for an update";
                        let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
                        return Err(ApiError::invalid(kind.subject(key.name()), vec![cause]));
                    }
                    Some(revision) if revision != record.modified => {
                        return Err(ApiError::modified(kind.subject(key.name())));
                    }
                    Some(_) => {}
                }
                replace(api, call, "update", &record, &old, object.clone(), dry).await?
            }
            None => {
                let given = object.meta_str("uid");
                if !given.is_empty() {
                    return Err(other_uid(kind, &key, given, ""));
                }
                if !kind.create_on_update {
                    return Err(ApiError::not_found(kind.subject(key.name())));
                }
                match create::make(api, call, object.clone(), dry).await {
                    Err(error) if error.reason == "AlreadyExists" => None,
                    made => Some(made?),
                }
            }
        };
        if let Some(written) = written {
            return Ok(answer(call, written, &warnings));
        }
    }
    Err(ApiError::modified(kind.subject(key.name())))
}

/// The revision that an object says it was read at; none if it does not say.
pub(super) fn expected_revision(object: &Object) -> Result<Option<u64>, ApiError> {
    let text = object.meta_str("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    let revision: u64 = text
        .parse()
        .map_err(|_| ApiError::plain_500(format!("strconv.ParseUint: parsing {text:?}: invalid syntax")))?;
    Ok((revision != 0).then_some(revision))
}

/// Puts an object in the place of `old`, for PUT and for PATCH. None if another write came between.
///
/// An object that equals the old one is not written. One that is being deleted goes when its last finalizer
/// does.
pub(super) async fn replace(
    api: &Api,
    call: &Call<'_>,
    verb: &'static str,
    record: &Record,
    old: &Object,
    mut object: Object,
    dry: bool,
) -> Result<Option<Written>, ApiError> {
    let kind = call.kind();
    if object.meta_str("uid").is_empty() {
        object.copy_meta("uid", old);
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        object.copy_meta(field, old);
    }
    (kind.complete)(&mut object);
    let causes = kinds::check_update(kind, &object, old);
    if !causes.is_empty() {
        return Err(ApiError::invalid(kind.subject_of_fields(call.name()), causes));
    }
    let value = stored(&object)?;
    let gone = object.meta_value("deletionTimestamp").is_some() && object.finalizers().is_empty();
    object.set_meta("resourceVersion", record.modified.to_string());
    if dry || !gone && value == record.value {
        return Ok(Some(Written { status: StatusCode::OK, object }));
    }
    let action = if gone { Action::Delete } else { Action::Put(value) };
    match commit(api, verb, record.key.clone(), Condition::At(record.modified), action).await {
        Ok(event) => {
            if !gone {
                object.set_meta("resourceVersion", event.revision.to_string());
            }
            Ok(Some(Written { status: StatusCode::OK, object }))
        }
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
