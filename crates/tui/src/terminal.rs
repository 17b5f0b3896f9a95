//! The terminal itself: raw mode, drawing and the user's editor. The only part of the crate that writes to the terminal.

pub(crate) mod editor;
pub(crate) mod raw_terminal;
