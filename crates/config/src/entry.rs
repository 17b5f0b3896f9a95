//! TODO facade

pub mod name;
pub mod server;
pub mod signature;
