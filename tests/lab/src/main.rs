//! The testbed's command line.
fn main() {}
