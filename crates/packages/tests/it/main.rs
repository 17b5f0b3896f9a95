//! Tests of the crate against real files, processes and HTTP servers.

mod bundle;
mod download;
mod hostile_bundle;
