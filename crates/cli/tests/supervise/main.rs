//! Supervision with real processes: every fault that it promises to survive, made to happen.
//!
//! Each test starts a *talker*, a process of its own that supervises one shell script, and then stops or kills
//! one of talker, guardian and command. Whether the tree lives is told by a file lock that the script takes and
//! all its descendants inherit: the kernel drops it when the last of them is gone.

#![allow(clippy::unwrap_used)] // a test that cannot go on should say where

mod deadlines;
mod endings;
mod faults;
mod processes;
mod talker;
