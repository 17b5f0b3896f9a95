//! Draws overlays without a terminal and presses keys, for tests.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use unicode_width::UnicodeWidthStr;

use crate::theme::{GlyphSet, Palette, ScreenTheme};
use crate::view::overlay::{Overlay, OverlayOutcome};

/// The theme of tests.
pub const TEST_THEME: ScreenTheme =
    ScreenTheme { palette: Palette::Dark, glyphs: GlyphSet::Unicode };

/// Sizes at which drawing must not panic.
pub const SMALL_SIZES: [(u16, u16); 9] =
    [(20, 5), (1, 1), (80, 1), (1, 40), (30, 9), (29, 8), (40, 3), (12, 2), (200, 60)];

/// Hostile texts: control sequences, bidirectional overrides, wide and combining characters.
pub const HOSTILE_TEXTS: [&str; 5] = [
    "\x1b[2J\x1b]0;owned\x07",
    "a\u{202e}dessert\u{202c}",
    "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    "one\r\ntwo\nthree\tfour",
];

/// Draws on a screen of this size and returns its text.
pub fn render(size: (u16, u16), mut draw: impl FnMut(&mut Frame<'_>)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a screen");
    terminal.draw(|frame| draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..size.1 {
        let mut line = String::new();
        let mut covered = 0;
        for x in 0..size.0 {
            let symbol = buffer[(x, y)].symbol();
            assert!(!symbol.contains(char::is_control), "{symbol:?}");
            if covered == 0 {
                line.push_str(symbol);
                covered = symbol.width().max(1);
            }
            covered -= 1;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Draws an overlay on the whole of a screen of this size and returns its text.
pub fn render_overlay(overlay: &mut dyn Overlay, size: (u16, u16)) -> String {
    render(size, |frame| {
        let area = frame.area();
        overlay.draw(frame, area, &TEST_THEME);
    })
}

/// A key press without modifiers.
pub fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Presses keys and returns the outcome of the last one.
pub fn press(overlay: &mut dyn Overlay, codes: &[KeyCode]) -> OverlayOutcome {
    let mut outcome = OverlayOutcome::Stay;
    for code in codes {
        outcome = overlay.on_key(key(*code));
    }
    outcome
}

/// Types a text.
pub fn type_text(overlay: &mut dyn Overlay, text: &str) {
    for c in text.chars() {
        overlay.on_key(key(KeyCode::Char(c)));
    }
}

/// Draws an overlay at every small size.
pub fn render_at_small_sizes(overlay: &mut dyn Overlay) {
    for size in SMALL_SIZES {
        let text = render_overlay(overlay, size);
        assert!(!text.contains('\x1b'));
    }
}
