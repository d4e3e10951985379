//! From a request to an answer.

mod discovery;
mod health;
mod media;
mod openapi;
mod output;
mod query;
mod route;
mod selector;
mod verbs;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::output::Shape;
use self::query::Query;
use self::route::{Route, Target};
use crate::kinds::{self, Kind, Object};
use crate::status::ApiError;
use crate::store::{Action, Change, Condition, Record, Store, StoreError};

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(crate) type Answer = Response<Body>;

/// What a request body may weigh.
const BODY_MAX: usize = 3 << 20;

/// What one object may weigh in the store.
const OBJECT_MAX: usize = 1536 << 10;

/// How many watches may be open at once.
const WATCHES_MAX: usize = 16_384;

/// The API over a store.
#[derive(Debug)]
pub(crate) struct Api {
    store: Arc<dyn Store>,
    ending: CancellationToken,
    watches: Arc<AtomicUsize>,
}

/// A request to one resource, read as far as it is the same for all verbs.
struct Call<'a> {
    target: &'a Target,
    query: &'a Query,
    shape: Shape,
}

impl Call<'_> {
    fn kind(&self) -> &'static Kind {
        self.target.kind
    }

    /// The name in the path; empty for a collection.
    fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    /// The namespace in the path; empty for none.
    fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }
}

impl Api {
    /// The API of a store. Watches end when `ending` is cancelled.
    pub(crate) fn new(store: Arc<dyn Store>, ending: CancellationToken) -> Self {
        Self { store, ending, watches: Arc::new(AtomicUsize::new(0)) }
    }

    /// Makes what every cluster has.
    pub(crate) async fn bootstrap(&self) -> Result<(), StoreError> {
        for mut namespace in kinds::initial_namespaces() {
            let kind = &kinds::NAMESPACE;
            verbs::stamp(kind, &mut namespace);
            let key = kind.key("", namespace.name());
            let value = namespace.to_stored().unwrap_or_default();
            let change = Change { key, condition: Condition::Absent, action: Action::Put(value) };
            match self.store.commit(change).await {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether a path is answered without a token.
    pub(crate) fn is_public(path: &str) -> bool {
        matches!(path, "/healthz" | "/livez" | "/readyz" | "/version")
    }

    /// Answers a request. Cancel safe: a write happens, or not, as a whole.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let accept = head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let answered = match route::route(head.uri.path()) {
            Route::Health(check) => Ok(health::answer(self, check, &query).await),
            Route::Version => Ok(json(StatusCode::OK, &discovery::version())),
            Route::Discovery(what) => discovery::answer(what, accept),
            Route::OpenApi(path) => openapi::answer(path.as_deref()),
            Route::NoSuchPage => Ok(text(StatusCode::NOT_FOUND, "404 page not found\n")),
            Route::NoSuchResource => Err(ApiError::no_such_resource()),
            Route::Resource(target) => {
                let content_type =
                    head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
                self.resource(&head.method, &target, &query, accept, content_type, body).await
            }
        };
        answered.unwrap_or_else(|error| failure(&error))
    }

    async fn resource(
        &self,
        method: &Method,
        target: &Target,
        query: &Query,
        accept: &str,
        content_type: &str,
        body: Incoming,
    ) -> Result<Answer, ApiError> {
        let verb = target.verb(method, query).ok_or_else(ApiError::method_not_allowed)?;
        let call = Call { target, query, shape: Shape::negotiate(accept, query)? };
        match verb {
            "get" => verbs::get(self, &call).await,
            "list" => verbs::list(self, &call).await,
            "watch" => verbs::watch(self, &call).await,
            "create" => verbs::create(self, &call, media::object(content_type, &read(body).await?)?).await,
            "update" => verbs::update(self, &call, media::object(content_type, &read(body).await?)?).await,
            "patch" => {
                let patch = media::Patch::read(content_type, &read(body).await?)?;
                verbs::patch(self, &call, patch).await
            }
            "delete" => verbs::delete(self, &call, &read(body).await?).await,
            "deletecollection" => verbs::delete_collection(self, &call, &read(body).await?).await,
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// The object of a record.
    fn object(record: &Record, revision: u64) -> Result<Object, ApiError> {
        Object::from_record(record, revision).map_err(|error| {
            ApiError::internal(format!("{} in the store cannot be read: {error}", record.key))
        })
    }

    /// Counts a watch in, if there is room.
    fn enter_watch(&self) -> Result<Place, ApiError> {
        let place = Place(Arc::clone(&self.watches));
        if place.0.fetch_add(1, Ordering::AcqRel) >= WATCHES_MAX {
            return Err(ApiError::too_many_requests("too many watches are open; please try again later"));
        }
        Ok(place)
    }
}

/// One of the places for watches; free again when dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Compacted { requested, oldest } => {
                Self::expired(format!("too old resource version: {requested} ({oldest})"))
            }
            StoreError::Future { requested, current } => Self::too_large_revision(requested, current),
            StoreError::Closed => Self::unavailable("the server is shutting down"),
            failed @ StoreError::Failed { .. } => Self::internal(failed.to_string()),
            // The verbs answer conflicts themselves.
            StoreError::Conflict { key, .. } => Self::internal(format!("{key} changed too often; try again")),
        }
    }
}

async fn read(body: Incoming) -> Result<Bytes, ApiError> {
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(BODY_MAX)),
        Err(error) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
    }
}

fn full(status: StatusCode, content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(bytes.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    full(status, "text/plain; charset=utf-8", text)
}

fn json(status: StatusCode, value: &Value) -> Answer {
    // Only maps with keys that are not text cannot be written, and there are none.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    full(status, "application/json", bytes)
}

/// The answer to a failed request.
pub(crate) fn failure(error: &ApiError) -> Answer {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json(status, &error.to_status());
    if let Some(seconds) = error.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// Adds a `Warning` header for each text.
fn warn(answer: &mut Answer, warnings: &[String]) {
    for warning in warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {warning:?}")) {
            answer.headers_mut().append(WARNING, value);
        }
    }
}
