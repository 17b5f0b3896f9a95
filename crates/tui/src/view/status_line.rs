//! The status line: model, servers, tokens, permission mode and folder.

use ratatui::text::{Line, Span};
use switchboard::Snapshot;
use switchboard::config::display::printable;
use switchboard::config::permission::PermissionMode;
use switchboard::connection::{ServerView, Status};
use unicode_width::UnicodeWidthStr;

use crate::text::wrap::truncate;
use crate::theme::{GlyphSet, ScreenTheme, Tone};

/// How many failing servers are named.
const MAX_NAMED: usize = 2;

/// The content of the status line.
#[derive(Debug, Clone)]
pub struct StatusLine<'s> {
    /// The model's name.
    pub model: Option<&'s str>,
    /// The size of the context, and the model's context window, in tokens.
    pub context_tokens: (u64, Option<u64>),
    /// All input and output tokens used.
    pub total_tokens: (u64, u64),
    /// The servers.
    pub snapshot: &'s Snapshot,
    /// The permission mode.
    pub mode: PermissionMode,
    /// What is selected in the IDE.
    pub ide_selection: Option<&'s str>,
    /// The working folder, as it is displayed.
    pub folder: &'s str,
}

impl StatusLine<'_> {
    /// The line for a width. The least important parts are left out where there is no room.
    pub fn line(&self, width: usize, theme: &ScreenTheme) -> Line<'static> {
        let dot = match theme.glyphs {
            GlyphSet::Unicode => " · ",
            GlyphSet::Ascii => " | ",
        };
        // The parts in their order, each with its weight: the lightest is left out first.
        let mut pieces: Vec<(u8, Span<'static>)> = vec![
            (4, self.model_piece(theme)),
            (5, self.servers_piece(theme)),
            (2, self.tokens_piece(theme)),
            (3, self.mode_piece(theme)),
            (3, self.selection_piece(theme)),
            (1, Span::styled(truncate(self.folder, 30), theme.style(Tone::Muted))),
        ];
        pieces.retain(|(_, span)| !span.content.is_empty());
        let width_of = |pieces: &[(u8, Span<'static>)]| {
            let text: usize = pieces.iter().map(|(_, it)| it.content.width()).sum();
            text + dot.width() * pieces.len().saturating_sub(1)
        };
        while width_of(&pieces) > width && pieces.len() > 1 {
            let lightest = (0..pieces.len()).min_by_key(|at| pieces[*at].0).unwrap_or(0);
            pieces.remove(lightest);
        }
        let mut spans = Vec::new();
        for (_, piece) in pieces {
            if !spans.is_empty() {
                spans.push(Span::styled(dot, theme.style(Tone::Muted)));
            }
            spans.push(piece);
        }
        Line::from(spans)
    }

    fn model_piece(&self, theme: &ScreenTheme) -> Span<'static> {
        match self.model {
            Some(model) => Span::styled(truncate(&printable(model), 40), theme.style(Tone::Accent)),
            None => Span::styled("no model", theme.style(Tone::Warning)),
        }
    }

    fn servers_piece(&self, theme: &ScreenTheme) -> Span<'static> {
        let servers: Vec<&ServerView> = self
            .snapshot
            .servers
            .values()
            .map(|it| &**it)
            .filter(|it| !it.is_connected_ide())
            .collect();
        let is_ready = |status: &Status| *status == Status::Connected;
        let ready = servers.iter().filter(|it| is_ready(&it.status)).count();
        let bad: Vec<String> = servers
            .iter()
            .filter(|it| it.status.is_settled() && !is_ready(&it.status))
            .map(|it| printable(&it.name))
            .collect();
        let mut text = match servers.len() {
            0 => "no servers".to_owned(),
            1 => format!("{ready}/1 server"),
            all => format!("{ready}/{all} servers"),
        };
        if !bad.is_empty() {
            let named: Vec<&str> = bad.iter().take(MAX_NAMED).map(String::as_str).collect();
            let more = bad.len() - named.len();
            let more = if more > 0 { format!(" +{more}") } else { String::new() };
            text.push_str(&format!(" (not: {}{more})", truncate(&named.join(", "), 30)));
        }
        let tone = match (bad.is_empty(), ready == servers.len()) {
            (false, _) => Tone::Error,
            (true, true) => Tone::Success,
            (true, false) => Tone::Warning,
        };
        Span::styled(text, theme.style(tone))
    }

    fn tokens_piece(&self, theme: &ScreenTheme) -> Span<'static> {
        let (input, output) = self.total_tokens;
        if input + output == 0 {
            return Span::raw("");
        }
        let (context, window) = self.context_tokens;
        let share = match window {
            Some(window) if window > 0 => {
                format!(", {} % of context", context.saturating_mul(100) / window)
            }
            Some(_) | None => String::new(),
        };
        let text = format!("{} tokens{share}", thousands(input + output));
        let is_full = window.is_some_and(|it| context.saturating_mul(10) > it.saturating_mul(8));
        Span::styled(text, theme.style(if is_full { Tone::Warning } else { Tone::Muted }))
    }

    fn selection_piece(&self, theme: &ScreenTheme) -> Span<'static> {
        let Some(selection) = self.ide_selection else { return Span::raw("") };
        let sign = match theme.glyphs {
            GlyphSet::Unicode => "⧉ ",
            GlyphSet::Ascii => "IDE: ",
        };
        let text = format!("{sign}{}", truncate(selection, 40));
        Span::styled(text, theme.style(Tone::Accent))
    }

    fn mode_piece(&self, theme: &ScreenTheme) -> Span<'static> {
        let tone = match self.mode {
            PermissionMode::Default => Tone::Muted,
            PermissionMode::Plan => Tone::Success,
            PermissionMode::DontAsk | PermissionMode::AcceptEdits => Tone::Warning,
            PermissionMode::Bypass => Tone::Error,
        };
        Span::styled(self.mode.id(), theme.style(tone))
    }
}

/// A number shortened to thousands or millions.
fn thousands(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        1_000_000.. => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Palette;

    #[track_caller]
    fn check(width: usize, expected: &str) {
        let theme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };
        let line = StatusLine {
            model: Some("some-model"),
            context_tokens: (50_000, Some(200_000)),
            total_tokens: (60_000, 1_234),
            snapshot: &Snapshot::default(),
            mode: PermissionMode::AcceptEdits,
            ide_selection: None,
            folder: "~/project",
        };
        assert_eq!(line.line(width, &theme).to_string(), expected);
    }

    #[test]
    fn a_selection_in_the_ide_is_shown() {
        let theme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };
        let line = StatusLine {
            model: Some("m"),
            context_tokens: (0, None),
            total_tokens: (0, 0),
            snapshot: &Snapshot::default(),
            mode: PermissionMode::Default,
            ide_selection: Some("3 lines from b.py"),
            folder: "~/project",
        };
        let expected = "m · no servers · default · ⧉ 3 lines from b.py · ~/project";
        assert_eq!(line.line(80, &theme).to_string(), expected);
    }

    #[test]
    fn the_least_important_parts_are_left_out_first() {
        check(
            100,
            "some-model · no servers · 61.2k tokens, 25 % of context · acceptEdits · ~/project",
        );
        check(60, "some-model · no servers · acceptEdits");
        check(20, "no servers");
    }
}
