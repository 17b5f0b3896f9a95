//! Tests of two peers that talk to one another, to a script, or to a server on a loopback port.

mod client;
mod fast_path;
mod fuzz;
mod http1;
mod http_client;
mod http_sse_2024;
mod in_process;
mod peer;
mod process;
mod streamable_http;
mod test_server;
mod websocket;
