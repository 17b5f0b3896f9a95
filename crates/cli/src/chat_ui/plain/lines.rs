//! The events of a conversation as lines on standard output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::config::display::{masked_json, sanitize, sanitize_line};
use switchboard_chat::conversation::event::{
    CallOutcome, ConversationEvent, ToolCallView, TurnEnd,
};
use switchboard_tui::text::duration::format_duration;
use switchboard_tui::text::model_error::{model_error_text, retry_text};

use crate::output::report;

/// How many lines of a tool's result are printed.
const PREVIEW_LINES: usize = 20;
/// The shortest time between two progress lines of one call.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Prints lines, and ends a streamed one before the next begins.
#[derive(Debug, Default)]
pub(crate) struct LineWriter {
    /// Does the last line lack its line break?
    is_line_open: bool,
    /// Were retries of the current response announced?
    is_retrying: bool,
    /// The titles of running calls, and when each last printed its progress.
    calls: BTreeMap<Arc<str>, (String, Instant)>,
}

impl LineWriter {
    /// Prints whole lines.
    pub(crate) fn print(&mut self, text: &str) {
        self.end_line();
        report::print_stdout(text);
    }

    /// Ends the line that is open, if any.
    pub(crate) fn end_line(&mut self) {
        if std::mem::take(&mut self.is_line_open) {
            report::print_stdout("\n");
        }
    }

    /// Prints an event. Streamed text is printed as it comes.
    pub(crate) fn print_event(&mut self, event: ConversationEvent) {
        match event {
            ConversationEvent::Text(text) => {
                let text = sanitize(&text);
                self.is_line_open = !text.ends_with('\n');
                report::print_stdout(&text);
            }
            ConversationEvent::ChannelMessages(messages) => {
                for message in messages {
                    self.print(&format!("← {}\n", message.summary_line()));
                }
            }
            ConversationEvent::CallStarted(call) => self.call_started(call),
            ConversationEvent::CallProgress { id, progress, total, message } => {
                let Some((title, printed)) = self.calls.get_mut(&id) else { return };
                if printed.elapsed() < PROGRESS_INTERVAL {
                    return;
                }
                *printed = Instant::now();
                let total = total.map(|it| format!(" of {it}")).unwrap_or_default();
                let message = message.map(|it| format!(", {}", sanitize_line(&it)));
                let line = format!("{title}: {progress}{total}{}\n", message.unwrap_or_default());
                self.print(&line);
            }
            ConversationEvent::CallEnded { id, outcome, text, duration, .. } => {
                let title = self.calls.remove(&id).map(|it| it.0).unwrap_or_default();
                let how = match outcome {
                    CallOutcome::Done => "done",
                    CallOutcome::ToolError => "the tool failed",
                    CallOutcome::Failed => "not made",
                    CallOutcome::Denied => "not allowed",
                    CallOutcome::Interrupted => "stopped",
                };
                self.print(&format!("{title}: {how} after {}\n", format_duration(duration)));
                self.print(&preview(&text));
            }
            ConversationEvent::Retrying { attempt, after, reason } => {
                // One line for all retries of a response.
                if !std::mem::replace(&mut self.is_retrying, true) {
                    let advice = "Ctrl+C stops it, `/model` chooses another model";
                    self.print(&format!("{}\n", retry_text(attempt, after, &reason, advice)));
                }
            }
            ConversationEvent::ResponseEnded(_) => self.is_retrying = false,
            ConversationEvent::TurnEnded(end) => {
                self.is_retrying = false;
                self.end_line();
                self.turn_ended(&end);
            }
            ConversationEvent::MessagesAccepted { .. }
            | ConversationEvent::Thinking(_)
            | ConversationEvent::ToolUseStarted { .. }
            | ConversationEvent::ToolInput(_)
            | ConversationEvent::BlockEnded(_)
            | ConversationEvent::StructuredOutput(_)
            | ConversationEvent::Usage(_) => {}
        }
    }

    fn call_started(&mut self, call: ToolCallView) {
        let title = sanitize_line(&call.title);
        let arguments = masked_json(&call.arguments);
        self.print(&format!("calling {title} {}\n", sanitize_line(&arguments.to_string())));
        self.calls.insert(call.id, (title, Instant::now()));
    }

    fn turn_ended(&mut self, end: &TurnEnd) {
        let text = match end {
            TurnEnd::Finished => return,
            TurnEnd::CutShort => "The answer reached the length limit; send “continue”.".to_owned(),
            TurnEnd::Refused => "The model refused to answer.".to_owned(),
            TurnEnd::Interrupted => "Stopped.".to_owned(),
            TurnEnd::StoppedByHook(why) => format!("Stopped by a hook: {}", sanitize_line(why)),
            TurnEnd::NoStructuredOutput => {
                "The model did not give the JSON that was asked for.".to_owned()
            }
            TurnEnd::TooManyRounds => "Too many rounds of calls; send “continue”.".to_owned(),
            TurnEnd::Failed(error) => model_error_text(error),
        };
        self.print(&format!("{text}\n"));
    }
}

fn preview(text: &str) -> String {
    let text = sanitize(text.trim_end());
    let count = text.lines().count();
    let mut lines: Vec<&str> = text.lines().take(PREVIEW_LINES).collect();
    let more = format!("({} more lines)", count.saturating_sub(PREVIEW_LINES));
    if count > PREVIEW_LINES {
        lines.push(&more);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
