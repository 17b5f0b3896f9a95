//! JSON-RPC 2.0: parses and writes message envelopes.
//! Payloads stay the received bytes; the caller that knows a method decodes them.

pub mod message;
pub(crate) mod oversized;
pub(crate) mod params;
pub mod payload;
pub mod raw_object;
