//! How a scripted server is reached: stdio, streamable HTTP, the SSE transport of 2024 and WebSocket.
//! `network` starts servers and is the only module that knows all network transports.

pub(crate) mod http_body;
mod http_session;
mod http_sse_2024;
mod http_state;
pub(crate) mod network;
pub(crate) mod process_quirks;
pub(crate) mod stdio;
mod streamable_http;
mod websocket;
