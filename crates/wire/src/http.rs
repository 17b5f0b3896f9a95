//! TODO facade

pub(crate) mod authorize;
pub(crate) mod body;
pub mod client;
pub(crate) mod error;
pub(crate) mod http1;
pub(crate) mod response;
pub mod sse_decoder;
pub(crate) mod target;
