//! TODO facade

pub mod connectors;
pub(crate) mod dynamic_headers;
pub(crate) mod headers_helper;
pub(crate) mod pending;
pub mod server_login;
