//! incumbent
