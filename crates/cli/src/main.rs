//! The `incumbent` program.

use std::process::ExitCode;

use incumbent_cli::supervise::{GUARDIAN_ARGUMENT, guardian};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == GUARDIAN_ARGUMENT) {
        return guardian(words);
    }
    incumbent_cli::main()
}
