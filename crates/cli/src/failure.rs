//! How a command fails: one clear sentence and an exit code.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

/// Why a command could not be carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The exit code of a command line that cannot be understood.
    pub(crate) const USAGE: u8 = 2;
    const FAILED: u8 = 1;

    /// Something went wrong: exit code 1.
    pub(crate) fn failed(message: impl fmt::Display) -> Failure {
        Failure { code: Self::FAILED, message: message.to_string() }
    }

    /// The command line asks for something that cannot be: exit code 2.
    pub(crate) fn usage(message: impl fmt::Display) -> Failure {
        Failure { code: Self::USAGE, message: message.to_string() }
    }

    /// The same failure with another exit code.
    pub(crate) fn with_code(self, code: u8) -> Failure {
        Failure { code, ..self }
    }

    /// Says why, on standard error.
    pub(crate) fn tell(&self) -> ExitCode {
        // If nobody can read it, the exit code still tells.
        let _ = writeln!(std::io::stderr(), "incumbent: {}", self.message);
        ExitCode::from(self.code)
    }
}
