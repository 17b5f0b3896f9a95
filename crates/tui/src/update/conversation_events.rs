//! Applies the events of the conversation to the transcript.

use switchboard_chat::conversation::event::{ConversationEvent, TurnEnd};

use crate::effects::tool_calls::USER_CALL_PREFIX;
use crate::state::screen_state::ScreenState;
use crate::text::ansi::paint;
use crate::text::model_error::{model_error_text, retry_text};
use crate::theme::Tone;

/// What the user can do while a request is retried.
const RETRY_ADVICE: &str = "Esc stops it, /model chooses another model";

impl ScreenState {
    pub(crate) fn on_conversation_event(&mut self, event: ConversationEvent) {
        match event {
            ConversationEvent::MessagesAccepted { count } => {
                for _ in 0..count {
                    if let Some(text) = self.queued.pop_front() {
                        self.transcript.push_user(&text);
                    }
                }
                self.turn_started.get_or_insert(self.now);
            }
            ConversationEvent::ChannelMessages(messages) => {
                for message in messages {
                    self.transcript.push_channel_message(&message.summary_line());
                }
                self.turn_started.get_or_insert(self.now);
            }
            ConversationEvent::Text(text) => self.transcript.push_response(&text),
            ConversationEvent::Thinking(text) => self.transcript.push_thinking(&text),
            ConversationEvent::ToolUseStarted { .. }
            | ConversationEvent::ToolInput(_)
            | ConversationEvent::BlockEnded(_)
            | ConversationEvent::StructuredOutput(_)
            | ConversationEvent::ResponseEnded(_) => {}
            ConversationEvent::CallStarted(call) => {
                self.user_calls += usize::from(call.id.starts_with(USER_CALL_PREFIX));
                self.transcript.push_call(call, self.now);
            }
            ConversationEvent::CallProgress { id, progress, total, message } => {
                self.transcript.set_call_progress(&id, progress, total, message);
            }
            ConversationEvent::CallEnded { id, outcome, text, duration, .. } => {
                if id.starts_with(USER_CALL_PREFIX) {
                    self.user_calls = self.user_calls.saturating_sub(1);
                }
                self.transcript.finish_call(&id, outcome, &text, duration);
            }
            ConversationEvent::Usage(usage) => self.usage = usage,
            ConversationEvent::Retrying { attempt, after, reason } => {
                self.transcript.discard_response();
                let text = retry_text(attempt, after, &reason, RETRY_ADVICE);
                self.transcript.set_retry_note(&paint(Tone::Warning, text));
            }
            ConversationEvent::TurnEnded(end) => {
                self.turn_started = None;
                self.on_turn_ended(end);
            }
        }
    }

    fn on_turn_ended(&mut self, end: TurnEnd) {
        match end {
            TurnEnd::Finished => {}
            TurnEnd::CutShort => {
                self.transcript.push_note("The answer reached the length limit; send “continue”.");
            }
            TurnEnd::Refused => self.transcript.push_note("The model refused to answer."),
            TurnEnd::Interrupted => self.transcript.push_note("Stopped."),
            TurnEnd::NoStructuredOutput => {
                self.transcript.push_note("The model did not give the JSON that was asked for.");
            }
            TurnEnd::TooManyRounds => {
                self.transcript.push_note("Too many rounds of calls; send “continue”.");
            }
            TurnEnd::StoppedByHook(why) => {
                self.transcript.push_note(&format!("Stopped by a hook: {why}"));
            }
            TurnEnd::Failed(error) => self.transcript.push_error(&model_error_text(&error)),
        }
    }
}
