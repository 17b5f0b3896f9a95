//! TODO facade

pub(crate) mod enabled;
pub(crate) mod servers;
