//! The server from outside: the stores, a killed process, and every behaviour of the API over HTTP.

// A test may end where it is surprised, also in a function that is not a test itself.
#![allow(clippy::unwrap_used)]

mod crash;
mod http;
mod lifecycle;
mod objects;
mod speed;
mod stores;
mod watches;
