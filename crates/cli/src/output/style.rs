//! Colours, few and by meaning. `report` strips them where they do not belong.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// What a piece of output means.
#[derive(Debug, Clone, Copy)]
pub enum TextStyle {
    /// All is well.
    Success,
    /// Somebody should look.
    Warning,
    /// Something is wrong.
    Error,
    /// Not important now.
    Dim,
    /// What the eye should find first.
    Bold,
}

/// The text in the colour of its meaning.
pub fn paint(meaning: TextStyle, text: impl Display) -> String {
    let style = match meaning {
        TextStyle::Success => AnsiColor::Green.on_default(),
        TextStyle::Warning => AnsiColor::Yellow.on_default(),
        TextStyle::Error => AnsiColor::Red.on_default(),
        TextStyle::Dim => Style::new().dimmed(),
        TextStyle::Bold => Style::new().bold(),
    };
    format!("{style}{text}{style:#}")
}
