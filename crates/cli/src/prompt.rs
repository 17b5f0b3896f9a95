//! TODO facade

pub(crate) mod browser;
pub(crate) mod form;
pub(crate) mod keyboard;
pub(crate) mod login_prompt;
pub(crate) mod permission;
pub(crate) mod progress_bar;
pub mod terminal_prompt;
