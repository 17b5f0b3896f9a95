//! TODO facade

pub mod grant;
pub mod request;
pub mod response;
