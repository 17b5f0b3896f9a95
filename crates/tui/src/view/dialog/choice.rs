//! A dialog of a text and a few buttons. What each answer means is left to the caller.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use tokio::sync::oneshot;

use crate::text::rich_text::{RichText, draw_lines};
use crate::theme::ScreenTheme;
use crate::view::overlay::{Dialog, Overlay, OverlayOutcome, Urgency};
use crate::view::widget::button_row::ButtonRow;
use crate::view::widget::frame::{FRAME_SIZE, draw_frame, is_cancel_key, split_rows};
use crate::view::widget::input::{InputFocus, KeyOutcome};
use crate::view::widget::scroll_area::ScrollArea;

/// The content of a choice dialog.
#[derive(Debug)]
pub struct ChoiceOptions<T> {
    /// Its title.
    pub title: String,
    /// The text that stays visible.
    pub head: RichText,
    /// The text that scrolls.
    pub body: RichText,
    /// The answers: label, an optional shortcut key, and value.
    pub answers: Vec<(&'static str, Option<char>, T)>,
    /// The answer that is selected at first.
    pub selected: usize,
    /// The value of Esc.
    pub escape: T,
    /// Whether it asks, or only waits.
    pub urgency: Urgency,
    /// The keys for the status line.
    pub keys: Vec<(&'static str, &'static str)>,
}

/// A choice dialog.
#[derive(Debug)]
pub struct ChoiceDialog<T> {
    title: String,
    head: RichText,
    body: ScrollArea,
    answers: ButtonRow,
    values: Vec<(Option<char>, T)>,
    escape: T,
    urgency: Urgency,
    keys: Vec<(&'static str, &'static str)>,
    reply: Option<oneshot::Sender<T>>,
}

impl<T: Clone + Send> ChoiceDialog<T> {
    /// A dialog whose answer goes to `reply`.
    pub fn new(choice: ChoiceOptions<T>, reply: oneshot::Sender<T>) -> ChoiceDialog<T> {
        let labels: Vec<&str> = choice.answers.iter().map(|it| it.0).collect();
        ChoiceDialog {
            title: choice.title,
            head: choice.head,
            body: ScrollArea::new(choice.body),
            answers: ButtonRow::new(&labels, choice.selected),
            values: choice.answers.into_iter().map(|(_, shortcut, it)| (shortcut, it)).collect(),
            escape: choice.escape,
            urgency: choice.urgency,
            keys: choice.keys,
            reply: Some(reply),
        }
    }

    fn answer(&mut self, value: T) -> OverlayOutcome {
        if let Some(reply) = self.reply.take() {
            let _caller_gone = reply.send(value);
        }
        OverlayOutcome::Close
    }
}

impl<T: Clone + Send> Overlay for ChoiceDialog<T> {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let inner = draw_frame(frame, area, theme, &self.title);
        let head = self.head.layout(inner.width, theme);
        let answers = self.answers.layout(inner.width, theme, InputFocus::Focused);
        let [above, middle, bottom] = split_rows(inner, head.len(), answers.len());
        draw_lines(frame.buffer_mut(), above, &head);
        self.body.draw(frame, middle, theme);
        draw_lines(frame.buffer_mut(), bottom, &answers);
    }

    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome {
        if is_cancel_key(key) {
            return self.answer(self.escape.clone());
        }
        let at_once = self.values.iter().find(|(shortcut, _)| {
            shortcut.is_some_and(|it| key.code == KeyCode::Char(it)) && key.modifiers.is_empty()
        });
        if let Some((_, value)) = at_once {
            return self.answer(value.clone());
        }
        if key.code == KeyCode::Enter {
            let value = self.values.get(self.answers.selected).map(|it| it.1.clone());
            return self.answer(value.unwrap_or_else(|| self.escape.clone()));
        }
        if self.answers.on_key(key) == KeyOutcome::NotHandled {
            self.body.on_key(key);
        }
        OverlayOutcome::Stay
    }

    fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        self.keys.clone()
    }
}

impl<T: Clone + Send> Dialog for ChoiceDialog<T> {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn urgency(&self) -> Urgency {
        self.urgency
    }

    fn preferred_height(&mut self, width: u16, theme: &ScreenTheme) -> u16 {
        let inside = width.saturating_sub(FRAME_SIZE.0);
        let rows = self.head.layout(inside, theme).len()
            + self.body.height(inside, theme)
            + self.answers.layout(inside, theme, InputFocus::Focused).len();
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME_SIZE.1)
    }
}
