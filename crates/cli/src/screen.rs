//! The screen for people: a chat over the pool, panels and dialogs. This file lists its parts; `window` runs them.

mod cards;
mod chat;
mod chat_frame;
mod clean_text;
mod composer;
mod deeds;
pub mod dialog;
mod editor_run;
mod history;
pub mod look;
mod markdown;
mod mention;
mod menu;
pub mod overlay;
mod page_view;
mod painted;
pub mod panel;
pub mod questions;
mod raw_terminal;
mod slash;
mod status_line;
mod transcript_view;
pub mod window;
mod wrapping;
