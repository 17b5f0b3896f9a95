//! The spinner that marks work in progress.

use std::time::Duration;

use crate::theme::{GlyphSet, ScreenTheme};

/// The spinner's glyph after a time.
pub fn spinner(theme: &ScreenTheme, spent: Duration) -> &'static str {
    const DRAWN: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    const ASCII: [&str; 4] = ["|", "/", "-", "\\"];
    let step = usize::try_from(spent.as_millis() / 250).unwrap_or(0);
    match theme.glyphs {
        GlyphSet::Unicode => DRAWN[step % DRAWN.len()],
        GlyphSet::Ascii => ASCII[step % ASCII.len()],
    }
}
