//! A small HTTP client for the tests: one request on one connection, and watches line by line.

use std::time::Duration;

use incumbent_server::{Builder, Server};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// How long anything may take that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

pub(crate) async fn server() -> Server {
    Server::builder().start().await.unwrap()
}

pub(crate) async fn started(builder: Builder) -> Server {
    builder.start().await.unwrap()
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The object, if the request succeeded with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        self.json()
    }

    /// Checks an error.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str, message: &str) -> Value {
        let status = self.expect(code);
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["reason"], reason, "{status}");
        let said = status["message"].as_str().unwrap();
        assert!(said.contains(message), "{said:?} does not say {message:?}");
        status
    }
}

/// A request that is put together.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

pub(crate) fn ask(method: &'static str, path: impl Into<String>) -> Ask {
    Ask { method, path: path.into(), headers: Vec::new(), body: None }
}

impl Ask {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn raw(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self.header("Content-Type", content_type)
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string())
    }

    pub(crate) fn merge(self, body: &Value) -> Self {
        self.raw("application/merge-patch+json", body.to_string())
    }

    async fn write(&self, server: &Server, stream: &mut OwnedWriteHalf, close: bool) {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: x\r\n", self.method, self.path);
        if close {
            head += "Connection: close\r\n";
        }
        if !self.headers.iter().any(|header| header.0 == "Authorization") {
            head += &format!("Authorization: Bearer {}\r\n", server.token());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let body = self.body.as_deref().unwrap_or_default();
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        // The server may answer, and close, before it has read a body that is too large.
        let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
    }

    pub(crate) async fn send(self, server: &Server) -> Reply {
        let (mut read, mut write) = TcpStream::connect(server.addr()).await.unwrap().into_split();
        let mut bytes = Vec::new();
        let exchange = async {
            self.write(server, &mut write, true).await;
            let _ = read.read_to_end(&mut bytes).await;
        };
        tokio::time::timeout(PATIENCE, exchange).await.expect("an answer in time");
        reply(&bytes)
    }

    /// Begins a watch; the reply's body is empty.
    pub(crate) async fn stream(self, server: &Server) -> Stream {
        Connection::open(server).await.stream(server, self).await
    }
}

fn reply(bytes: &[u8]) -> Reply {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        let mut rest = body;
        let mut whole = String::new();
        while let Some((size, tail)) = rest.split_once("\r\n") {
            let size = usize::from_str_radix(size, 16).unwrap();
            whole += &tail[..size];
            rest = tail.get(size + 2..).unwrap_or_default();
        }
        whole
    } else {
        body.into()
    };
    Reply { code, head: head.into(), body }
}

/// A connection that is kept.
pub(crate) struct Connection {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Connection {
    pub(crate) async fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(server.addr()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (read, write) = stream.into_split();
        Self { read: BufReader::new(read), write }
    }

    async fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.read.read_line(&mut head).await.unwrap(), 0, "closed after {head:?}");
        }
        head
    }

    /// A request that is answered with a length.
    pub(crate) async fn send(&mut self, server: &Server, ask: Ask) -> Reply {
        ask.write(server, &mut self.write, false).await;
        let head = self.head().await.to_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.read.read_exact(&mut body).await.unwrap();
        reply(&[head.as_bytes(), &body].concat())
    }

    async fn stream(mut self, server: &Server, ask: Ask) -> Stream {
        ask.write(server, &mut self.write, false).await;
        let head = self.head().await;
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(head.to_lowercase().contains("transfer-encoding: chunked"), "{head}");
        Stream { code, connection: self, text: String::new() }
    }
}

/// A watch.
pub(crate) struct Stream {
    pub(crate) code: u16,
    connection: Connection,
    text: String,
}

impl Stream {
    /// The next event, or none at a clean end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(PATIENCE, self.line()).await.expect("an event in time")
    }

    /// Type, name and revision of the next event.
    pub(crate) async fn brief(&mut self) -> (String, String, String) {
        let event = self.next().await.expect("an event, not the end");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &event["object"]["metadata"];
        (text(&event["type"]), text(&meta["name"]), text(&meta["resourceVersion"]))
    }

    async fn line(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let value = serde_json::from_str(line).unwrap();
                self.text = rest.into();
                return Some(value);
            }
            let mut size = String::new();
            let read = self.connection.read.read_line(&mut size).await.unwrap();
            assert_ne!(read, 0, "the watch was cut off");
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            self.connection.read.read_exact(&mut chunk).await.unwrap();
            if size == 0 {
                return None;
            }
            self.text += std::str::from_utf8(&chunk[..size]).unwrap();
        }
    }
}
