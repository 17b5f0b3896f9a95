//! Serves clients over HTTP, in either era: checks and authenticates each request, then hands it to the handler of its
//! era. No route accepts commands or configuration.

mod batch;
mod body;
mod dashboard_endpoint;
mod event_queue;
pub mod host_origin_check;
mod legacy;
pub(crate) mod limits;
mod modern;
mod negotiation;
pub(crate) mod options;
mod post;
mod probes;
mod replica;
mod replica_server;
mod request_owner;
mod response;
mod revocation;
pub(crate) mod server;
mod server_state;
mod session;
mod session_table;
mod shared_approvals;
mod shared_sessions;
pub(crate) mod shutdown;
mod stream_delay;
pub(crate) mod tls;
mod tls_connection;
mod workers;
mod write_timeout;
