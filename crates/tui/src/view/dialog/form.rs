//! The dialog of a form elicitation: all fields, errors below each, and the three answers. Which values are valid is
//! decided by the host's `elicitation::form`.

mod field;

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use serde_json::Map;
use switchboard::elicitation::{ElicitResult, Form};
use tokio::sync::oneshot;

use crate::text::rich_text::{RichText, draw_lines};
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::overlay::{Dialog, Overlay, OverlayOutcome};
use crate::view::widget::button_row::ButtonRow;
use crate::view::widget::frame::{
    FRAME_SIZE, draw_frame, hidden_lines_label, is_cancel_key, split_rows,
};
use crate::view::widget::input::{InputFocus, KeyOutcome};
use crate::view::widget::scroll::Scroll;

use field::{ErrorVisibility, FieldEditor};

/// A form dialog.
#[derive(Debug)]
pub struct FormDialog {
    server: String,
    message: String,
    fields: Vec<FieldEditor>,
    /// The focused field; one past the last field, the buttons.
    focused: usize,
    answers: ButtonRow,
    error_visibility: ErrorVisibility,
    scroll: Scroll,
    /// Is the focused field scrolled into view? Not after the user has scrolled.
    follows_focus: bool,
    reply: Option<oneshot::Sender<ElicitResult>>,
}

/// The layout of the scrolling part.
#[derive(Default)]
struct FormLayout {
    lines: Vec<Line<'static>>,
    /// The lines of each field.
    fields: Vec<std::ops::Range<usize>>,
    /// The line of each text field, and the index of the field.
    text_fields: Vec<(usize, usize)>,
}

/// The indentation of text fields.
const INDENT: u16 = 4;

impl FormDialog {
    /// A dialog whose answer goes to `reply`.
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
            let _caller_gone = sender.send(reply);
        }
        OverlayOutcome::Close
    }

    fn cancel(&mut self) -> OverlayOutcome {
        self.answer(ElicitResult::Cancel("the user did not decide".to_owned()))
    }

    fn confirm(&mut self) -> OverlayOutcome {
        match self.answers.selected {
            0 => self.accept(),
            1 => self.answer(ElicitResult::Decline("the user said no".to_owned())),
            _ => self.cancel(),
        }
    }

    fn accept(&mut self) -> OverlayOutcome {
        if let Some(at) = self.fields.iter().position(|it| it.value().is_err()) {
            self.error_visibility = ErrorVisibility::All;
            return self.focus_field(at);
        }
        let mut answers = Map::new();
        for field in &self.fields {
            if let Ok(Some(value)) = field.value() {
                answers.insert(field.name().to_owned(), value);
            }
        }
        self.answer(ElicitResult::Accept(answers))
    }

    fn layout(&self, width: u16, theme: &ScreenTheme) -> FormLayout {
        let mut layout = FormLayout::default();
        let mut message = RichText::default();
        if !self.message.is_empty() {
            message.push_text(Tone::Text, &self.message);
            message.push_blank();
        }
        layout.lines = message.layout(width, theme);
        for (at, field) in self.fields.iter().enumerate() {
            let start = layout.lines.len();
            let focus = self.focus(at);
            layout.lines.extend(field.label(focus, theme).layout(width, theme));
            match field.text_field() {
                Some(_) => {
                    layout.text_fields.push((layout.lines.len(), at));
                    let front = match theme.glyphs {
                        GlyphSet::Unicode => "  › ",
                        GlyphSet::Ascii => "  : ",
                    };
                    layout.lines.push(Line::from(Span::styled(front, theme.style(Tone::Muted))));
                }
                None => layout.lines.extend(field.choices(focus, theme).layout(width, theme)),
            }
            if let Some(error) = field.error_message(self.error_visibility) {
                let mut content = RichText::default();
                content.push_indented(2, Tone::Error, &error);
                layout.lines.extend(content.layout(width, theme));
            }
            layout.fields.push(start..layout.lines.len());
        }
        layout
    }

    fn draw_fields(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let layout = self.layout(area.width, theme);
        let is_more = layout.lines.len() > usize::from(area.height) && area.height > 1;
        let height = if is_more { area.height - 1 } else { area.height };
        if self.follows_focus
            && let Some(lines) = layout.fields.get(self.focused)
        {
            self.scroll.scroll_into_view(lines.clone(), height);
        }
        let visible = self.scroll.visible(layout.lines.len(), height);
        let room = Rect { height, ..area };
        draw_lines(frame.buffer_mut(), room, &layout.lines[visible.clone()]);
        for (line, at) in layout.text_fields.into_iter().filter(|(line, _)| visible.contains(line))
        {
            let row = u16::try_from(line - visible.start).unwrap_or(u16::MAX);
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
                let handled = match self.fields.get_mut(self.focused) {
                    Some(field) => field.on_key(key),
                    None => self.answers.on_key(key),
                };
                self.follows_focus = self.follows_focus || handled == KeyOutcome::Handled;
                OverlayOutcome::Stay
            }
        }
    }

    fn on_paste(&mut self, text: &str) -> OverlayOutcome {
        if let Some(field) = self.fields.get_mut(self.focused) {
            field.paste(text);
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
            // Room for error messages, so that the dialog does not grow.
            + self.fields.len()
            + self.answers.layout(inside, theme, InputFocus::Focused).len();
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME_SIZE.1)
    }
}

#[cfg(test)]
mod tests;
