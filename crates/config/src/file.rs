//! TODO facade

pub mod entry_decoder;
pub mod layer;
