//! Connections: accepted, limited, checked for the token, ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::AUTHORIZATION;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::token;
use crate::api::{self, Answer, Api};
use crate::status::ApiError;

/// How many connections may be open at once. More wait to be accepted.
const CONNECTIONS_MAX: usize = 16_384;

/// What the head of a request may weigh.
const HEAD_MAX: usize = 64 << 10;

/// How long a connection may be silent before a request's head is complete. Clients drop idle connections
/// sooner, so that none is closed under a request.
const SILENCE: Duration = Duration::from_secs(300);

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// How long to wait when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(super) struct Acceptor {
    pub(super) api: Arc<Api>,
    pub(super) token: Arc<str>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) ending: CancellationToken,
    pub(super) cut: CancellationToken,
    pub(super) connections: TaskTracker,
}

/// Accepts connections until the server ends.
pub(super) async fn accept(listener: TcpListener, acceptor: Acceptor) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let accepted = tokio::select! {
            () = acceptor.ending.cancelled() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Some((Ok((stream, _)), place)) => {
                let served = acceptor.clone().serve(stream);
                acceptor.connections.spawn(async move {
                    served.await;
                    drop(place);
                });
            }
            Some((Err(error), _)) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(NO_ROOM).await;
            }
            None => return,
        }
    }
}

/// A client that said its first word.
enum Greeted {
    Tls(Box<TlsStream<TcpStream>>),
    Plain(TcpStream),
}

/// Hears whether a client speaks TLS, and then shakes its hand.
async fn greet(tls: &TlsAcceptor, stream: TcpStream) -> Option<Greeted> {
    let mut first = [0];
    match tokio::time::timeout(SILENCE, stream.peek(&mut first)).await {
        Ok(Ok(1)) => {}
        _ => return None,
    }
    // No HTTP method begins with that byte.
    if first != [TLS_HANDSHAKE] {
        return Some(Greeted::Plain(stream));
    }
    match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(Greeted::Tls(Box::new(stream))),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a TLS handshake took too long");
            None
        }
    }
}

impl Acceptor {
    async fn serve(self, stream: TcpStream) {
        // An answer is one write: it must not wait for the acknowledgement of the one before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let Some(tls) = self.tls.clone() else { return self.speak(stream).await };
        let greeted = tokio::select! {
            greeted = greet(&tls, stream) => greeted,
            // Nothing was asked yet, so nothing is lost.
            () = self.ending.cancelled() => return,
        };
        match greeted {
            Some(Greeted::Tls(stream)) => self.speak(*stream).await,
            Some(Greeted::Plain(stream)) => self.speak(stream).await,
            None => {}
        }
    }

    /// Speaks HTTP until either side ends.
    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let (ending, cut) = (self.ending.clone(), self.cut.clone());
        let service = service_fn(move |request| {
            let this = self.clone();
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(SILENCE)
            .max_buf_size(HEAD_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = cut.cancelled() => return,
            () = ending.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    served = connection => served,
                    () = cut.cancelled() => return,
                }
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection broke");
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let given = request.headers().get(AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
        let answer = if Api::is_public(&path) || token::is_bearer(given, &self.token) {
            self.api.answer(request).await
        } else {
            api::failure(&ApiError::unauthorized())
        };
        tracing::trace!(%method, path, status = answer.status().as_u16(), "answered");
        answer
    }
}
