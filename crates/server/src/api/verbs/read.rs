//! GET: an object, or a list.

use http::StatusCode;
use serde_json::json;

use crate::api::selector::Selector;
use crate::api::{Answer, Api, Call, json as answer_json};
use crate::kinds::Object;
use crate::status::ApiError;
use crate::store::{Key, PageRequest, StoreError};

/// The newest committed version; a `resourceVersion` that is not newer than that is always met.
pub(in crate::api) async fn get(api: &Api, call: &Call<'_>) -> Result<Answer, ApiError> {
    let kind = call.kind();
    let wanted = call.query.resource_version()?.unwrap_or(0);
    let current = api.store.revision().await?;
    if wanted > current {
        return Err(ApiError::too_large_revision(wanted, current));
    }
    match api.store.get(&kind.key(call.namespace(), call.name())).await? {
        Some(record) => {
            let object = Api::object(&record, record.modified)?;
            Ok(answer_json(StatusCode::OK, &call.shape.object(kind, object)))
        }
        None => Err(ApiError::not_found(kind.subject(call.name()))),
    }
}

pub(in crate::api) async fn list(api: &Api, call: &Call<'_>) -> Result<Answer, ApiError> {
    call.query.check_list()?;
    let kind = call.kind();
    let selector = Selector::read(call.query)?;
    let scope = selector.scope(kind, call.target.namespace.as_deref());
    let limit = call.query.number("limit")?.filter(|limit| *limit > 0).map(|limit| limit as usize);
    let from = call.query.get("continue").map(Continue::read).transpose()?;
    let version = call.query.resource_version()?.unwrap_or(0);
    let exact = call.query.get("resourceVersionMatch") == Some("Exact");
    let at = match &from {
        Some(from) => from.revision,
        None if exact => Some(version),
        None => None,
    };
    let mut after = from.as_ref().map(|from| from.after.clone());
    let mut objects = Vec::new();
    let mut revision = at;
    // With labels, a page of the store may hold fewer objects than were asked for, so more are read.
    let remaining = loop {
        let request = PageRequest { scope: scope.clone(), at: revision, after: after.clone(), limit };
        let page = api.store.list(request).await.map_err(|error| too_old(error, from.as_ref()))?;
        if version > page.revision {
            return Err(ApiError::too_large_revision(version, page.revision));
        }
        revision = Some(page.revision);
        let mut remaining = page.remaining;
        for (index, record) in page.records.iter().enumerate() {
            after = Some(record.key.clone());
            let object = Api::object(record, record.modified)?;
            if selector.selects(&object) {
                objects.push(object);
            }
            if limit == Some(objects.len()) {
                remaining = page.remaining + page.records.len() - index - 1;
                break;
            }
        }
        if remaining == 0 || limit == Some(objects.len()) {
            break remaining;
        }
    };
    let revision = revision.unwrap_or(0);
    let mut meta = json!({"resourceVersion": revision.to_string()});
    if let Some(after) = after.filter(|_| remaining > 0) {
        meta["continue"] = Continue { revision: Some(revision), after }.write().into();
        // With a selector nobody knows how many of the rest are selected.
        if selector.selects_all_in_scope() {
            meta["remainingItemCount"] = remaining.into();
        }
    }
    Ok(answer_json(StatusCode::OK, &call.shape.list(kind, meta, objects)))
}

/// Where a list goes on. To clients it is opaque.
struct Continue {
    /// None to go on with the newest version, at the price of a list that was never true as a whole.
    revision: Option<u64>,
    after: Key,
}

impl Continue {
    fn write(&self) -> String {
        let revision = self.revision.map_or_else(|| "-".into(), |revision| revision.to_string());
        let text = format!("{revision} {}", self.after);
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn read(text: &str) -> Result<Self, ApiError> {
        let invalid = || ApiError::bad_request("invalid continue token: continue key is not valid");
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
        let bytes: Vec<u8> =
            digits.ok_or_else(invalid)?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let text = String::from_utf8(bytes).map_err(|_| invalid())?;
        let (revision, after) = text.split_once(' ').ok_or_else(invalid)?;
        let revision = match revision {
            "-" => None,
            number => Some(number.parse().map_err(|_| invalid())?),
        };
        Ok(Self { revision, after: Key::parse(after).ok_or_else(invalid)? })
    }
}

/// A list that cannot go on at its revision is told how to go on without.
fn too_old(error: StoreError, from: Option<&Continue>) -> ApiError {
    match (error, from) {
        (StoreError::Compacted { .. }, Some(from)) => {
            let token = Continue { revision: None, after: from.after.clone() }.write();
            let mut error = ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a \
                 new list without the continue parameter, or use the continue token in this response to retrieve \
                 the remainder of the results. Continuing with the provided token results in an inconsistent list",
            );
            error.list_meta = Some(json!({"continue": token}));
            error
        }
        (StoreError::Compacted { .. }, None) => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        (error, _) => error.into(),
    }
}

/// The objects as a watch begins with them.
pub(super) fn selected(
    records: &[std::sync::Arc<crate::store::Record>],
    selector: &Selector,
) -> Result<Vec<Object>, ApiError> {
    let objects = records.iter().map(|record| Api::object(record, record.modified));
    objects.filter(|object| object.as_ref().map_or(true, |object| selector.selects(object))).collect()
}
