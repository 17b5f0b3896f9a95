//! A form that a server wants filled in: every field at once, what is wrong said below it, three answers at the end.
//! What is a valid answer is decided by `host::form`.

mod field;

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use serde_json::Map;
use switchboard::elicitation::elicitor::ElicitResult;
use switchboard::elicitation::form::Form;
use tokio::sync::oneshot;

use crate::text::rich_text::{RichText, draw_lines};
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::overlay::{Dialog, Overlay, OverlayOutcome};
use crate::view::widget::button_row::ButtonRow;
use crate::view::widget::frame::{
    FRAME_SIZE, draw_frame, hidden_lines_label, is_cancel_key, split_rows,
};
use crate::view::widget::input::{InputFocus, KeyHandled};
use crate::view::widget::scroll::Scroll;

use field::{ErrorVisibility, FieldEditor};

/// The dialog.
#[derive(Debug)]
pub struct FormDialog {
    server: String,
    message: String,
    fields: Vec<FieldEditor>,
    /// The field that the keys go to; the answers, where it is none of them.
    focused: usize,
    answers: ButtonRow,
    error_visibility: ErrorVisibility,
    scroll: Scroll,
    /// Is the field that the keys go to to be seen? Not while somebody reads elsewhere.
    follows_focus: bool,
    reply: Option<oneshot::Sender<ElicitResult>>,
}

/// Everything that scrolls, laid out.
#[derive(Default)]
struct FormLayout {
    lines: Vec<Line<'static>>,
    /// Where each field is.
    fields: Vec<std::ops::Range<usize>>,
    /// Where something is typed: the line, and whose it is.
    text_fields: Vec<(usize, usize)>,
}

/// How far what is typed is moved in.
const INDENT: u16 = 4;

impl FormDialog {
    /// Asks for a form to be filled in.
    pub fn new(server: &str, form: Form, reply: oneshot::Sender<ElicitResult>) -> FormDialog {
        FormDialog {
            server: server.to_owned(),
            message: form.message,
            fields: form.fields.into_iter().map(FieldEditor::new).collect(),
            focused: 0,
            answers: ButtonRow::new(&["Accept", "Decline", "Cancel"], 0),
            error_visibility: ErrorVisibility::Touched,
            scroll: Scroll::default(),
            follows_focus: true,
            reply: Some(reply),
        }
    }

    fn focus(&self, at: usize) -> InputFocus {
        if self.focused == at { InputFocus::Focused } else { InputFocus::Unfocused }
    }

    fn focus_field(&mut self, at: usize) -> OverlayOutcome {
        self.focused = at.min(self.fields.len());
        self.follows_focus = true;
        OverlayOutcome::Stay
    }

    fn answer(&mut self, reply: ElicitResult) -> OverlayOutcome {
        if let Some(sender) = self.reply.take() {
            let _nobody_waits = sender.send(reply);
        }
        OverlayOutcome::Close
    }

    fn cancel(&mut self) -> OverlayOutcome {
        self.answer(ElicitResult::Cancel("the person did not decide".to_owned()))
    }

    fn confirm(&mut self) -> OverlayOutcome {
        match self.answers.selected {
            0 => self.accept(),
            1 => self.answer(ElicitResult::Decline("the person said no".to_owned())),
            _ => self.cancel(),
        }
    }

    fn accept(&mut self) -> OverlayOutcome {
        if let Some(at) = self.fields.iter().position(|it| it.value().is_err()) {
            self.error_visibility = ErrorVisibility::All;
            return self.focus_field(at);
        }
        let mut answers = Map::new();
        for blank in &self.fields {
            if let Ok(Some(value)) = blank.value() {
                answers.insert(blank.name().to_owned(), value);
            }
        }
        self.answer(ElicitResult::Accept(answers))
    }

    fn layout(&self, width: u16, theme: &ScreenTheme) -> FormLayout {
        let mut laid = FormLayout::default();
        let mut message = RichText::default();
        if !self.message.is_empty() {
            message.push_text(Tone::Text, &self.message);
            message.push_blank();
        }
        laid.lines = message.layout(width, theme);
        for (at, blank) in self.fields.iter().enumerate() {
            let start = laid.lines.len();
            let focus = self.focus(at);
            laid.lines.extend(blank.label(focus, theme).layout(width, theme));
            match blank.text_field() {
                Some(_) => {
                    laid.text_fields.push((laid.lines.len(), at));
                    let front = match theme.glyphs {
                        GlyphSet::Unicode => "  › ",
                        GlyphSet::Ascii => "  : ",
                    };
                    laid.lines.push(Line::from(Span::styled(front, theme.style(Tone::Muted))));
                }
                None => laid.lines.extend(blank.choices(focus, theme).layout(width, theme)),
            }
            if let Some(complaint) = blank.error_message(self.error_visibility) {
                let mut content = RichText::default();
                content.push_indented(2, Tone::Error, &complaint);
                laid.lines.extend(content.layout(width, theme));
            }
            laid.fields.push(start..laid.lines.len());
        }
        laid
    }

    fn draw_fields(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let laid = self.layout(area.width, theme);
        let is_more = laid.lines.len() > usize::from(area.height) && area.height > 1;
        let height = if is_more { area.height - 1 } else { area.height };
        if self.follows_focus
            && let Some(lines) = laid.fields.get(self.focused)
        {
            self.scroll.scroll_into_view(lines.clone(), height);
        }
        let seen = self.scroll.visible(laid.lines.len(), height);
        let room = Rect { height, ..area };
        draw_lines(frame.buffer_mut(), room, &laid.lines[seen.clone()]);
        for (line, at) in laid.text_fields.into_iter().filter(|(line, _)| seen.contains(line)) {
            let row = u16::try_from(line - seen.start).unwrap_or(u16::MAX);
            let area = Rect {
                x: area.x + INDENT.min(area.width),
                y: area.y + row,
                width: area.width.saturating_sub(INDENT),
                height: 1,
            };
            if let Some(typed) = self.fields[at].text_field() {
                typed.draw(frame, area, theme, self.focus(at));
            }
        }
        if is_more {
            let text = Span::styled(
                hidden_lines_label(self.scroll.hidden_counts(), theme),
                theme.style(Tone::Warning),
            );
            frame.buffer_mut().set_span(area.x, area.y + height, &text, area.width);
        }
    }
}

impl Overlay for FormDialog {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let inner = draw_frame(frame, area, theme, &format!("{} asks", self.server));
        let answers = self.answers.layout(inner.width, theme, self.focus(self.fields.len()));
        let [_, middle, bottom] = split_rows(inner, 0, answers.len());
        self.draw_fields(frame, middle, theme);
        draw_lines(frame.buffer_mut(), bottom, &answers);
    }

    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome {
        if is_cancel_key(key) {
            return self.cancel();
        }
        let is_answers = self.focused >= self.fields.len();
        let page = self.scroll.page_size();
        match (key.code, is_answers) {
            (KeyCode::Down, _) | (KeyCode::Tab | KeyCode::Enter, false) => {
                self.focus_field(self.focused + 1)
            }
            (KeyCode::Up | KeyCode::BackTab, _) => self.focus_field(self.focused.saturating_sub(1)),
            (KeyCode::Tab, true) => self.focus_field(0),
            (KeyCode::Enter, true) => self.confirm(),
            (KeyCode::PageDown, _) => {
                self.follows_focus = false;
                self.scroll.scroll_by(page);
                OverlayOutcome::Stay
            }
            (KeyCode::PageUp, _) => {
                self.follows_focus = false;
                self.scroll.scroll_by(-page);
                OverlayOutcome::Stay
            }
            (_, _) => {
                let taken = match self.fields.get_mut(self.focused) {
                    Some(blank) => blank.on_key(key),
                    None => self.answers.on_key(key),
                };
                self.follows_focus = self.follows_focus || taken == KeyHandled::Yes;
                OverlayOutcome::Stay
            }
        }
    }

    fn on_paste(&mut self, text: &str) -> OverlayOutcome {
        if let Some(blank) = self.fields.get_mut(self.focused) {
            blank.paste(text);
            self.follows_focus = true;
        }
        OverlayOutcome::Stay
    }

    fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        match self.focused < self.fields.len() {
            true => vec![("Tab", "next"), ("←→ Space", "choose"), ("Esc", "cancel")],
            false => vec![("←→", "choose"), ("Enter", "answer"), ("Esc", "cancel")],
        }
    }
}

impl Dialog for FormDialog {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn preferred_height(&mut self, width: u16, theme: &ScreenTheme) -> u16 {
        let inside = width.saturating_sub(FRAME_SIZE.0);
        let rows = self.layout(inside, theme).lines.len()
            // Room for what is wrong, so that nothing jumps.
            + self.fields.len()
            + self.answers.layout(inside, theme, InputFocus::Focused).len();
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME_SIZE.1)
    }
}

#[cfg(test)]
mod tests;
