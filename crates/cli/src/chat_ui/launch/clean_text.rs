//! Text of others made fit for the screen. How is `config`'s to know; how lines are wrapped is left to `wrapping`.

pub use switchboard::config::display::{sanitize, sanitize_line};
