//! The theme of the screen: a style for each tone, for dark, light and colourless terminals, and the set of glyphs.

use ratatui::style::{Color, Modifier, Style};

/// The theme of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenTheme {
    /// Its colours.
    pub palette: Palette,
    /// Its glyphs.
    pub glyphs: GlyphSet,
}

/// A set of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// For dark backgrounds.
    Dark,
    /// For light backgrounds.
    Light,
    /// No colours; bold, dim and underlined only.
    Plain,
}

/// A set of glyphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlyphSet {
    /// Box drawing, bullets and other Unicode characters.
    Unicode,
    /// ASCII only.
    Ascii,
}

/// The meaning of a text, which decides its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    Text,
    /// Less important.
    Muted,
    /// Emphasised.
    Strong,
    /// Titles, the prompt, the selection.
    Accent,
    /// A success.
    Success,
    /// A warning.
    Warning,
    /// An error.
    Error,
    /// The line or button that the keys act on.
    Selected,
    /// Code.
    Code,
    /// A link.
    Link,
}

impl ScreenTheme {
    /// The style of a tone.
    pub fn style(&self, tone: Tone) -> Style {
        let plain = Style::default();
        let coloured = |dark, light| match self.palette {
            Palette::Dark => plain.fg(dark),
            Palette::Light => plain.fg(light),
            Palette::Plain => plain,
        };
        match tone {
            Tone::Text => plain,
            Tone::Muted => match self.palette {
                Palette::Dark => plain.fg(Color::DarkGray),
                Palette::Light => plain.fg(Color::Gray),
                Palette::Plain => plain.add_modifier(Modifier::DIM),
            },
            Tone::Strong => plain.add_modifier(Modifier::BOLD),
            Tone::Accent => coloured(Color::Cyan, Color::Blue).add_modifier(Modifier::BOLD),
            Tone::Success => coloured(Color::Green, Color::Green),
            Tone::Warning => coloured(Color::Yellow, Color::Magenta),
            Tone::Error => coloured(Color::Red, Color::Red).add_modifier(Modifier::BOLD),
            Tone::Selected => plain.add_modifier(Modifier::REVERSED),
            Tone::Code => coloured(Color::Yellow, Color::Blue),
            Tone::Link => coloured(Color::Blue, Color::Blue).add_modifier(Modifier::UNDERLINED),
        }
    }
}
