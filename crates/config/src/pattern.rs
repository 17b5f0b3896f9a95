//! TODO facade

pub(crate) mod glob;
pub mod url_pattern;
