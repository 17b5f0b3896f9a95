//! TODO facade

pub mod executor;
pub mod pipeline;
pub(crate) mod relay;
