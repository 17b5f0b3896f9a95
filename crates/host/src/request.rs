//! TODO facade

pub mod send;
