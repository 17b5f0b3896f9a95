//! Colours, few and by meaning. `report` strips them where they do not belong.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// What a piece of output means.
#[derive(Debug, Clone, Copy)]
pub enum Meaning {
    /// All is well.
    Good,
    /// Somebody should look.
    Doubtful,
    /// Something is wrong.
    Bad,
    /// Not important now.
    Faint,
    /// What the eye should find first.
    Strong,
}

/// The text in the colour of its meaning.
pub fn paint(meaning: Meaning, text: impl Display) -> String {
    let style = match meaning {
        Meaning::Good => AnsiColor::Green.on_default(),
        Meaning::Doubtful => AnsiColor::Yellow.on_default(),
        Meaning::Bad => AnsiColor::Red.on_default(),
        Meaning::Faint => Style::new().dimmed(),
        Meaning::Strong => Style::new().bold(),
    };
    format!("{style}{text}{style:#}")
}
