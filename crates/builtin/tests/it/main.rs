//! Tests of servers in this process, as a client of either era sees them.

mod bench;
mod commands;
mod demonstration;
mod kit;
mod support;
mod workspace;
