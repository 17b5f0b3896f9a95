//! The conversation with a user at the terminal: on the screen of `switchboard-tui`, or in plain lines. Starts it, gives
//! the screen its backend, and runs the plain mode itself. What the screen shows is left to that crate.

pub(crate) mod conversation;
pub(crate) mod launch;
pub(crate) mod plain;
pub(crate) mod screen_backend;
mod terminal_theme;
