//! What all HTTP test servers share: loopback listeners, recorded requests and constructors of responses.

pub(crate) mod loopback;
pub mod recorded_request;
pub(crate) mod response;
