//! A TCP proxy that can be told to misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the proxy does with what it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Passes everything on.
    Pass,
    /// Reads and throws away, in both directions; connections stay open.
    Swallow,
    /// Throws away only what the server answers: requests are carried out, and nobody knows.
    SwallowAnswers,
    /// Passes everything on, late.
    Delay,
    /// Closes every connection as soon as something is sent.
    Reset,
}

impl Mode {
    fn from(n: u8) -> Mode {
        match n {
            1 => Mode::Swallow,
            2 => Mode::SwallowAnswers,
            3 => Mode::Delay,
            4 => Mode::Reset,
            _ => Mode::Pass,
        }
    }
}

/// How late a delaying proxy passes on what it reads.
const LATE: Duration = Duration::from_millis(600);

/// Listens on a free port of the loopback address until it is dropped.
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    mode: Arc<AtomicU8>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> std::io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let mode = Arc::new(AtomicU8::new(Mode::Pass as u8));
        let seen = Arc::clone(&mode);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mode = Arc::clone(&seen);
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(server).await else { return };
                    // A proxy that cannot switch Nagle's delay off is only slower.
                    let _ = (client.set_nodelay(true), server.set_nodelay(true));
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    let requests = pump(from_client, to_server, Arc::clone(&mode), false);
                    let answers = pump(from_server, to_client, mode, true);
                    tokio::select! { () = requests => {}, () = answers => {} }
                });
            }
        });
        Ok(Proxy { addr, mode, task })
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mode: Arc<AtomicU8>, answers: bool) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let n = match from.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(n) => n,
        };
        match Mode::from(mode.load(Ordering::SeqCst)) {
            Mode::Pass => {}
            Mode::Swallow => continue,
            Mode::SwallowAnswers if answers => continue,
            Mode::SwallowAnswers => {}
            Mode::Delay => tokio::time::sleep(LATE).await,
            Mode::Reset => return,
        }
        if to.write_all(&bytes[..n]).await.is_err() {
            return;
        }
    }
}
