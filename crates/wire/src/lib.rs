//! The Model Context Protocol on the wire: a JSON-RPC peer that parses envelopes once and keeps payloads raw.
//!
//! A [`peer::Peer`] is either side of a connection. It talks over a [`link::Link`]: a byte stream with one
//! message a line ([`lines::LineLink`], for a program that [`process::start`] started), the other end of a
//! pair in this process ([`memory::pair`]), or a server at a URL ([`streamable::HttpLink`], [`sse::SseLink`],
//! [`websocket::WsLink`]), which is reached through a [`network::Network`].
//! What a payload means is decoded by whoever asked for it, by the method that was asked.
//!
//! ```
//! use switchboard_wire::memory;
//! use switchboard_wire::message::Payload;
//! use switchboard_wire::peer::{Event, Peer};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let (ours, theirs) = memory::pair();
//! let (us, mut them) = (Peer::start(ours), Peer::start(theirs));
//! tokio::spawn(async move {
//!     if let Some(Event::Request(request)) = them.events.recv().await {
//!         request.answer(Payload::from_json("[1, 2]".into())).await;
//!     }
//! });
//! let answer = us.peer.call("numbers").await.expect("they answer");
//! assert_eq!(answer.decode::<Vec<u8>>().expect("numbers"), [1, 2]);
//! # });
//! ```

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
pub mod transport;
pub mod transport_error;
