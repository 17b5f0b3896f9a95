//! Tests of servers in this process, as a client of either era sees them.

mod demonstration;
mod kit;
mod support;
