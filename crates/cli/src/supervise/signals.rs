//! Signals: what a supervising process does with those it is sent.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What a signal to the process asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// TERM or INT: a planned stop.
    Stop,
    /// HUP, QUIT, USR1 or USR2: the command shall have it.
    Forward(Signal),
}

/// The signals of this process, as a stream. While one exists, none of them ends the process.
pub struct Signals {
    streams: Vec<(Asked, Stream)>,
}

impl Signals {
    /// Takes over TERM, INT, HUP, QUIT, USR1 and USR2; leaves HUP alone if it is ignored, as under `nohup`.
    ///
    /// Needs a tokio runtime with signal handling. Fails if the system refuses a handler.
    pub fn install() -> io::Result<Signals> {
        let mut wanted = vec![
            (Asked::Stop, SignalKind::terminate()),
            (Asked::Stop, SignalKind::interrupt()),
            (Asked::Forward(Signal::QUIT), SignalKind::quit()),
            (Asked::Forward(Signal::USR1), SignalKind::user_defined1()),
            (Asked::Forward(Signal::USR2), SignalKind::user_defined2()),
        ];
        if !is_ignored(Signal::HUP) {
            wanted.push((Asked::Forward(Signal::HUP), SignalKind::hangup()));
        }
        let streams =
            wanted.into_iter().map(|(asked, kind)| Ok((asked, signal(kind)?))).collect::<io::Result<_>>()?;
        Ok(Signals { streams })
    }

    /// The next one. Cancel safe: a signal that arrives while nobody waits is kept.
    pub async fn next(&mut self) -> Asked {
        std::future::poll_fn(|cx| {
            for (asked, stream) in &mut self.streams {
                // `None` never comes: the streams are open as long as the runtime is.
                if let std::task::Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return std::task::Poll::Ready(*asked);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Makes the guardian deaf to what a terminal, a service manager or a person sends to every process they find:
/// it ends when the process ends that started it. A handler that does nothing is used, because a program that
/// is executed starts without handlers but would inherit "ignored".
pub(super) fn be_deaf() -> io::Result<()> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in
        [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::TSTP]
    {
        if !is_ignored(signal) {
            signal_hook::flag::register(signal.as_raw(), Arc::clone(&flag))?;
        }
    }
    Ok(())
}

/// True if this process ignores `signal`, as it does for HUP under `nohup`. False where the kernel does not say.
fn is_ignored(signal: Signal) -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    ignored_mask(&status).is_some_and(|mask| mask & (1 << (signal.as_raw() - 1)) != 0)
}

fn ignored_mask(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_mask_of_ignored_signals() {
        assert_eq!(ignored_mask("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), Some(0x1001));
        assert_eq!(ignored_mask("Name:\tx\n"), None);
        // The Rust runtime ignores it in every program.
        assert!(is_ignored(Signal::PIPE));
        assert!(!is_ignored(Signal::USR2));
    }
}
