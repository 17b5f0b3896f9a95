//! TODO facade

pub mod stderr_log;
pub mod ttl_cache;
