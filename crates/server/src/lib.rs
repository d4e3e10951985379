//! incumbent-server
