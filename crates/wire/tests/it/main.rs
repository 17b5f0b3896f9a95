//! Tests of two connected peers, of a peer and a script, and of a peer and a server on a loopback port.

mod client;
mod fast_path;
mod fuzz;
mod http1;
mod http_client;
mod http_sse_2024;
mod in_process;
mod log_events;
mod peer;
mod process;
mod process_descendants;
mod streamable_http;
mod test_server;
mod websocket;
