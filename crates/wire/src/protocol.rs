//! What the MCP specification defines: eras and versions, capabilities, `_meta` members, headers and error codes.
//! Pure: no I/O. How messages travel is left to `transport`, who sends them to `client` and `server`.

pub mod capabilities;
pub mod era;
pub mod errors;
pub mod headers;
pub(crate) mod meta_key;
pub mod param_headers;
pub mod request_meta;
