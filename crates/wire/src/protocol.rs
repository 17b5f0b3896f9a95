//! Definitions of the MCP specification: eras and versions, capabilities, `_meta` members, headers and error codes.
//! Pure: no I/O. How messages travel is left to `transport`, who sends them to `client` and `server`.

pub mod capabilities;
pub mod era;
pub mod errors;
pub mod forwarding;
pub mod headers;
pub mod log_level;
pub(crate) mod meta_key;
pub mod param_headers;
pub mod request_meta;
