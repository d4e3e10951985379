//! Log output on standard error.

use std::io::{self, IsTerminal as _, Write};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Installs the log output; `INCUMBENT_LOG` chooses what is told, as `info` or `incumbent=debug`.
pub(crate) fn install(format: LogFormat, default: &str) {
    let filter = EnvFilter::try_from_env("INCUMBENT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lossy)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    // A second installation is refused; the first one stays.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}

/// Standard error, whose failures are nobody's: a full disk or a closed pipe must not end a leader.
struct Lossy;

impl Write for Lossy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
