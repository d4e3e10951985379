//! PATCH: a change to an object that exists.

use serde_json::{Value, json};

use super::update::{expected_revision, replace};
use super::{TRIES, answer, decode, settle_name, settle_namespace};
use crate::api::media::Patch;
use crate::api::{Answer, Api, Call};
use crate::status::{ApiError, Cause, Subject};

pub(in crate::api) async fn patch(api: &Api, call: &Call<'_>, patch: Patch) -> Result<Answer, ApiError> {
    let validation = call.query.field_validation("PatchOptions")?;
    let dry = call.query.dry_run("PatchOptions")?;
    let kind = call.kind();
    let key = kind.key(call.namespace(), call.name());
    for _ in 0..TRIES {
        let Some(record) = api.store.get(&key).await? else {
            return Err(ApiError::not_found(kind.subject(key.name())));
        };
        let old = Api::object(&record, record.modified)?;
        let patched = patch.apply(old.clone().typed(kind).into_value())?;
        let (mut object, warnings) = decode(call, patched.clone(), validation)
            .map_err(|error| not_an_object(call, &patched, &error))?;
        settle_name(call, &object)?;
        settle_namespace(call, &mut object)?;
        // Without a revision of its own, a patch is for whatever version is the newest.
        let wanted = expected_revision(&object)?;
        if wanted.is_some_and(|revision| revision != record.modified) {
            return Err(ApiError::modified(kind.subject(key.name())));
        }
        if let Some(written) = replace(api, call, "patch", &record, &old, object, dry).await? {
            return Ok(answer(call, written, &warnings));
        }
    }
    Err(ApiError::modified(kind.subject(key.name())))
}

/// What is said of a patch that makes something else of an object.
fn not_an_object(call: &Call<'_>, patched: &Value, error: &ApiError) -> ApiError {
    let kind = call.kind().kind;
    let prefix = format!(" cannot be handled as a {kind}: ");
    let why = error.message.split_once(&prefix).map_or(&*error.message, |parts| parts.1);
    let cause = Cause::invalid("patch", &json!(patched.to_string()), why);
    ApiError::invalid(Subject { group: "", kind: "", name: "" }, vec![cause])
}
