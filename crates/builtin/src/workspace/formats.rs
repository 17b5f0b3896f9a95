//! TODO facade

pub(crate) mod image;
pub(crate) mod notebook;
pub mod pdf_text;
