//! TODO facade

pub(crate) mod ansi;
pub mod json;
pub mod rich_text;
pub(crate) mod wrap;
