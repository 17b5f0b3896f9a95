//! The screen for people: a chat over the pool, panels and dialogs. This file lists its parts; `window` runs them.

pub mod dialog;
pub mod look;
pub mod overlay;
pub mod panel;
pub mod questions;
