//! The terminal screen: its state, what events do to it, the effects they lead to and the views that draw it.
//! Parses no arguments and reads no environment; what the program around it supplies is in [`backend`]. Only
//! `terminal` writes to the terminal.

pub mod backend;
pub mod configured_servers;
pub mod demo;
pub mod effects;
pub mod elicitor;
mod frame;
pub mod input_history;
pub mod screen;
pub mod slash_command;
pub mod state;
mod terminal;
pub mod text;
pub mod theme;
mod update;
pub mod view;
