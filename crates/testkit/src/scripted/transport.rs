//! TODO facade

pub(crate) mod http_body;
pub(crate) mod http_sse_2024;
pub(crate) mod network;
pub(crate) mod stdio;
pub(crate) mod streamable_http;
pub(crate) mod websocket;
