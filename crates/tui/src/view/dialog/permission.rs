//! The permission dialog for a tool call: the tool, its warnings, its arguments or the file change they describe, and
//! the rule that a permanent grant writes.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use serde_json::Value as Json;
use switchboard::config::permission::{RuleCoverage, Suggestion};
use switchboard::permission::DefinitionDiff;
use switchboard::permission::{GrantScope, PermissionDecision, PermissionRequest};
use switchboard::pool::Annotations;
use tokio::sync::oneshot;

use crate::text::json;
use crate::text::rich_text::{RichText, draw_lines};
use crate::theme::{ScreenTheme, Tone};
use crate::view::dialog::edit_preview;
use crate::view::dialog::edit_preview::EditPreview;
use crate::view::overlay::{Dialog, Overlay, OverlayOutcome};
use crate::view::widget::button_row::ButtonRow;
use crate::view::widget::frame::{FRAME_SIZE, draw_frame, is_cancel_key, split_rows};
use crate::view::widget::input::{InputFocus, KeyOutcome};
use crate::view::widget::scroll_area::ScrollArea;

/// A call that needs permission.
#[derive(Debug, Clone)]
pub struct ProposedCall {
    /// The caller: `cli`, `chat` or the name of a client.
    pub caller: String,
    /// The server.
    pub server: String,
    /// The tool's name at the server.
    pub tool: String,
    /// The tool's title.
    pub title: Option<String>,
    /// The tool's annotations.
    pub annotations: Annotations,
    /// Warnings about the tool.
    pub warnings: Vec<String>,
    /// Its arguments.
    pub arguments: Json,
    /// The file change they describe, if they look like an edit.
    pub edit: Option<EditPreview>,
    /// Why permission is needed.
    pub reason: String,
    /// The rules that would allow it next time, the narrowest first.
    pub suggestions: Vec<Suggestion>,
    /// How the tool's definition changed since it was approved.
    pub pin_change: Option<DefinitionDiff>,
    /// The file that a permanent grant is written to, as it is displayed.
    pub rule_file: String,
}

impl ProposedCall {
    /// The call of a permission request, without an edit preview.
    pub fn from_request(request: &PermissionRequest<'_>, rule_file: &str) -> ProposedCall {
        ProposedCall {
            caller: request.caller.to_owned(),
            server: request.tool.server.clone(),
            tool: request.tool.name.clone(),
            title: request.tool.title.clone(),
            annotations: request.tool.annotations,
            warnings: request.tool.flags().iter().map(ToString::to_string).collect(),
            arguments: request.arguments.clone(),
            edit: None,
            reason: request.because.clone(),
            suggestions: request.suggestions.clone(),
            pin_change: request.definition_diff.clone(),
            rule_file: rule_file.to_owned(),
        }
    }

    fn head(&self) -> RichText {
        let mut content = RichText::default();
        let mut about = Vec::new();
        if let Some(title) = self.title.as_ref().filter(|it| **it != self.tool) {
            about.push((Tone::Strong, title.clone()));
            about.push((Tone::Muted, " · ".to_owned()));
        }
        let it = self.annotations;
        about.push(match (it.read_only, it.destructive) {
            (true, _) => (Tone::Success, "read-only".to_owned()),
            (false, true) => (Tone::Warning, "destructive".to_owned()),
            (false, false) => (Tone::Text, "writes".to_owned()),
        });
        if it.open_world {
            about.push((Tone::Muted, " · open world".to_owned()));
        }
        content.push_line(2, about);
        for flag in &self.warnings {
            content.push_line(
                5,
                vec![(Tone::Error, "warning: ".to_owned()), (Tone::Text, flag.clone())],
            );
        }
        let caller = match self.caller.as_str() {
            "chat" => "the model".to_owned(),
            "cli" => "you".to_owned(),
            other => other.to_owned(),
        };
        let text = format!("requested by {caller}; {}", self.reason);
        content.push_line(2, vec![(Tone::Muted, text)]);
        content
    }

    fn body(&self) -> RichText {
        let mut content = RichText::default();
        if let Some(diff) = &self.pin_change {
            content.push_text(Tone::Error, "Its definition has changed since it was approved:");
            edit_preview::push_diff_lines(&mut content, &diff.lines);
            content.push_blank();
        }
        if let Some(edit) = &self.edit {
            content.push_line(
                2,
                vec![(Tone::Strong, "Changes in ".to_owned()), (Tone::Link, edit.path.clone())],
            );
            edit_preview::push_diff_lines(&mut content, &edit.lines);
            content.push_blank();
        }
        let mut arguments = self.arguments.clone();
        if let (Some(edit), Some(members)) = (&self.edit, arguments.as_object_mut()) {
            members.retain(|key, _| !edit.argument_names.contains(key));
        }
        match arguments.as_object().is_some_and(|it| it.is_empty()) {
            true if self.edit.is_some() => {}
            true => content.push_text(Tone::Muted, "No arguments."),
            false => json::push_json(&mut content, &arguments),
        }
        content
    }

    /// The rule of a session grant: for the tool rather than its whole server.
    fn session_rule(&self) -> Option<&Suggestion> {
        let for_tool = self.suggestions.iter().find(|it| it.coverage == RuleCoverage::Tool);
        for_tool.or(self.suggestions.first())
    }
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermissionAnswer {
    Once,
    Session,
    Always,
    No,
}

impl PermissionAnswer {
    fn label(self) -> &'static str {
        match self {
            PermissionAnswer::Once => "Yes, once",
            PermissionAnswer::Session => "Yes, this session",
            PermissionAnswer::Always => "Always",
            PermissionAnswer::No => "No",
        }
    }
}

/// What the user is choosing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermissionStep {
    /// The answer.
    Answer,
    /// Which of several rules to write; this one is selected.
    Rule(usize),
}

/// A permission dialog.
#[derive(Debug)]
pub struct PermissionDialog {
    call: ProposedCall,
    reply: Option<oneshot::Sender<PermissionDecision>>,
    head: RichText,
    body: ScrollArea,
    choices: Vec<PermissionAnswer>,
    buttons: ButtonRow,
    step: PermissionStep,
}

impl PermissionDialog {
    /// A dialog whose answer goes to `reply`.
    pub fn new(call: ProposedCall, reply: oneshot::Sender<PermissionDecision>) -> PermissionDialog {
        let choices = match call.suggestions.is_empty() {
            true => vec![PermissionAnswer::Once, PermissionAnswer::No],
            false => vec![
                PermissionAnswer::Once,
                PermissionAnswer::Session,
                PermissionAnswer::Always,
                PermissionAnswer::No,
            ],
        };
        let labels: Vec<&str> = choices.iter().map(|it| it.label()).collect();
        // A changed tool is not the one the user approved, so "No" is selected.
        let at = if call.pin_change.is_some() { choices.len() - 1 } else { 0 };
        let buttons = ButtonRow::new(&labels, at);
        let (head, body) = (call.head(), ScrollArea::new(call.body()));
        PermissionDialog {
            call,
            reply: Some(reply),
            head,
            body,
            choices,
            buttons,
            step: PermissionStep::Answer,
        }
    }

    fn selected(&self) -> PermissionAnswer {
        self.choices.get(self.buttons.selected).copied().unwrap_or(PermissionAnswer::No)
    }

    fn answer(&mut self, decision: PermissionDecision) -> OverlayOutcome {
        if let Some(reply) = self.reply.take() {
            let _caller_gone = reply.send(decision);
        }
        OverlayOutcome::Close
    }

    fn allow(&mut self, scope: GrantScope) -> OverlayOutcome {
        self.answer(PermissionDecision::Allow { decided_by: "you said yes".to_owned(), scope })
    }

    fn confirm(&mut self) -> OverlayOutcome {
        let usual = self.call.session_rule().map(|it| it.rule.clone());
        match (self.selected(), usual) {
            (PermissionAnswer::Once, _) => self.allow(GrantScope::Once),
            (PermissionAnswer::Session, Some(rule)) => self.allow(GrantScope::Session(rule)),
            (PermissionAnswer::Always, Some(rule)) if self.call.suggestions.len() == 1 => {
                self.allow(GrantScope::Always(rule))
            }
            (PermissionAnswer::Always, Some(_)) => {
                let is_of_tool = |it: &Suggestion| it.coverage == RuleCoverage::Tool;
                let at = self.call.suggestions.iter().position(is_of_tool).unwrap_or(0);
                self.step = PermissionStep::Rule(at);
                OverlayOutcome::Stay
            }
            (PermissionAnswer::No | PermissionAnswer::Session | PermissionAnswer::Always, _) => {
                self.deny()
            }
        }
    }

    fn deny(&mut self) -> OverlayOutcome {
        self.answer(PermissionDecision::DeniedByUser)
    }

    fn rule_key(&mut self, key: KeyEvent, at: usize) -> OverlayOutcome {
        let last = self.call.suggestions.len().saturating_sub(1);
        match (key.code, ()) {
            (KeyCode::Esc, ()) => self.step = PermissionStep::Answer,
            (KeyCode::Up | KeyCode::Left | KeyCode::BackTab, ()) => {
                self.step = PermissionStep::Rule(at.saturating_sub(1));
            }
            (KeyCode::Down | KeyCode::Right | KeyCode::Tab, ()) => {
                self.step = PermissionStep::Rule((at + 1).min(last));
            }
            (KeyCode::Char(c), ()) => {
                let number = c.to_digit(10).and_then(|it| usize::try_from(it).ok());
                if let Some(at) = number.and_then(|it| it.checked_sub(1)).filter(|it| *it <= last) {
                    self.step = PermissionStep::Rule(at);
                }
            }
            (KeyCode::Enter, ()) => {
                if let Some(suggestion) = self.call.suggestions.get(at) {
                    let rule = suggestion.rule.clone();
                    return self.allow(GrantScope::Always(rule));
                }
            }
            (_, ()) => {}
        }
        OverlayOutcome::Stay
    }

    /// The text below the buttons: what the selected answer does.
    fn consequence(&self) -> RichText {
        let mut content = RichText::default();
        let rule = |it: &Suggestion| (Tone::Code, format!("allow {}", it.rule.to_printable()));
        let muted = |text: &str| (Tone::Muted, text.to_owned());
        match (self.step, self.selected(), self.call.session_rule()) {
            (PermissionStep::Rule(at), _, _) => {
                let file = format!("Which rule is written to {}?", self.call.rule_file);
                content.push_text(Tone::Strong, &file);
                for (index, it) in self.call.suggestions.iter().enumerate() {
                    let tone = if index == at { Tone::Selected } else { Tone::Text };
                    let mark = if index == at { ">" } else { " " };
                    let about = match it.coverage {
                        RuleCoverage::Arguments => "with these arguments",
                        RuleCoverage::Tool => "this tool",
                        RuleCoverage::Server => "every tool of the server",
                    };
                    let front = format!("{mark}{} {about}: ", index + 1);
                    content.push_line(4, vec![(tone, front), rule(it)]);
                }
            }
            (PermissionStep::Answer, PermissionAnswer::Session, Some(it)) => {
                content.push_line(2, vec![muted("until you quit: "), rule(it)]);
            }
            (PermissionStep::Answer, PermissionAnswer::Always, Some(it)) => {
                let several = self.call.suggestions.len() > 1;
                let front = if several { "you choose the rule; suggested: " } else { "writes " };
                let place = format!(" to {}", self.call.rule_file);
                content.push_line(2, vec![muted(front), rule(it), muted(&place)]);
            }
            (
                PermissionStep::Answer,
                PermissionAnswer::Once
                | PermissionAnswer::No
                | PermissionAnswer::Session
                | PermissionAnswer::Always,
                _,
            ) => {}
        }
        content
    }
}

impl Overlay for PermissionDialog {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let title = format!("{} wants to run {}", self.call.server, self.call.tool);
        let inner = draw_frame(frame, area, theme, &title);
        let head = self.head.layout(inner.width, theme);
        let mut below = match self.step {
            PermissionStep::Answer => self.buttons.layout(inner.width, theme, InputFocus::Focused),
            PermissionStep::Rule(_) => Vec::new(),
        };
        below.extend(self.consequence().layout(inner.width, theme));
        let [above, middle, bottom] = split_rows(inner, head.len(), below.len());
        draw_lines(frame.buffer_mut(), above, &head);
        self.body.draw(frame, middle, theme);
        draw_lines(frame.buffer_mut(), bottom, &below);
    }

    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome {
        if let PermissionStep::Rule(at) = self.step {
            return self.rule_key(key, at);
        }
        if is_cancel_key(key) {
            return self.deny();
        }
        if key.code == KeyCode::Enter {
            return self.confirm();
        }
        if self.buttons.on_key(key) == KeyOutcome::NotHandled {
            self.body.on_key(key);
        }
        OverlayOutcome::Stay
    }

    fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        match self.step {
            PermissionStep::Answer => {
                vec![("←→", "choose"), ("Enter", "answer"), ("↑↓", "scroll"), ("Esc", "no")]
            }
            PermissionStep::Rule(_) => {
                vec![("↑↓", "choose"), ("Enter", "write it"), ("Esc", "back")]
            }
        }
    }
}

impl Dialog for PermissionDialog {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn preferred_height(&mut self, width: u16, theme: &ScreenTheme) -> u16 {
        let inside = width.saturating_sub(FRAME_SIZE.0);
        let rows = self.head.layout(inside, theme).len()
            + self.body.height(inside, theme)
            + self.buttons.layout(inside, theme, InputFocus::Focused).len()
            // Room for the rules, so that the dialog does not grow.
            + 1 + self.call.suggestions.len().max(1);
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME_SIZE.1)
    }
}

#[cfg(test)]
mod tests;
