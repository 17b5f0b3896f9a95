//! What events do to the state of the screen: `ScreenState::update` changes it and returns the effects to run. Runs none
//! of them itself.

mod conversation_events;
mod keys;
mod prompt_arguments;
mod restore;
#[cfg(test)]
mod tests;

use std::time::Instant;

use switchboard::config::display::{sanitize, sanitize_line};
use switchboard_chat::conversation::event::ConversationEvent;

use crate::effects::effect::Effect;
use crate::elicitor::ElicitorMessage;
use crate::state::event::{ScreenEvent, WindowFocus, Withdrawal};
use crate::state::screen_state::ScreenState;
use crate::text::ansi::paint;
use crate::theme::Tone;
use crate::view::overlay::{Notice, OverlayOutcome, Redraw};
use crate::view::pager::{Pager, StartPosition};

impl ScreenState {
    /// Applies an event and returns the effects to run.
    pub fn update(&mut self, event: ScreenEvent, now: Instant) -> Vec<Effect> {
        self.now = now;
        match event {
            ScreenEvent::Key(key) => self.on_key(key),
            ScreenEvent::Paste(text) => self.on_paste(&text),
            ScreenEvent::Conversation(event) => {
                let is_end = matches!(event, ConversationEvent::TurnEnded(_));
                self.on_conversation_event(event);
                if is_end { self.bell_if_unfocused() } else { Vec::new() }
            }
            ScreenEvent::Servers(snapshot) => {
                for line in self.channel_notices.new_lines(&snapshot) {
                    self.transcript.push_note(&paint(Tone::Muted, format!("channel: {line}")));
                }
                self.snapshot = snapshot.clone();
                self.notify(&Notice::Servers(snapshot));
                self.refresh_completions();
                Vec::new()
            }
            ScreenEvent::Pool(pool) => {
                self.pool = pool.clone();
                self.notify(&Notice::Pool(pool));
                self.refresh_completions();
                Vec::new()
            }
            ScreenEvent::Configured(configured_servers) => {
                self.notify(&Notice::Configured(configured_servers));
                Vec::new()
            }
            ScreenEvent::Tick => {
                self.notify(&Notice::Tick);
                Vec::new()
            }
            event @ (ScreenEvent::Redraw
            | ScreenEvent::Note(_)
            | ScreenEvent::Error(_)
            | ScreenEvent::Text { .. }
            | ScreenEvent::Page { .. }
            | ScreenEvent::MessageQueued(_)
            | ScreenEvent::OpenOverlay(_)
            | ScreenEvent::DraftReplaced(_)
            | ScreenEvent::Model(_)
            | ScreenEvent::ContextTokens(_)
            | ScreenEvent::MessageWithdrawn(_)
            | ScreenEvent::Prompt(_)
            | ScreenEvent::Completions { .. }
            | ScreenEvent::Focus(_)
            | ScreenEvent::IdeSelection(_)
            | ScreenEvent::IdeMention(_)
            | ScreenEvent::Elicitor(_)) => self.apply(event),
        }
    }

    fn apply(&mut self, event: ScreenEvent) -> Vec<Effect> {
        match event {
            ScreenEvent::Note(text) => {
                self.notify_first_line(&text);
                self.transcript.push_note(&text);
            }
            ScreenEvent::Error(text) => {
                self.notify_first_line(&text);
                self.transcript.push_error(&text);
            }
            ScreenEvent::Text { title, text } => self.show_text(&title, &text),
            ScreenEvent::Page { title, text, start: begin } => {
                self.overlays.push(Box::new(Pager::new(&title, &text, begin)));
            }
            ScreenEvent::MessageQueued(text) => self.queued.push_back(text),
            ScreenEvent::OpenOverlay(overlay) => self.overlays.push(overlay),
            ScreenEvent::DraftReplaced(text) => {
                self.composer.replace(&text);
                self.draft_changed();
            }
            ScreenEvent::Model(model) => self.model = model,
            ScreenEvent::ContextTokens(tokens) => self.context_tokens = tokens,
            ScreenEvent::MessageWithdrawn(Withdrawal::Withdrawn) => {
                if let Some(text) = self.queued.pop_back() {
                    self.composer.replace(&text);
                }
            }
            ScreenEvent::Prompt(asked) => return self.start_prompt(asked),
            ScreenEvent::Completions { typed, values } => self.set_completions(&typed, values),
            ScreenEvent::Focus(focus) => self.focus = focus,
            ScreenEvent::IdeSelection(selection) => self.ide_selection = selection,
            ScreenEvent::IdeMention(text) => self.type_mention(&text),
            ScreenEvent::Elicitor(ElicitorMessage::Request(question)) => {
                self.dialogs.push(question);
                return self.bell_if_unfocused();
            }
            ScreenEvent::Elicitor(ElicitorMessage::Note(text)) => {
                self.transcript.push_note(&sanitize(&text))
            }
            ScreenEvent::Elicitor(ElicitorMessage::Withdrawn) => {
                let (Redraw::Yes | Redraw::No) = self.dialogs.remove_withdrawn();
            }
            ScreenEvent::MessageWithdrawn(Withdrawal::TooLate)
            | ScreenEvent::Redraw
            | ScreenEvent::Key(_)
            | ScreenEvent::Paste(_)
            | ScreenEvent::Conversation(_)
            | ScreenEvent::Servers(_)
            | ScreenEvent::Pool(_)
            | ScreenEvent::Configured(_)
            | ScreenEvent::Tick => {}
        }
        Vec::new()
    }

    /// Types a mention into the input, apart from what is there.
    fn type_mention(&mut self, text: &str) {
        let text = sanitize_line(text);
        let before = &self.composer.draft()[..self.composer.cursor()];
        let space =
            if before.is_empty() || before.ends_with(char::is_whitespace) { "" } else { " " };
        self.composer.insert(&format!("{space}{text} "));
        self.draft_changed();
    }

    /// Rings the bell where the terminal window has no focus.
    fn bell_if_unfocused(&self) -> Vec<Effect> {
        match self.focus {
            WindowFocus::Focused => Vec::new(),
            WindowFocus::Unfocused => vec![Effect::RingBell],
        }
    }

    /// Shows a text in the transcript where it fits on one page, else in a pager.
    fn show_text(&mut self, title: &str, text: &str) {
        match text.lines().count() < self.transcript.page_size() {
            true => self.transcript.push_note(text),
            false => self.overlays.push(Box::new(Pager::new(title, text, StartPosition::Top))),
        }
    }

    /// Passes the first line of a note to the overlays, which hide the transcript.
    fn notify_first_line(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        self.notify(&Notice::ActionDone(line.to_owned()));
    }

    fn notify(&mut self, notice: &Notice) {
        for overlay in &mut self.overlays {
            let (Redraw::Yes | Redraw::No) = overlay.on_notice(notice);
        }
        let (Redraw::Yes | Redraw::No) = self.dialogs.on_notice(notice);
    }

    /// Applies the outcome of the topmost overlay.
    fn apply_outcome(&mut self, outcome: OverlayOutcome) -> Vec<Effect> {
        match outcome {
            OverlayOutcome::Stay => Vec::new(),
            OverlayOutcome::Close => {
                self.overlays.pop();
                Vec::new()
            }
            OverlayOutcome::Run(action) => vec![Effect::RunServerAction(action)],
        }
    }

    fn on_paste(&mut self, text: &str) -> Vec<Effect> {
        if !self.dialogs.is_empty() {
            let outcome = self.dialogs.on_paste(text, self.now);
            return dialog_effects(outcome);
        }
        if let Some(overlay) = self.overlays.last_mut() {
            let outcome = overlay.on_paste(text);
            return self.apply_outcome(outcome);
        }
        self.composer.paste(text);
        self.draft_changed();
        Vec::new()
    }
}

/// The effects of a dialog's outcome. The queue has removed a closed dialog already.
fn dialog_effects(outcome: OverlayOutcome) -> Vec<Effect> {
    match outcome {
        OverlayOutcome::Stay | OverlayOutcome::Close => Vec::new(),
        OverlayOutcome::Run(action) => vec![Effect::RunServerAction(action)],
    }
}
