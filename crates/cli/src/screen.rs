//! The screen for people: a chat over the pool, panels and dialogs; and the same in plain lines. This file lists the parts
//! and chooses the face; `window` and `plain_face` run it.

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
mod opening;
pub mod overlay;
mod page_view;
mod painted;
pub mod panel;
mod past_list;
pub mod performance;
mod plain_face;
pub mod questions;
mod raw_terminal;
mod recital;
mod slash;
mod stand_in;
mod status_line;
mod transcript_view;
mod window;
mod word_order;
mod wrapping;

pub use plain_face::run_demo;
pub use window::run as play;

use crate::commands::print::ConversationArgs;
use crate::outcome::{CommandOutput, Failure};
use crate::screen::performance::InputSource;
use crate::session::Invocation;

/// Converses with whoever is at the terminal, on the screen or in plain lines.
pub fn run(session: &Invocation, flags: &ConversationArgs) -> Result<CommandOutput, Failure> {
    match flags.plain || is_plain_terminal(session) {
        true => plain_face::run(session, flags),
        false => window::run(session, flags, InputSource::User),
    }
}

/// Can the terminal do little, or does the person want little of it?
pub fn is_plain_terminal(session: &Invocation) -> bool {
    let value = |name: &str| session.env.variables.get(name).filter(|it| !it.is_empty());
    value("TERM").is_none_or(|it| it == "dumb") || value("SWB_PLAIN").is_some()
}
