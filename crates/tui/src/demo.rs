//! The demo: a script of inputs, and the player that presses its keys on the screen.

pub(crate) mod key_player;
pub mod script;
