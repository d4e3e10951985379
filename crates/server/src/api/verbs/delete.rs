//! DELETE: an object, or many.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::{TRIES, commit, stored};
use crate::api::query::check_dry_run;
use crate::api::selector::Selector;
use crate::api::{Answer, Api, Call, json as answer_json};
use crate::kinds::{self, Kind, Object};
use crate::status::ApiError;
use crate::store::{Action, Condition, Key, PageRequest, StoreError};

/// `DeleteOptions`, as far as they matter here: nothing has dependents, so the propagation policy does not.
#[derive(Debug, Default)]
struct Options {
    uid: Option<String>,
    revision: Option<String>,
    dry: bool,
}

impl Options {
    fn read(call: &Call<'_>, body: &Bytes) -> Result<Self, ApiError> {
        let mut options = Self { dry: call.query.dry_run("DeleteOptions")?, ..Self::default() };
        if body.is_empty() {
            return Ok(options);
        }
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        let kind = body["kind"].as_str().unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            let version = body["apiVersion"].as_str().unwrap_or_default();
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?}"
            )));
        }
        let given: Vec<_> =
            body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        options.dry |= check_dry_run(&given, "DeleteOptions")?;
        let precondition = |name: &str| body["preconditions"][name].as_str().map(str::to_owned);
        options.uid = precondition("uid");
        options.revision = precondition("resourceVersion");
        Ok(options)
    }

    fn check(&self, kind: &Kind, object: &Object) -> Result<(), ApiError> {
        let refused = |why: String| Err(ApiError::conflict(kind.subject_of_fields(object.name()), &why));
        let (uid, revision) = (object.meta_str("uid"), object.meta_str("resourceVersion"));
        match (&self.uid, &self.revision) {
            (Some(wanted), _) if wanted != uid => refused(format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). \
                 The object might have been deleted and then recreated"
            )),
            (_, Some(wanted)) if wanted != revision => refused(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion \
                 in record ({revision}). The object might have been modified"
            )),
            _ => Ok(()),
        }
    }
}

/// What became of an object.
enum Outcome {
    Gone(Object),
    /// It waits for its finalizers.
    Marked(Object),
}

pub(in crate::api) async fn delete(api: &Api, call: &Call<'_>, body: &Bytes) -> Result<Answer, ApiError> {
    let options = Options::read(call, body)?;
    let kind = call.kind();
    let key = kind.key(call.namespace(), call.name());
    let answer = match remove(api, kind, &key, &options).await? {
        Outcome::Marked(object) => call.shape.object(kind, object),
        Outcome::Gone(object) => json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {
                "name": key.name(), "group": kind.group, "kind": kind.plural, "uid": object.meta_str("uid"),
            },
        }),
    };
    Ok(answer_json(StatusCode::OK, &answer))
}

pub(in crate::api) async fn delete_collection(
    api: &Api,
    call: &Call<'_>,
    body: &Bytes,
) -> Result<Answer, ApiError> {
    let options = Options::read(call, body)?;
    let kind = call.kind();
    let selector = Selector::read(call.query)?;
    let scope = selector.scope(kind, call.target.namespace.as_deref());
    let page = api.store.list(PageRequest { scope, at: None, after: None, limit: None }).await?;
    let mut removed = Vec::new();
    for record in &page.records {
        if !selector.selects(&Api::object(record, record.modified)?) {
            continue;
        }
        match remove(api, kind, &record.key, &options).await {
            Ok(Outcome::Gone(object) | Outcome::Marked(object)) => removed.push(object),
            // Somebody else was faster.
            Err(error) if error.reason == "NotFound" => {}
            Err(error) => return Err(error),
        }
    }
    let meta = json!({"resourceVersion": page.revision.to_string()});
    Ok(answer_json(StatusCode::OK, &call.shape.list(kind, meta, removed)))
}

async fn remove(api: &Api, kind: &Kind, key: &Key, options: &Options) -> Result<Outcome, ApiError> {
    for _ in 0..TRIES {
        let Some(record) = api.store.get(key).await? else {
            return Err(ApiError::not_found(kind.subject(key.name())));
        };
        let mut object = Api::object(&record, record.modified)?;
        options.check(kind, &object)?;
        let waits = !object.finalizers().is_empty();
        if waits && object.meta_value("deletionTimestamp").is_some() {
            return Ok(Outcome::Marked(object));
        }
        if waits {
            object.set_meta("deletionTimestamp", kinds::now_in_seconds());
            object.set_meta("deletionGracePeriodSeconds", 0);
        }
        let action = if waits { Action::Put(stored(&object)?) } else { Action::Delete };
        let revision = if options.dry {
            record.modified
        } else {
            match commit(api, "delete", key.clone(), Condition::At(record.modified), action).await {
                Ok(event) => event.revision,
                Err(StoreError::Conflict { .. }) => continue,
                Err(error) => return Err(error.into()),
            }
        };
        if !waits {
            return Ok(Outcome::Gone(object));
        }
        object.set_meta("resourceVersion", revision.to_string());
        return Ok(Outcome::Marked(object));
    }
    Err(ApiError::modified(kind.subject(key.name())))
}
