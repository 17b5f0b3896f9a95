//! TODO facade

pub mod candidates;
pub mod completion;
