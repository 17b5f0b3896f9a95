//! Text styles by meaning. `report` removes them where colours are off.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// The meaning of a piece of text.
#[derive(Debug, Clone, Copy)]
pub enum TextStyle {
    /// Success.
    Success,
    /// Needs attention.
    Warning,
    /// An error.
    Error,
    /// Less important.
    Dim,
    /// Stands out.
    Bold,
}

/// The text with the style's escape sequences.
pub fn paint(style: TextStyle, text: impl Display) -> String {
    let style = match style {
        TextStyle::Success => AnsiColor::Green.on_default(),
        TextStyle::Warning => AnsiColor::Yellow.on_default(),
        TextStyle::Error => AnsiColor::Red.on_default(),
        TextStyle::Dim => Style::new().dimmed(),
        TextStyle::Bold => Style::new().bold(),
    };
    format!("{style}{text}{style:#}")
}
