//! Chooses colours and glyphs for the screen from the environment.

use std::collections::BTreeMap;

use switchboard::config::settings::Theme;
use switchboard_tui::theme::{GlyphSet, Palette, ScreenTheme};

/// The theme that fits a terminal, from its environment variables; `theme` is the user's preference.
pub(crate) fn detect(variables: &BTreeMap<String, String>, theme: Option<Theme>) -> ScreenTheme {
    let value = |name: &str| variables.get(name).map(String::as_str).filter(|it| !it.is_empty());
    let is_dumb = value("TERM").is_none_or(|it| it == "dumb");
    let palette = match (value("NO_COLOR").is_some() || is_dumb, theme) {
        (true, _) => Palette::Plain,
        (false, Some(Theme::Light)) => Palette::Light,
        (false, Some(Theme::Dark)) => Palette::Dark,
        (false, None) => match value("COLORFGBG").and_then(|it| it.rsplit(';').next()) {
            // White and light grey.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)], theme: Option<Theme>, palette: Palette, signs: GlyphSet) {
        let variables =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(detect(&variables, theme), ScreenTheme { palette, glyphs: signs }, "{pairs:?}");
    }

    #[test]
    fn variables_and_the_users_preference_decide_the_theme() {
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
