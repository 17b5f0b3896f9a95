//! TODO facade

pub(crate) mod client;
pub(crate) mod drain;
pub(crate) mod permission_prompt;
pub(crate) mod request_context;
