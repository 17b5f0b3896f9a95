//! A stage for tests: draws overlays without a terminal and plays keys to them.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use unicode_width::UnicodeWidthStr;

use crate::screen::look::{Look, Palette, Signs};
use crate::screen::overlay::{Overlay, Reaction};

/// The look that tests have.
pub const LOOK: Look = Look { palette: Palette::Dark, signs: Signs::Drawn };

/// Sizes at which nothing may go wrong.
pub const TINY: [(u16, u16); 9] =
    [(20, 5), (1, 1), (80, 1), (1, 40), (30, 9), (29, 8), (40, 3), (12, 2), (200, 60)];

/// Texts that mean no good.
pub const HOSTILE: [&str; 5] = [
    "\x1b[2J\x1b]0;owned\x07",
    "a\u{202e}dessert\u{202c}",
    "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    "one\r\ntwo\nthree\tfour",
];

/// What a screen of this size shows.
pub fn seen(size: (u16, u16), mut draw: impl FnMut(&mut Frame<'_>)) -> String {
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

/// What an overlay shows on a screen of this size that is all its own.
pub fn drawn(overlay: &mut dyn Overlay, size: (u16, u16)) -> String {
    seen(size, |frame| {
        let area = frame.area();
        overlay.draw(frame, area, &LOOK);
    })
}

/// A key.
pub fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Plays keys; comes back with what the last one did.
pub fn play(overlay: &mut dyn Overlay, codes: &[KeyCode]) -> Reaction {
    let mut reaction = Reaction::Stay;
    for code in codes {
        reaction = overlay.key(key(*code));
    }
    reaction
}

/// Types a text.
pub fn write(overlay: &mut dyn Overlay, text: &str) {
    for c in text.chars() {
        overlay.key(key(KeyCode::Char(c)));
    }
}

/// Draws it at sizes at which it has no room.
pub fn squeeze(overlay: &mut dyn Overlay) {
    for size in TINY {
        let text = drawn(overlay, size);
        assert!(!text.contains('\x1b'));
    }
}
