//! A text that scrolls, with a label for its hidden lines.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::text::rich_text::{RichText, draw_lines};
use crate::theme::{ScreenTheme, Tone};
use crate::view::widget::frame::hidden_lines_label;
use crate::view::widget::input::KeyOutcome;
use crate::view::widget::scroll::Scroll;

/// A text that scrolls.
#[derive(Debug, Default)]
pub struct ScrollArea {
    text: RichText,
    /// The last layout, with its width and theme.
    layout: Option<(u16, ScreenTheme, Vec<Line<'static>>)>,
    scroll: Scroll,
}

impl ScrollArea {
    /// A text that scrolls.
    pub fn new(text: RichText) -> ScrollArea {
        ScrollArea { text, ..ScrollArea::default() }
    }

    /// Replaces the text and keeps the scroll position.
    pub fn set_text(&mut self, content: RichText) {
        self.text = content;
        self.layout = None;
    }

    /// The number of rows of the whole text.
    pub fn height(&mut self, width: u16, theme: &ScreenTheme) -> usize {
        self.lines(width, theme).len()
    }

    fn lines(&mut self, width: u16, theme: &ScreenTheme) -> &[Line<'static>] {
        let is_fresh = self.layout.as_ref().is_some_and(|it| it.0 == width && it.1 == *theme);
        if !is_fresh {
            self.layout = Some((width, *theme, self.text.layout(width, theme)));
        }
        self.layout.as_ref().map_or(&[], |it| &it.2)
    }

    /// Handles the keys that scroll.
    pub fn on_key(&mut self, key: KeyEvent) -> KeyOutcome {
        let page = self.scroll.page_size();
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Up, _) => self.scroll.scroll_by(-1),
            (KeyCode::Down, _) => self.scroll.scroll_by(1),
            (KeyCode::PageUp, _) => self.scroll.scroll_by(-page),
            (KeyCode::PageDown, _) => self.scroll.scroll_by(page),
            (KeyCode::Home, _) => self.scroll.top = 0,
            (KeyCode::End, _) => self.scroll.scroll_to_end(),
            (_, _) => return KeyOutcome::NotHandled,
        }
        KeyOutcome::Handled
    }

    /// The scroll position.
    pub fn scroll(&mut self) -> &mut Scroll {
        &mut self.scroll
    }

    /// Draws the visible part, and a label for the hidden lines.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        if area.height == 0 {
            return;
        }
        let total = self.lines(area.width, theme).len();
        let is_more = total > usize::from(area.height) && area.height > 1;
        let height = if is_more { area.height - 1 } else { area.height };
        let seen = self.scroll.visible(total, height);
        let room = Rect { height, ..area };
        draw_lines(frame.buffer_mut(), room, &self.lines(area.width, theme)[seen]);
        if is_more {
            let more = Span::styled(
                hidden_lines_label(self.scroll.hidden_counts(), theme),
                theme.style(Tone::Warning),
            );
            frame.buffer_mut().set_span(area.x, area.y + height, &more, area.width);
        }
    }
}
