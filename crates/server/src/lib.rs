//! A Kubernetes-compatible API server for Leases that a program can embed.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use incumbent_server::Server;
//!
//! let server = Server::builder().data_dir("/var/lib/incumbent").start().await?;
//! println!("listening on {}", server.url());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! For a test, [`Builder::in_memory`] needs neither a folder nor a port; many servers live in one process.
//!
//! ```text
//!   serve   connections, token, data directory, kubeconfig
//!     │ request
//!     ▼
//!   api     route ─▶ verb (get list create update patch delete watch) ─▶ answer, in the shape asked for
//!     │              │ fields, names, rules, columns
//!     │              ▼
//!     │            kinds   one file per kind of object
//!     ▼
//!   store   compare and swap, list, watch: memory, redb
//! ```
//!
//! It answers as a real API server does, in status codes, reasons and words; the text `Status` of an error is
//! what clients parse. What it does not know, it says so: 404 for a resource, 405 for a verb, 415 for a body.

mod api;
mod kinds;
mod serve;
mod status;
pub mod store;

pub use self::serve::{Builder, Server, StartError};
