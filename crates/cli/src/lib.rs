//! The `incumbent` command line. The program itself is a thin wrapper around this library, so that its parts can
//! be tested as what they are.

pub mod supervise;
