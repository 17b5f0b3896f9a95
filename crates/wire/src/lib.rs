//! The Model Context Protocol on the wire: a JSON-RPC peer that parses envelopes once and keeps payloads raw.
//!
//! A [`peer::Peer`] is either side of a connection. It uses a [`transport::Transport`]: a byte stream with one message
//! per line ([`transport::stdio`], for a program that [`process::spawn`] starts), the other end of a pair in this
//! process ([`transport::in_memory`]), or a server at a URL ([`transport::streamable_http`],
//! [`transport::http_sse_2024`], [`transport::websocket`]), which is reached through an [`http::HttpClient`].
//! [`connect::connect`] opens any of them and performs the handshake; the result is a [`client::Client`].
//! Payloads are decoded by the caller, which knows the method.
//!
//! The modules form layers, and each uses only those before it: `backoff`, `shared`, `futures_set`,
//! `jsonrpc` and `transport_error`; `protocol` and `http`; `transport`; `peer` and `process`; `client` and `server`; `connect`.
//!
//! ```
//! use switchboard_wire::jsonrpc::payload::Payload;
//! use switchboard_wire::peer::{Peer, PeerEvent};
//! use switchboard_wire::transport::in_memory;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let (client_end, server_end) = in_memory::pair();
//! let (client, mut server) = (Peer::spawn(client_end), Peer::spawn(server_end));
//! tokio::spawn(async move {
//!     if let Some(PeerEvent::Request(request)) = server.events.recv().await {
//!         request.respond(Payload::from_json("[1, 2]".into())).await;
//!     }
//! });
//! let result = client.peer.call("numbers").await.expect("the server responds");
//! assert_eq!(result.decode::<Vec<u8>>().expect("numbers"), [1, 2]);
//! # });
//! ```

pub mod backoff;
pub mod client;
pub mod connect;
mod futures_set;
pub mod http;
pub mod jsonrpc;
pub mod peer;
#[cfg(unix)]
pub mod process;
pub mod protocol;
pub mod server;
pub mod shared;
pub mod transport;
pub mod transport_error;
