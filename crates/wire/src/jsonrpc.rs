//! TODO facade

pub mod message;
pub(crate) mod oversized;
pub(crate) mod params;
