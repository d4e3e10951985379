//! A Lease behind kube's client, on connections of its own.

use std::sync::Mutex;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use incumbent_core::{LockName, Outcome, Record, Refusal, Revision, WatchInput};
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};

use super::LeaseApi;
use super::object::{from_record, to_record};

/// The longest line of a watch, and the longest answer: an object has at most 1.5 MiB in etcd.
const LONGEST_ANSWER: usize = 8 << 20;
/// How often the server is asked to end a watch that nothing ends, so that a dead connection is noticed even if
/// nothing else does.
const WATCH_SPAN: u32 = 3600;

/// One Lease on a Kubernetes API server.
///
/// Built from a [`Config`] it has connections of its own, one for requests and one for the watch, without the
/// retries that kube puts beneath a client: a request that is retried out of sight may be carried out long after
/// its sender gave it up.
pub struct KubeLease {
    lock: LockName,
    source: Source,
    requests: Mutex<Option<Client>>,
    watches: Mutex<Option<Client>>,
}

enum Source {
    /// Connections are made from this, and made anew whenever one is in doubt.
    Own(Box<Config>),
    /// Somebody else's client.
    Shared(Client),
}

impl KubeLease {
    /// A Lease reached by connections of its own. Nothing is sent yet.
    ///
    /// # Errors
    /// What kube says if no client can be made of `config`: for instance a TLS backend that is not compiled in,
    /// or credentials that cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(
        mut config: Config,
        lock: LockName,
        connect_timeout: Duration,
    ) -> Result<KubeLease, kube::Error> {
        config.default_retry = false;
        // Deadlines are the caller's; a watch on which nothing happens is fine.
        config.read_timeout = None;
        config.write_timeout = None;
        config.connect_timeout = Some(connect_timeout);
        let first = Client::try_from(config.clone())?;
        Ok(KubeLease {
            lock,
            source: Source::Own(Box::new(config)),
            requests: Mutex::new(Some(first)),
            watches: Mutex::new(None),
        })
    }

    /// A Lease reached through a client that others use too.
    ///
    /// *Unisolated*: its limits, retries and a half-open connection of that client are shared, so a renewal can
    /// wait behind other requests, or be carried out long after it was given up. Prefer [`KubeLease::new`].
    pub fn from_client(client: Client, lock: LockName) -> KubeLease {
        KubeLease {
            lock,
            source: Source::Shared(client),
            requests: Mutex::new(None),
            watches: Mutex::new(None),
        }
    }

    fn client(&self, slot: &Mutex<Option<Client>>) -> Result<Client, kube::Error> {
        let config = match &self.source {
            Source::Shared(client) => return Ok(client.clone()),
            Source::Own(config) => config,
        };
        let mut slot = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(client) = &*slot {
            return Ok(client.clone());
        }
        // Reads the credentials anew, too.
        let client = Client::try_from((**config).clone())?;
        *slot = Some(client.clone());
        Ok(client)
    }

    fn forget(slot: &Mutex<Option<Client>>) {
        *slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.lock.namespace())
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.lock.name())
    }

    /// Sends one request; after a 401 once more, with credentials loaded again.
    fn send(
        &self,
        method: Method,
        path: String,
        content: &'static str,
        body: Option<Value>,
    ) -> BoxFuture<'static, Outcome> {
        let bytes = body.map(|b| b.to_string().into_bytes()).unwrap_or_default();
        let first = self.client(&self.requests);
        let again = match &self.source {
            Source::Own(config) => Some((**config).clone()),
            Source::Shared(_) => None,
        };
        let writes = method != Method::GET;
        Box::pin(async move {
            let client = match first {
                Ok(client) => client,
                Err(e) => return not_sent(&e),
            };
            let outcome = once(&client, &method, &path, content, bytes.clone(), writes).await;
            let unauthorized = matches!(outcome, Outcome::Refused { refusal: Refusal::Unauthorized, .. });
            match (unauthorized, again) {
                (true, Some(config)) => match Client::try_from(config) {
                    Ok(client) => once(&client, &method, &path, content, bytes, writes).await,
                    Err(e) => not_sent(&e),
                },
                _ => outcome,
            }
        })
    }
}

async fn once(
    client: &Client,
    method: &Method,
    path: &str,
    content: &'static str,
    body: Vec<u8>,
    writes: bool,
) -> Outcome {
    let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
    if writes {
        request = request.header(header::CONTENT_TYPE, content);
    }
    let request = match request.body(Body::from(body)) {
        Ok(request) => request,
        Err(e) => return not_sent(&e),
    };
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(e) => return transport_failure(&e),
    };
    let status = response.status();
    let retry_after = retry_after(&response);
    let body = match collect(response).await {
        Ok(body) => body,
        Err(e) => return unknown(format!("the answer broke off: {e}"), None),
    };
    classify(status, retry_after, &body)
}

async fn collect(response: Response<Body>) -> Result<Vec<u8>, String> {
    let limited = http_body_util::Limited::new(response.into_body(), LONGEST_ANSWER);
    limited.collect().await.map(|b| b.to_bytes().to_vec()).map_err(|e| e.to_string())
}

fn not_sent(e: &dyn std::error::Error) -> Outcome {
    Outcome::Refused { refusal: Refusal::NotSent, message: told(e), retry_after: None }
}

fn unknown(message: String, retry_after: Option<Duration>) -> Outcome {
    Outcome::Unknown { message, retry_after }
}

/// The sentence of an error and of all that caused it, each once.
fn told(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    // kube's own name for "the service beneath failed" says nothing to people.
    text.strip_prefix("ServiceError: ").map_or(text.clone(), str::to_owned)
}

/// A failure before any answer. Only if the connection could not be made is it certain that nothing was sent.
fn transport_failure(e: &kube::Error) -> Outcome {
    let mut source: Option<&dyn std::error::Error> = Some(e);
    while let Some(cause) = source {
        let refused = cause.downcast_ref::<std::io::Error>().is_some_and(|io| {
            matches!(io.kind(), std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::AddrNotAvailable)
        });
        let no_connection = cause.to_string() == "client error (Connect)";
        if refused || no_connection {
            return not_sent(e);
        }
        source = cause.source();
    }
    match e {
        kube::Error::Auth(_) => not_sent(e),
        _ => unknown(told(e), None),
    }
}

fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    value.parse().ok().map(Duration::from_secs)
}

fn classify(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Outcome {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    if status.is_success() {
        return match parsed.map(to_record) {
            Some(Ok(record)) => Outcome::Ok(record),
            Some(Err(e)) => unknown(e, None),
            None => unknown("the answer is not a Lease".to_owned(), None),
        };
    }
    let answer = parsed.unwrap_or_default();
    let said = answer["message"].as_str().map_or_else(|| format!("HTTP {status}"), str::to_owned);
    let refused = |refusal| Outcome::Refused { refusal, message: said.clone(), retry_after };
    match status {
        StatusCode::CONFLICT => Outcome::Conflict,
        StatusCode::NOT_FOUND => match answer["details"]["kind"].as_str() {
            Some("namespaces") => refused(Refusal::NoNamespace),
            Some("leases") => Outcome::NotFound,
            // Not the words of an API server about a Lease: a proxy's, or the API is not served.
            _ => refused(Refusal::Invalid),
        },
        StatusCode::TOO_MANY_REQUESTS => refused(Refusal::Throttled),
        StatusCode::UNAUTHORIZED => refused(Refusal::Unauthorized),
        StatusCode::FORBIDDEN => refused(Refusal::Forbidden),
        s if s.is_client_error() => refused(Refusal::Invalid),
        _ => unknown(said, retry_after),
    }
}

impl LeaseApi for KubeLease {
    fn read(&self) -> BoxFuture<'static, Outcome> {
        self.send(Method::GET, self.path(), "", None)
    }

    fn create(&self, record: Record) -> BoxFuture<'static, Outcome> {
        let body = from_record(&record, &self.lock);
        self.send(Method::POST, self.collection(), "application/json", Some(body))
    }

    fn update(&self, record: Record) -> BoxFuture<'static, Outcome> {
        let body = from_record(&record, &self.lock);
        self.send(Method::PUT, self.path(), "application/json", Some(body))
    }

    fn patch(&self, uid: String, key: String, value: Option<String>) -> BoxFuture<'static, Outcome> {
        let body = json!({ "metadata": { "uid": uid, "annotations": { key: value } } });
        self.send(Method::PATCH, self.path(), "application/merge-patch+json", Some(body))
    }

    fn rehearse(&self, present: Option<Record>) -> BoxFuture<'static, Outcome> {
        let method = if present.is_some() { Method::PUT } else { Method::POST };
        let path = if present.is_some() { self.path() } else { self.collection() };
        let record = present.unwrap_or_else(|| Record {
            holder: Some(String::new()),
            duration_seconds: Some(1),
            ..Record::default()
        });
        let body = from_record(&record, &self.lock);
        self.send(method, format!("{path}?dryRun=All"), "application/json", Some(body))
    }

    fn watch(&self, from: Option<Revision>) -> BoxStream<'static, WatchInput> {
        let from = from.map(|r| format!("&resourceVersion={r}")).unwrap_or_default();
        let uri = format!(
            "{}?watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds={WATCH_SPAN}{from}",
            self.collection(),
            self.lock.name()
        );
        // A watch that broke may have had a dead connection: each has its own.
        Self::forget(&self.watches);
        let client = self.client(&self.watches);
        stream::once(open(client, uri)).flatten().boxed()
    }

    fn gave_up(&self) {
        Self::forget(&self.requests);
    }
}

async fn open(client: Result<Client, kube::Error>, uri: String) -> BoxStream<'static, WatchInput> {
    let only = |input| stream::iter([input]).boxed();
    let request = Request::builder().uri(uri).header(header::ACCEPT, "application/json").body(Body::empty());
    let (Ok(client), Ok(request)) = (client, request) else { return only(WatchInput::Broken) };
    let Ok(response) = client.send(request).await else { return only(WatchInput::Broken) };
    match response.status() {
        StatusCode::OK => {}
        StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED => {
            let body = collect(response).await.unwrap_or_default();
            let said: Value = serde_json::from_slice(&body).unwrap_or_default();
            return only(WatchInput::Refused(
                said["message"].as_str().unwrap_or("watching is refused").to_owned(),
            ));
        }
        _ => return only(WatchInput::Broken),
    }
    let lines = Lines { body: response.into_body(), rest: Vec::new(), done: false };
    stream::iter([WatchInput::Opened])
        .chain(stream::unfold(lines, |mut lines| async move {
            if lines.done {
                return None;
            }
            loop {
                match lines.next().await.map(|line| event(&line)) {
                    Some(Event::Tell(input)) => return Some((input, lines)),
                    Some(Event::Ignore) => {}
                    Some(Event::End) | None => {
                        lines.done = true;
                        return Some((WatchInput::Broken, lines));
                    }
                }
            }
        }))
        .boxed()
}

/// All Leases of a namespace, by one request that must be answered within `patience`.
///
/// # Errors
/// One sentence: that the server cannot be reached, or what it refused.
pub async fn list_leases(
    mut config: Config,
    namespace: &str,
    patience: Duration,
) -> Result<Vec<(LockName, Record)>, ListError> {
    let failed = |message: String| {
        ListError(format!("the leases of namespace {namespace} cannot be listed: {message}"))
    };
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|e| failed(told(&e)))?;
    let request = Request::builder()
        .uri(format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"))
        .header(header::ACCEPT, "application/json")
        .body(Body::empty())
        .map_err(|e| failed(told(&e)))?;
    let answer = async {
        let response = client.send(request).await.map_err(|e| told(&e))?;
        let status = response.status();
        let body: Value = serde_json::from_slice(&collect(response).await?).map_err(|e| e.to_string())?;
        if status.is_success() {
            return Ok(body);
        }
        Err(body["message"].as_str().map_or_else(|| format!("HTTP {status}"), str::to_owned))
    };
    let mut body = match tokio::time::timeout(patience, answer).await {
        Ok(answer) => answer.map_err(failed)?,
        Err(_) => return Err(failed(format!("no answer within {patience:?}"))),
    };
    let Value::Array(items) = body["items"].take() else {
        return Err(failed("the answer is not a list".to_owned()));
    };
    let mut leases = Vec::with_capacity(items.len());
    for item in items {
        let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let lock = LockName::new(namespace, &name).map_err(|e| failed(e.to_string()))?;
        leases.push((lock, to_record(item).map_err(failed)?));
    }
    Ok(leases)
}

/// Why leases could not be listed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ListError(String);

enum Event {
    Tell(WatchInput),
    Ignore,
    End,
}

fn event(line: &[u8]) -> Event {
    let Ok(mut event) = serde_json::from_slice::<Value>(line) else { return Event::End };
    let object = event["object"].take();
    match event["type"].as_str() {
        Some("ADDED" | "MODIFIED") => {
            to_record(object).map_or(Event::End, |r| Event::Tell(WatchInput::Changed(r)))
        }
        Some("DELETED") => {
            to_record(object).map_or(Event::End, |r| Event::Tell(WatchInput::Deleted(r.revision)))
        }
        Some("BOOKMARK") => Event::Ignore,
        // ERROR, 410 among others.
        _ => Event::End,
    }
}

/// The lines of a watch's body.
struct Lines {
    body: Body,
    rest: Vec<u8>,
    done: bool,
}

impl Lines {
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=end).collect();
                line.pop();
                return Some(line);
            }
            let data = self.body.frame().await?.ok()?.into_data().ok();
            self.rest.extend_from_slice(&data.unwrap_or_default());
            if self.rest.len() > LONGEST_ANSWER {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, body: &str) -> Outcome {
        classify(StatusCode::from_u16(code).unwrap(), None, body.as_bytes())
    }

    #[test]
    fn b67_every_answer_has_its_class() {
        let not_found = r#"{"kind":"Status","message":"leases.coordination.k8s.io \"x\" not found","details":{"kind":"leases"}}"#;
        let namespace =
            r#"{"kind":"Status","message":"namespaces \"y\" not found","details":{"kind":"namespaces"}}"#;
        assert!(matches!(status(404, not_found), Outcome::NotFound));
        let refusal = |o| match o {
            Outcome::Refused { refusal, .. } => refusal,
            other => panic!("{other:?}"),
        };
        assert_eq!(refusal(status(404, namespace)), Refusal::NoNamespace);
        assert_eq!(refusal(status(404, "404 page not found")), Refusal::Invalid);
        assert_eq!(refusal(status(403, "{}")), Refusal::Forbidden);
        assert_eq!(refusal(status(401, "{}")), Refusal::Unauthorized);
        assert_eq!(refusal(status(429, "{}")), Refusal::Throttled);
        assert_eq!(refusal(status(422, "{}")), Refusal::Invalid);
        assert!(matches!(status(409, "{}"), Outcome::Conflict));
        for code in [500, 502, 503, 504] {
            assert!(matches!(status(code, "<html>"), Outcome::Unknown { .. }), "{code}");
        }
        assert!(matches!(status(200, "<html>"), Outcome::Unknown { .. }), "an answer that is no Lease");
    }

    #[test]
    fn b70_an_error_event_ends_the_watch() {
        let gone = br#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
        assert!(matches!(event(gone), Event::End));
        assert!(matches!(event(b"half a li"), Event::End));
        let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
        assert!(matches!(event(bookmark), Event::Ignore));
        let deleted = br#"{"type":"DELETED","object":{"metadata":{"resourceVersion":"9"}}}"#;
        assert!(matches!(event(deleted), Event::Tell(WatchInput::Deleted(Revision(9)))));
    }
}
