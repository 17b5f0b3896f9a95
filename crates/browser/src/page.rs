//! What is known about the pages of a session, from the events of the browser: tabs, frames, dialogs, console, requests,
//! downloads. Nothing here sends a command by itself, except answers that a page waits for.

pub(crate) mod console;
pub(crate) mod dialog;
pub(crate) mod downloads;
pub(crate) mod frames;
pub(crate) mod network;
pub(crate) mod ring;
pub(crate) mod tab;
pub(crate) mod tab_events;
