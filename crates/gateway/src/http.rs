//! TODO facade

pub(crate) mod body;
pub mod host_origin_check;
pub(crate) mod post;
pub(crate) mod response;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod session_table;
pub(crate) mod stream_delay;
pub(crate) mod workers;
