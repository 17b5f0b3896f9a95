//! TODO facade

pub mod configured_servers;
pub mod demo;
pub(crate) mod effects;
pub mod elicitor;
pub(crate) mod frame;
pub(crate) mod input_history;
pub(crate) mod screen;
pub(crate) mod slash_command;
pub mod state;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod update;
pub mod view;
