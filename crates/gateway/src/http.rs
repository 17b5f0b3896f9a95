//! Serves clients over HTTP, in either era: checks and authenticates each request, then hands it to the handler of its
//! era. No route accepts commands or configuration.

mod batch;
mod body;
mod event_queue;
pub mod host_origin_check;
mod legacy;
pub(crate) mod limits;
mod modern;
mod negotiation;
pub(crate) mod options;
mod post;
mod response;
mod revocation;
pub(crate) mod server;
mod server_state;
mod session;
mod session_table;
mod shutdown;
mod stream_delay;
mod workers;
mod write_timeout;
