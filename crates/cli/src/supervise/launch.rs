//! The one step between fork and exec that the standard library has no safe way for.
#![allow(unsafe_code)] // `pre_exec` is unsafe; everything else in this crate is not.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the kernel kill the command as soon as the calling *thread* ends, by whatever cause.
///
/// The caller must be a thread that lives as long as its process, or the command dies early. The command loses
/// this tie if it executes a set-user-ID program or one with file capabilities, or unties itself.
pub(super) fn die_with_this_thread(command: &mut Command) {
    let parent = getpid();
    // SAFETY: the closure runs in the forked child before exec, where only async-signal-safe work is allowed.
    // It makes two system calls, directly, allocates nothing, takes no lock, and on failure builds its error
    // from a number.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the line above: then no signal will ever come.
            if getppid() == Some(parent) {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()))
            }
        });
    }
}
