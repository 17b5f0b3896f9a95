//! TODO facade

pub mod elicitor;
pub mod form;
pub(crate) mod hook;
pub mod scripted_answers;
pub(crate) mod url;
