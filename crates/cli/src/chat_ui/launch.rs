//! The screen for people: a chat over the pool, panels and dialogs; and the same in plain lines. This file lists the parts
//! and chooses the face; `window` and `plain_face` run it.

pub(crate) mod clean_text;

pub use crate::chat_ui::plain::run_demo;
pub use crate::tui::screen::run as play;

use crate::commands::print::ConversationArgs;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::tui::demo::script::InputSource;

/// Converses with whoever is at the terminal, on the screen or in plain lines.
pub fn run(session: &Invocation, flags: &ConversationArgs) -> Result<CommandOutput, Failure> {
    match flags.plain || is_plain_terminal(session) {
        true => crate::chat_ui::plain::run(session, flags),
        false => crate::tui::screen::run(session, flags, InputSource::User),
    }
}

/// Can the terminal do little, or does the person want little of it?
pub fn is_plain_terminal(session: &Invocation) -> bool {
    let value = |name: &str| session.env.variables.get(name).filter(|it| !it.is_empty());
    value("TERM").is_none_or(|it| it == "dumb") || value("SWB_PLAIN").is_some()
}
