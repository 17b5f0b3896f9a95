//! Tests of the servers that other tests talk to: those that follow a script, and real ones.

mod authorization_server;
mod authorization_server_faults;
mod client;
mod conformance_upstream;
mod connector_account;
mod eras;
mod http;
mod http_client;
mod http_quirks;
mod oauth_client;
mod real_servers;
mod stdio_client;
mod stdio_quirks;
mod tools;
mod websocket_client;
