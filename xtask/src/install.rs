//! TODO facade

pub(crate) mod node;
pub(crate) mod servers;
pub(crate) mod tools;
