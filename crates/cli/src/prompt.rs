//! Prompts at a plain terminal: permission, elicitation and login, and the progress line between them.
//! The full screen has its own.

pub mod browser;
pub mod form;
pub mod keyboard;
pub mod login_prompt;
pub mod permission;
pub mod progress_bar;
pub mod secret_input;
pub mod terminal_prompt;
