//! One request to one server: what is sent, how often it is tried, and why there is no response.
//! Tool calls go through `call`, which obtains the permit that `tools/call` needs.

pub mod error;
pub mod send;
pub mod server_request;
