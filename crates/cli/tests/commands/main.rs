//! The real program against a real `incumbent server`.

#![allow(clippy::unwrap_used)] // a test that cannot go on should say where

mod runs;
mod server;
mod site;
mod wrong_input;
