//! The frame around an overlay, the rows inside it, the label of hidden lines and the key that cancels.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear};

use crate::text::rich_text::sanitize_and_truncate;
use crate::theme::{GlyphSet, ScreenTheme, Tone};

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
/// Smaller areas get no frame.
const MIN_FRAMED_SIZE: (u16, u16) = (30, 8);
/// From this height on there are empty rows between the parts.
const MIN_SPACED_HEIGHT: u16 = 8;
/// The columns and rows that a frame and its empty rows take.
pub const FRAME_SIZE: (u16, u16) = (4, 4);

/// Clears an area and draws a frame where there is room. Returns the area inside.
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
    // The right corner is for the number of waiting dialogs.
    let title = sanitize_and_truncate(title, usize::from(area.width).saturating_sub(20));
    let block = Block::bordered()
        .border_set(set)
        .border_style(theme.style(Tone::Muted))
        .title(Line::from(Span::styled(format!(" {title} "), accent)));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

/// Splits an area into the fixed rows above, the scrolling part and the fixed rows below. Where there is no room, the rows
/// below come first.
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

/// The label for the lines hidden above and below.
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

/// Is it Esc or Ctrl-C?
pub fn is_cancel_key(key: KeyEvent) -> bool {
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.code == KeyCode::Esc || is_interrupt
}
