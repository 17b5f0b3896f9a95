//! TODO facade

pub mod completion_cache;
pub mod fetch;
