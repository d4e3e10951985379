//! Watch: every change from a revision on, one line of JSON each, sent as soon as it is committed.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::read;
use crate::api::output::{Include, Shape};
use crate::api::selector::Selector;
use crate::api::{Answer, Api, Call, Place};
use crate::kinds::{Kind, Object};
use crate::status::ApiError;
use crate::store::{self, Event, Item, PageRequest, StoreError};

/// How long a watch lasts that does not say. Clients start anew where it ended.
const LASTS: Duration = Duration::from_secs(45 * 60);

/// How often a client that wants them gets bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

pub(in crate::api) async fn watch(api: &Api, call: &Call<'_>) -> Result<Answer, ApiError> {
    call.query.check_list()?;
    let kind = call.kind();
    let selector = Selector::read(call.query)?;
    let scope = selector.scope(kind, call.target.namespace.as_deref());
    let lasts = match call.query.number("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()).min(LASTS * 32),
        _ => LASTS,
    };
    let version = call.query.resource_version()?;
    let bookmarks = call.query.flag("allowWatchBookmarks");
    let marks_initial = call.query.flag("sendInitialEvents") && bookmarks;
    let place = api.enter_watch()?;
    let lines = Lines { kind, selector, shape: call.shape };
    let mut ready = VecDeque::new();
    // Without a revision, and for a client that asks for it, what is there comes first.
    let since = match version {
        Some(revision) if revision > 0 && !call.query.flag("sendInitialEvents") => revision,
        _ => {
            let request = PageRequest { scope: scope.clone(), at: None, after: None, limit: None };
            let page = api.store.list(request).await?;
            if let Some(wanted) = version.filter(|wanted| *wanted > page.revision) {
                return Err(ApiError::too_large_revision(wanted, page.revision));
            }
            if !matches!(call.query.get("sendInitialEvents"), Some("false")) {
                for object in read::selected(&page.records, &lines.selector)? {
                    ready.push_back(lines.line("ADDED", object));
                }
            }
            if marks_initial {
                ready.push_back(lines.bookmark(page.revision, true));
            }
            page.revision
        }
    };
    let source = match api.store.watch(scope, since).await {
        Ok(watch) => Some(watch),
        // As a real server does it: the watch is begun, and says why it cannot go on.
        Err(error @ StoreError::Compacted { .. }) => {
            ready.clear();
            ready.push_back(error_line(&error.into()));
            None
        }
        Err(error) => return Err(error.into()),
    };
    let start = Instant::now();
    let mut every = interval_at(start + BOOKMARKS, BOOKMARKS);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feed = Feed {
        ready,
        source,
        lines,
        bookmarks: bookmarks.then_some(every),
        ends: start + lasts,
        ending: api.ending.clone(),
        _place: place,
    };
    let stream = stream::unfold(feed, |mut feed| async move {
        let line = feed.next().await?;
        Some((Ok(Frame::data(line)), feed))
    });
    let mut answer = Response::new(StreamBody::new(stream).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(answer)
}

/// An open watch.
struct Feed {
    /// Lines to send before anything else.
    ready: VecDeque<Bytes>,
    /// None when it ends with what is ready.
    source: Option<store::Watch>,
    lines: Lines,
    bookmarks: Option<Interval>,
    ends: Instant,
    ending: CancellationToken,
    _place: Place,
}

impl Feed {
    /// The next line; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            let source = self.source.as_mut()?;
            tokio::select! {
                biased;
                item = source.next() => match item {
                    Ok(Item::Event(event)) => self.ready.extend(self.lines.event(&event)),
                    Ok(Item::Progress(revision)) => self.ready.push_back(self.lines.bookmark(revision, false)),
                    // A client that was too slow starts anew where its last line was.
                    Err(_) => return None,
                },
                () = self.ending.cancelled() => return None,
                () = sleep_until(self.ends) => return None,
                () = tick(&mut self.bookmarks) => source.request_progress(),
            }
        }
    }
}

async fn tick(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// How changes are written.
struct Lines {
    kind: &'static Kind,
    selector: Selector,
    shape: Shape,
}

impl Lines {
    /// The line of a change, if it matters to the client: what comes into view is added, what goes out of
    /// view is deleted.
    fn event(&self, event: &Event) -> Option<Bytes> {
        let object = |record: &Option<std::sync::Arc<store::Record>>| {
            let record = record.as_deref()?;
            match Object::from_record(record, event.revision) {
                Ok(object) => Some(object).filter(|object| self.selector.selects(object)),
                Err(error) => {
                    tracing::error!(key = %record.key, %error, "an object in the store cannot be read");
                    None
                }
            }
        };
        match (object(&event.previous), object(&event.current)) {
            (None, None) => None,
            (None, Some(new)) => Some(self.line("ADDED", new)),
            (Some(_), Some(new)) => Some(self.line("MODIFIED", new)),
            (Some(old), None) => Some(self.line("DELETED", old)),
        }
    }

    fn line(&self, kind: &str, object: Object) -> Bytes {
        line(kind, &self.shape.object(self.kind, object))
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut object = Object::new(serde_json::Map::new());
        object.set_meta("resourceVersion", revision.to_string());
        if initial_end {
            object.set_meta("annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        let mut value = match self.shape {
            Shape::Table(_) => Shape::Table(Include::Metadata).list(
                self.kind,
                json!({"resourceVersion": revision.to_string()}),
                Vec::new(),
            ),
            shape => shape.object(self.kind, object),
        };
        if self.shape == Shape::Full {
            value["spec"] = json!({});
        }
        line("BOOKMARK", &value)
    }
}

fn error_line(error: &ApiError) -> Bytes {
    line("ERROR", &error.to_status())
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = format!("{{\"type\":\"{kind}\",\"object\":{object}}}");
    text.push('\n');
    text.into()
}
