//! TODO facade

pub(crate) mod modern_request;
pub(crate) mod pending;
pub(crate) mod suspended;
