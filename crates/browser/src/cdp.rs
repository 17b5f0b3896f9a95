//! The Chrome DevTools Protocol: messages, the pipe or WebSocket that carries them, and the connection. It knows no domain of
//! the protocol: payloads stay raw until a caller decodes them, so that unknown events and fields change nothing.

pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod message;
