//! Electors of this library in paused time, and on the embedded server.

#![allow(clippy::unwrap_used)] // a test that cannot go on should say where

mod fake;
mod paused;
mod server;
