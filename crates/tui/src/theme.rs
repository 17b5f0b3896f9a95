//! How things look: colours by meaning, for dark and light terminals and for none; and which signs may be drawn.

use ratatui::style::{Color, Modifier, Style};

/// The look of everything on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenTheme {
    /// What colours there are.
    pub palette: Palette,
    /// What signs there are.
    pub glyphs: GlyphSet,
}

/// Which colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// For dark backgrounds.
    Dark,
    /// For light backgrounds.
    Light,
    /// None; weight and underlines only.
    Plain,
}

/// Which signs are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlyphSet {
    /// Boxes, bullets, spinners.
    Unicode,
    /// Letters only.
    Ascii,
}

/// What something means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    Text,
    /// Of less weight.
    Muted,
    /// Of more weight.
    Strong,
    /// Ours: titles, the prompt, what is chosen.
    Accent,
    /// It went well.
    Success,
    /// Somebody should look at it.
    Warning,
    /// It went badly.
    Error,
    /// The line that the keys act on.
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
