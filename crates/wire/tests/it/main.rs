//! Tests of two peers that talk to one another, or to a script.

mod client;
mod peer;
mod process;
