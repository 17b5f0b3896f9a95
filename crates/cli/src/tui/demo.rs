//! TODO facade

pub(crate) mod key_player;
pub mod script;
