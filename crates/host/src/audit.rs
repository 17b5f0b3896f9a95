//! TODO facade

pub mod log;
