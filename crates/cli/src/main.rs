//! incumbent
fn main() {}
