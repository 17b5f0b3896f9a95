//! Dialogs: questions that lie over everything else until they are answered or withdrawn. This file has what they
//! share: the frame, a body that scrolls, a row of answers. What each asks is left to its own file; whose turn it is,
//! to `questions`.

pub mod text_field;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear};
use unicode_width::UnicodeWidthStr;

use crate::tui::theme::{GlyphSet, ScreenTheme, Tone};
use crate::tui::view::overlay::Overlay;

use crate::tui::text::rich_text::{RichText, Scroll, draw_lines, sanitize_and_truncate};
use text_field::{InputFocus, KeyHandled};

/// A question on the screen. Dropping it answers no.
pub trait Dialog: Overlay {
    /// Does anybody still want to know?
    fn is_wanted(&self) -> bool;

    /// Must somebody answer before anything else goes on?
    fn urgency(&self) -> Urgency {
        Urgency::NeedsAnswer
    }

    /// How many rows it would like to have.
    fn preferred_height(&mut self, width: u16, theme: &ScreenTheme) -> u16;
}

/// Does a dialog ask, or only wait?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Something stands still until it is answered.
    NeedsAnswer,
    /// Somebody is doing something elsewhere; questions go first.
    Waiting,
}

const ASCII_BORDER: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};
/// Below this there is no room for a frame.
const MIN_FRAMED_SIZE: (u16, u16) = (30, 8);
/// From this height on there are empty rows between what belongs together and what does not.
const MIN_SPACED_HEIGHT: u16 = 8;
/// What a frame and empty rows take of both directions.
pub const FRAME_SIZE: (u16, u16) = (4, 4);

/// Clears an area and frames it where there is room. Comes back with what is inside.
pub fn draw_frame(frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme, title: &str) -> Rect {
    let area = area.intersection(frame.area());
    frame.render_widget(Clear, area);
    let accent = theme.style(Tone::Accent);
    if area.width < MIN_FRAMED_SIZE.0 || area.height < MIN_FRAMED_SIZE.1 {
        if area.height < 3 {
            return area;
        }
        let title = Span::styled(sanitize_and_truncate(title, usize::from(area.width)), accent);
        frame.buffer_mut().set_span(area.x, area.y, &title, area.width);
        return Rect { y: area.y + 1, height: area.height - 1, ..area };
    }
    let set = match theme.glyphs {
        GlyphSet::Unicode => border::ROUNDED,
        GlyphSet::Ascii => ASCII_BORDER,
    };
    // The corner on the right is for whose turn it is.
    let title = sanitize_and_truncate(title, usize::from(area.width).saturating_sub(20));
    let block = Block::bordered()
        .border_set(set)
        .border_style(theme.style(Tone::Muted))
        .title(Line::from(Span::styled(format!(" {title} "), accent)));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

/// Rows for what stays above, what scrolls and what stays below. Answers go first, then the beginning.
pub fn split_rows(area: Rect, above: usize, below: usize) -> [Rect; 3] {
    let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let below = rows(below).min(area.height.saturating_sub(2).max(1)).min(area.height);
    let left = area.height - below;
    let above = rows(above).min(left - left.min(3).min(left / 2));
    let is_airy = area.height >= MIN_SPACED_HEIGHT && left - above > 3;
    let (over, under) = (u16::from(is_airy && above > 0), u16::from(is_airy));
    let middle = left - above - over - under;
    let at = |y, height| Rect { y, height, ..area };
    [at(area.y, above), at(area.y + above + over, middle), at(area.y + area.height - below, below)]
}

/// Text that scrolls.
#[derive(Debug, Default)]
pub struct ScrollArea {
    text: RichText,
    /// What was laid out last, and for whom.
    layout: Option<(u16, ScreenTheme, Vec<Line<'static>>)>,
    scroll: Scroll,
}

impl ScrollArea {
    /// Text that scrolls.
    pub fn new(text: RichText) -> ScrollArea {
        ScrollArea { text, ..ScrollArea::default() }
    }

    /// The same place in another text.
    pub fn set_text(&mut self, content: RichText) {
        self.text = content;
        self.layout = None;
    }

    /// How many rows all of it has.
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

    /// Takes the keys that scroll.
    pub fn on_key(&mut self, key: KeyEvent) -> KeyHandled {
        let page = self.scroll.page_size();
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Up, _) => self.scroll.scroll_by(-1),
            (KeyCode::Down, _) => self.scroll.scroll_by(1),
            (KeyCode::PageUp, _) => self.scroll.scroll_by(-page),
            (KeyCode::PageDown, _) => self.scroll.scroll_by(page),
            (KeyCode::Home, _) => self.scroll.top = 0,
            (KeyCode::End, _) => self.scroll.scroll_to_end(),
            (_, _) => return KeyHandled::No,
        }
        KeyHandled::Yes
    }

    /// Where it is scrolled to.
    pub fn scroll(&mut self) -> &mut Scroll {
        &mut self.scroll
    }

    /// Draws what is seen of it, and how much more there is.
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

/// How much is not seen.
pub fn hidden_lines_label((above, below): (usize, usize), theme: &ScreenTheme) -> String {
    let (up, down) = match theme.glyphs {
        GlyphSet::Unicode => ("↑", "↓"),
        GlyphSet::Ascii => ("up", "down"),
    };
    match (above, below) {
        (0, 0) => String::new(),
        (0, below) => format!("{down} {below} more"),
        (above, 0) => format!("{up} {above} above, end"),
        (above, below) => format!("{up} {above} above  {down} {below} more"),
    }
}

/// Answers in a row, one of them chosen.
#[derive(Debug, Clone)]
pub struct ButtonRow {
    labels: Vec<String>,
    /// Which one.
    pub selected: usize,
}

impl ButtonRow {
    /// Answers in a row.
    pub fn new(labels: &[&str], selected: usize) -> ButtonRow {
        ButtonRow { labels: labels.iter().map(|it| (*it).to_owned()).collect(), selected }
    }

    /// Takes the keys that choose.
    pub fn on_key(&mut self, key: KeyEvent) -> KeyHandled {
        let last = self.labels.len().saturating_sub(1);
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Left | KeyCode::BackTab, _) => {
                self.selected = self.selected.saturating_sub(1)
            }
            (KeyCode::Right | KeyCode::Tab, _) => self.selected = (self.selected + 1).min(last),
            (KeyCode::Char(c), false) => {
                let number = c.to_digit(10).and_then(|it| usize::try_from(it).ok());
                match number.and_then(|it| it.checked_sub(1)).filter(|it| *it <= last) {
                    Some(at) => self.selected = at,
                    None => return KeyHandled::No,
                }
            }
            (_, _) => return KeyHandled::No,
        }
        KeyHandled::Yes
    }

    /// Lays them out. What is chosen is seen without colours too.
    pub fn layout(&self, width: u16, theme: &ScreenTheme, focus: InputFocus) -> Vec<Line<'static>> {
        let mark = match theme.glyphs {
            GlyphSet::Unicode => "▸",
            GlyphSet::Ascii => ">",
        };
        let mut lines: Vec<Line<'static>> = vec![Line::default()];
        for (index, label) in self.labels.iter().enumerate() {
            let is_chosen = index == self.selected && focus == InputFocus::Focused;
            let front = if is_chosen { mark } else { " " };
            let text = sanitize_and_truncate(
                &format!("{front}{} {label} ", index + 1),
                usize::from(width),
            );
            let tone = if is_chosen { Tone::Selected } else { Tone::Text };
            let last = lines.len() - 1;
            let used = lines[last].width();
            if used > 0 && used + 1 + text.width() > usize::from(width) {
                lines.push(Line::default());
            } else if used > 0 {
                lines[last].push_span(" ");
            }
            let last = lines.len() - 1;
            lines[last].push_span(Span::styled(text, theme.style(tone)));
        }
        lines
    }
}

/// Is it the key that gives up?
pub fn is_cancel_key(key: KeyEvent) -> bool {
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.code == KeyCode::Esc || is_interrupt
}
