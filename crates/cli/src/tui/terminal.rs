//! TODO facade

pub(crate) mod editor;
pub(crate) mod raw_terminal;
