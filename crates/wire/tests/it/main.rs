//! Tests of two peers that talk to one another, to a script, or to a server on a loopback port.

mod client;
mod fuzz;
mod guest;
mod network;
mod peer;
mod plain;
mod process;
mod shortcut;
mod sse;
mod stage;
mod streamable;
mod websocket;
