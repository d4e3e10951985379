//! POST: a new object.

use http::StatusCode;
use serde_json::Value;

use super::{Written, answer, commit, decode, settle_namespace, stored};
use crate::api::{Answer, Api, Call};
use crate::kinds::{self, Kind, Object};
use crate::status::ApiError;
use crate::store::{Action, Condition, StoreError};

/// How often another name is tried for `generateName`.
const NAMES: usize = 8;

pub(in crate::api) async fn create(api: &Api, call: &Call<'_>, body: Value) -> Result<Answer, ApiError> {
    let validation = call.query.field_validation("CreateOptions")?;
    let dry = call.query.dry_run("CreateOptions")?;
    let (mut object, warnings) = decode(call, body, validation)?;
    settle_namespace(call, &mut object)?;
    if !object.meta_str("resourceVersion").is_empty() {
        return Err(ApiError::plain_500("resourceVersion should not be set on objects to be created"));
    }
    let generate = object.name().is_empty() && !object.meta_str("generateName").is_empty();
    for _ in 0..NAMES {
        if generate {
            let name = format!("{}{}", object.meta_str("generateName"), suffix());
            object.set_meta("name", name);
        }
        match make(api, call, object.clone(), dry).await {
            Err(error) if generate && error.reason == "AlreadyExists" => {}
            Err(error) => return Err(error),
            Ok(written) => return Ok(answer(call, written, &warnings)),
        }
    }
    Err(ApiError::already_exists(call.kind().subject(object.name())))
}

/// Makes an object that is not there, for POST and for PUT.
pub(super) async fn make(
    api: &Api,
    call: &Call<'_>,
    mut object: Object,
    dry: bool,
) -> Result<Written, ApiError> {
    let kind = call.kind();
    stamp(kind, &mut object);
    let causes = kinds::check_create(kind, &object);
    if !causes.is_empty() {
        return Err(ApiError::invalid(kind.subject_of_fields(object.name()), causes));
    }
    if kind.namespaced {
        let namespace = call.namespace();
        if api.store.get(&kinds::NAMESPACE.key("", namespace)).await?.is_none() {
            return Err(ApiError::not_found(kinds::NAMESPACE.subject(namespace)));
        }
    }
    let key = kind.key(call.namespace(), object.name());
    let exists = || ApiError::already_exists(kind.subject(key.name()));
    let value = stored(&object)?;
    if dry {
        return match api.store.get(&key).await? {
            Some(_) => Err(exists()),
            None => Ok(Written { status: StatusCode::CREATED, object }),
        };
    }
    match commit(api, "create", key.clone(), Condition::Absent, Action::Put(value)).await {
        Ok(event) => {
            object.set_meta("resourceVersion", event.revision.to_string());
            Ok(Written { status: StatusCode::CREATED, object })
        }
        Err(StoreError::Conflict { .. }) => Err(exists()),
        Err(error) => Err(error.into()),
    }
}

/// Sets what only the server sets.
pub(in crate::api) fn stamp(kind: &Kind, object: &mut Object) {
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        object.clear_meta(field);
    }
    object.set_meta("uid", uid());
    object.set_meta("creationTimestamp", kinds::now_in_seconds());
    (kind.complete)(object);
}

/// A random uuid (version 4).
fn uid() -> String {
    let mut bytes = random::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Five letters that spell no word.
fn suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    random::<5>().iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        // Without randomness a uid could come twice; nothing sensible can be done.
        panic!("the system gives no random bytes: {error}");
    }
    bytes
}
