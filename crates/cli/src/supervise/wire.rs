//! What the two processes say to each other: one datagram each, over a socket pair, in JSON.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::boottime::BootTime;
use super::timeline::{Cause, Deadlines, Stop};

/// No datagram is longer. Command lines, which may be, travel in the guardian's own argument list.
const LONGEST: usize = 64 * 1024;

/// Numbers the children of one supervisor, so that a word about an earlier child is not taken for the present
/// one.
pub(super) type ChildNumber = u64;

/// To the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Start the command. Carries the file descriptor of its standard input.
    Start { child: ChildNumber, deadlines: Deadlines, grace: Duration, env: Vec<(String, String)> },
    /// Move the deadlines.
    Extend { child: ChildNumber, deadlines: Deadlines, sent: BootTime },
    /// Stop the child.
    Stop { child: ChildNumber, stop: Stop, sent: BootTime },
    /// Send the command a signal, by number.
    Signal { child: ChildNumber, signal: i32 },
}

/// From the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The command was executed. Carries a pidfd of it.
    Started { child: ChildNumber, pid: i32 },
    /// It was not, by the error with this number; without a number: the deadline had passed.
    Refused { child: ChildNumber, errno: Option<i32> },
    /// TERM was sent.
    Terminated { child: ChildNumber },
    /// Nothing of the tree lives.
    Gone { child: ChildNumber, status: Status, cause: Cause },
}

/// How the command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Status {
    /// It exited with this code.
    Code(i32),
    /// A signal of this number ended it.
    Signal(i32),
}

/// Both ends, which no executed program inherits: the end of one process is the end of its side.
pub(super) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Sends without waiting. A full buffer is an error: the other side has not read for a long time.
pub(super) fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    fd: Option<BorrowedFd<'_>>,
) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > LONGEST {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            format!(
                "a message of {} bytes is longer than {LONGEST}: is an environment value huge?",
                bytes.len()
            ),
        ));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds;
    if let Some(fd) = fd {
        fds = [fd];
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)
    })?;
    debug_assert_eq!(sent, bytes.len(), "datagrams are sent whole");
    Ok(())
}

/// What came in.
pub(super) enum Incoming<T> {
    Message(T, Option<OwnedFd>),
    /// Nothing at present.
    Nothing,
    /// The other process has ended, or has closed its end.
    Closed,
}

/// Receives without waiting. A message that cannot be read is an error: the two are one program.
pub(super) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> std::io::Result<Incoming<T>> {
    let mut bytes = vec![0_u8; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
    });
    let length = match received {
        Ok(message) => message.bytes,
        Err(Errno::AGAIN) => return Ok(Incoming::Nothing),
        Err(Errno::CONNRESET) => return Ok(Incoming::Closed),
        Err(e) => return Err(e.into()),
    };
    let mut fd = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            fd = fds.last();
        }
    }
    if length == 0 {
        return Ok(Incoming::Closed);
    }
    Ok(Incoming::Message(serde_json::from_slice(&bytes[..length])?, fd))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn messages_keep_their_bounds_and_their_descriptor() {
        let (a, b) = pair().unwrap();
        let stop = Stop::Planned { drain: Duration::from_secs(25) };
        let sent = BootTime::from_nanos(u64::MAX);
        send(a.as_fd(), &Order::Stop { child: 7, stop, sent }, None).unwrap();
        send(a.as_fd(), &Order::Signal { child: 7, signal: 10 }, Some(rustix::stdio::stdin())).unwrap();
        drop(a);
        match receive::<Order>(b.as_fd()).unwrap() {
            Incoming::Message(Order::Stop { child: 7, stop: s, sent: t }, None) => {
                assert_eq!((s, t), (stop, sent));
            }
            _ => panic!("not the first message"),
        }
        assert!(matches!(
            receive::<Order>(b.as_fd()).unwrap(),
            Incoming::Message(Order::Signal { child: 7, signal: 10 }, Some(_))
        ));
        assert!(matches!(receive::<Order>(b.as_fd()).unwrap(), Incoming::Closed));
    }

    #[test]
    fn nothing_is_not_the_end() {
        let (_a, b) = pair().unwrap();
        assert!(matches!(receive::<Order>(b.as_fd()).unwrap(), Incoming::Nothing));
    }
}
