//! The server from outside: the stores, a killed process, and every behaviour of the API over HTTP.

mod crash;
mod http;
mod lifecycle;
mod objects;
mod speed;
mod stores;
mod watches;
