//! The client side of a request: who the client is, its request, and the ways back to it while the request runs.
//! Knows no transport; the fronts (`stdio`, `http`) implement [`channel::ClientChannel`].

pub(crate) mod approvals;
pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod drain;
pub(crate) mod leases;
pub(crate) mod permission_prompt;
pub(crate) mod request;
pub(crate) mod request_context;
pub(crate) mod server_requests;
