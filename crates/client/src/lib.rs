//! Leader election and graceful leader handover on Kubernetes Leases.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use incumbent::Elector;
//!
//! let elector = Elector::builder(kube::Config::infer().await?, "my-controller")
//!     .versions(env!("CARGO_PKG_VERSION"), None)
//!     .strategy("OldestEmulationVersion")
//!     .build()?;
//! let ctrl_c = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! elector
//!     .run_until(ctrl_c, |term| async move {
//!         // Called once for every term. Make everything that works here, not outside.
//!         term.spawn(async { /* a task that belongs to the term */ });
//!         term.cancelled().await;
//!         Ok::<(), std::io::Error>(())
//!     })
//!     .await;
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! - **One leader.** No two terms of a lock have live work at one instant, as long as clocks run within half a
//!   percent of their rate and nobody tampers with the Lease beyond what the rules wait out. Work that is not
//!   over when its lease has run out makes the process abort.
//! - **Work ends before the lock moves.** In a planned handover renewals go on until every task of the term has
//!   ended and every hook has run; only then is the lock written to the successor.
//! - **Milliseconds.** A successor sees the handover by its watch and leads after one write of its own.
//! - **The right leader.** Candidates announce versions; the leader hands over to a better one.
//! - **Errors end nothing.** The elector follows again after every loss, in the same process.
//!
//! No lease can exclude a process that was paused between its last look at the clock and its write: hand
//! [`Term::fencing_token`] to whatever you write to, and have it refuse lower ones.
//!
//! # TLS
//!
//! The library chooses no TLS backend. Enable its feature `rustls-tls`, or one of kube's own.

mod api;
mod clock;
mod driver;
mod elector;
mod preflight;
mod shared;
mod status;
mod term;

pub use api::{KubeLease, LeaseApi, ListError, list_leases};
pub use clock::{BootClock, Clock};
pub use elector::{BuildError, Builder, Elector, Handle};
pub use preflight::PreflightError;
pub use status::{CandidateStatus, Health, Status};
pub use term::Term;

pub use incumbent_core as core;
pub use incumbent_core::{FencingToken, Identity, LockName, Profile, StopReason, Strategy, TimingConfig};
