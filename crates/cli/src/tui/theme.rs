//! How things look: colours by meaning, for dark and light terminals and for none; and which signs may be drawn.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use switchboard::config::settings::Theme;

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
    /// What fits a terminal, by its variables; `theme` is what the person prefers.
    pub fn detect(variables: &BTreeMap<String, String>, theme: Option<Theme>) -> ScreenTheme {
        let value =
            |name: &str| variables.get(name).map(String::as_str).filter(|it| !it.is_empty());
        let is_dumb = value("TERM").is_none_or(|it| it == "dumb");
        let palette = match (value("NO_COLOR").is_some() || is_dumb, theme) {
            (true, _) => Palette::Plain,
            (false, Some(Theme::Light)) => Palette::Light,
            (false, Some(Theme::Dark)) => Palette::Dark,
            (false, None) => match value("COLORFGBG").and_then(|it| it.rsplit(';').next()) {
                // White, and the two greys that are called so.
                Some("7" | "15") => Palette::Light,
                Some(_) | None => Palette::Dark,
            },
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value);
        let is_wide = locale.is_some_and(|it| {
            let it = it.to_ascii_lowercase();
            it.contains("utf-8") || it.contains("utf8")
        });
        let glyphs = if is_wide && !is_dumb { GlyphSet::Unicode } else { GlyphSet::Ascii };
        ScreenTheme { palette, glyphs }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)], theme: Option<Theme>, palette: Palette, signs: GlyphSet) {
        let variables =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(
            ScreenTheme::detect(&variables, theme),
            ScreenTheme { palette, glyphs: signs },
            "{pairs:?}"
        );
    }

    #[test]
    fn variables_and_the_person_decide_how_it_looks() {
        let term = ("TERM", "xterm-256color");
        let utf = ("LANG", "en_US.UTF-8");
        check(&[term, utf], None, Palette::Dark, GlyphSet::Unicode);
        check(&[term, utf, ("COLORFGBG", "0;15")], None, Palette::Light, GlyphSet::Unicode);
        check(
            &[term, utf, ("COLORFGBG", "0;15")],
            Some(Theme::Dark),
            Palette::Dark,
            GlyphSet::Unicode,
        );
        check(&[term, utf], Some(Theme::Light), Palette::Light, GlyphSet::Unicode);
        check(
            &[term, utf, ("NO_COLOR", "1")],
            Some(Theme::Light),
            Palette::Plain,
            GlyphSet::Unicode,
        );
        check(&[term, ("LANG", "C")], None, Palette::Dark, GlyphSet::Ascii);
        check(&[term, utf, ("LC_ALL", "POSIX")], None, Palette::Dark, GlyphSet::Ascii);
        check(&[("TERM", "dumb"), utf], None, Palette::Plain, GlyphSet::Ascii);
    }
}
