//! incumbent-core
