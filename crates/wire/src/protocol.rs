//! TODO facade

pub mod capabilities;
pub mod era;
pub mod param_headers;
pub mod request_meta;
