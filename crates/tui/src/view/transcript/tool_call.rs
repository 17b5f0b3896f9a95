//! A tool call in the transcript: title, arguments, progress, and the first lines of its result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::text::{Line, Span};
use serde_json::Value as Json;
use switchboard::config::display;
use switchboard_chat::conversation::event::{CallOutcome, ToolCallView};

use crate::text::duration::format_duration;
use crate::text::wrap::{Margin, truncate, wrap_text};
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::spinner::spinner;
use crate::view::transcript::detail::Detail;
use switchboard::config::display::{sanitize, sanitize_line};

/// How many lines of a result are shown while folded.
const PREVIEW_LINES: usize = 3;
/// The width of the progress bar.
const BAR_WIDTH: usize = 20;
/// The most lines of a result that are kept.
const MAX_LINES: usize = 5000;

/// A tool call.
#[derive(Debug)]
pub struct ToolCallCard {
    /// Its id in the conversation.
    pub id: Arc<str>,
    title: String,
    arguments: Json,
    started: Instant,
    progress: Option<CallProgress>,
    end: Option<CallCompletion>,
}

#[derive(Debug)]
struct CallProgress {
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Debug)]
struct CallCompletion {
    outcome: CallOutcome,
    text: String,
    duration: Duration,
}

impl ToolCallCard {
    /// A running call.
    pub fn new(call: ToolCallView, now: Instant) -> ToolCallCard {
        ToolCallCard {
            id: call.id,
            title: sanitize_line(&call.title),
            arguments: call.arguments,
            started: now,
            progress: None,
            end: None,
        }
    }

    /// Sets its progress.
    pub fn set_progress(&mut self, progress: f64, total: Option<f64>, message: Option<String>) {
        let message = message.map(|it| sanitize_line(&it));
        self.progress = Some(CallProgress { progress, total, message });
    }

    /// Sets its result.
    pub fn finish(&mut self, outcome: CallOutcome, text: &str, duration: Duration) {
        let mut text: String = sanitize(text.trim_end());
        if let Some((at, _)) = text.match_indices('\n').nth(MAX_LINES) {
            text.truncate(at);
            text.push_str("\n…");
        }
        self.end = Some(CallCompletion { outcome, text, duration });
    }

    /// Is it still running?
    pub fn is_running(&self) -> bool {
        self.end.is_none()
    }

    /// Its lines for a width.
    pub fn lines(
        &self,
        width: usize,
        detail: Detail,
        theme: &ScreenTheme,
        now: Instant,
    ) -> Vec<Line<'static>> {
        let mut lines = vec![self.title_line(width, theme, now)];
        lines.extend(self.argument_lines(width, detail, theme));
        match &self.end {
            None => lines.extend(self.progress_line(width, theme)),
            Some(completion) => lines.extend(result_lines(completion, width, detail, theme)),
        }
        lines
    }

    fn title_line(&self, width: usize, theme: &ScreenTheme, now: Instant) -> Line<'static> {
        let (sign, tone, after) = match &self.end {
            None => {
                let elapsed = now.saturating_duration_since(self.started);
                (spinner(theme, elapsed), Tone::Accent, format_duration(elapsed))
            }
            Some(completion) => {
                let (sign, tone, word) = outcome_label(completion.outcome, theme.glyphs);
                let duration = format_duration(completion.duration);
                (sign, tone, if word.is_empty() { duration } else { format!("{word}, {duration}") })
            }
        };
        let room = width.saturating_sub(after.len() + 5);
        Line::from(vec![
            Span::styled(format!("{sign} "), theme.style(tone)),
            Span::styled(truncate(&self.title, room), theme.style(Tone::Strong)),
            Span::styled(format!("  {after}"), theme.style(Tone::Muted)),
        ])
    }

    fn argument_lines(
        &self,
        width: usize,
        detail: Detail,
        theme: &ScreenTheme,
    ) -> Vec<Line<'static>> {
        let is_nothing = self.arguments.as_object().is_none_or(serde_json::Map::is_empty);
        if is_nothing {
            return Vec::new();
        }
        let shown = display::masked_json(&self.arguments);
        let style = theme.style(Tone::Muted);
        match detail {
            Detail::Folded => {
                let text = truncate(&arguments_on_one_line(&shown), width.saturating_sub(2));
                vec![Line::from(Span::styled(format!("  {text}"), style))]
            }
            Detail::Expanded => {
                let text = sanitize(&format!("{shown:#}"));
                wrap_text(&text, style, width, &Margin::all(Span::raw("  ")))
            }
        }
    }

    fn progress_line(&self, width: usize, theme: &ScreenTheme) -> Option<Line<'static>> {
        let CallProgress { progress, total, message } = self.progress.as_ref()?;
        let mut text = match total {
            Some(total) if *total > 0.0 && progress.is_finite() => {
                let part = (progress / total).clamp(0.0, 1.0);
                format!("{} {:>3.0} %", progress_bar(part, theme.glyphs), part * 100.0)
            }
            Some(_) | None => format!("{progress}"),
        };
        if let Some(message) = message {
            text.push_str("  ");
            text.push_str(message);
        }
        let text = truncate(&text, width.saturating_sub(2));
        Some(Line::from(Span::styled(format!("  {text}"), theme.style(Tone::Accent))))
    }
}

fn progress_bar(part: f64, glyphs: GlyphSet) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a part between nothing and one of twenty"
    )]
    let full = (part * BAR_WIDTH as f64) as usize;
    let (on, off) = match glyphs {
        GlyphSet::Unicode => ("━", "─"),
        GlyphSet::Ascii => ("#", "."),
    };
    format!("{}{}", on.repeat(full), off.repeat(BAR_WIDTH - full))
}

fn outcome_label(outcome: CallOutcome, glyphs: GlyphSet) -> (&'static str, Tone, &'static str) {
    let (drawn, ascii, tone, word) = match outcome {
        CallOutcome::Done => ("●", "*", Tone::Success, ""),
        CallOutcome::ToolError => ("✗", "x", Tone::Error, "the tool failed"),
        CallOutcome::Failed => ("✗", "x", Tone::Error, "not made"),
        CallOutcome::Denied => ("⊘", "-", Tone::Warning, "not allowed"),
        CallOutcome::Interrupted => ("■", "-", Tone::Warning, "stopped"),
    };
    match glyphs {
        GlyphSet::Unicode => (drawn, tone, word),
        GlyphSet::Ascii => (ascii, tone, word),
    }
}

fn result_lines(
    completion: &CallCompletion,
    width: usize,
    detail: Detail,
    theme: &ScreenTheme,
) -> Vec<Line<'static>> {
    let tone = match completion.outcome {
        CallOutcome::Done => Tone::Text,
        CallOutcome::ToolError | CallOutcome::Failed => Tone::Error,
        CallOutcome::Denied | CallOutcome::Interrupted => Tone::Warning,
    };
    if completion.text.is_empty() {
        return Vec::new();
    }
    let mark = match theme.glyphs {
        GlyphSet::Unicode => "  │ ",
        GlyphSet::Ascii => "  | ",
    };
    let margin = Margin::all(Span::styled(mark, theme.style(Tone::Muted)));
    let style = theme.style(tone);
    match detail {
        Detail::Expanded => wrap_text(&completion.text, style, width, &margin),
        Detail::Folded => {
            let all = completion.text.lines().count();
            let first: Vec<&str> = completion.text.lines().take(PREVIEW_LINES).collect();
            let mut lines = wrap_text(&first.join("\n"), style, width, &margin);
            let cut = lines.len().saturating_sub(PREVIEW_LINES);
            lines.truncate(PREVIEW_LINES);
            let more = all - first.len();
            if more > 0 || cut > 0 {
                let more = match more {
                    0 => "more".to_owned(),
                    1 => "1 more line".to_owned(),
                    more => format!("{more} more lines"),
                };
                let text = format!("{mark}… {more} (Ctrl-O)");
                lines.push(Line::from(Span::styled(text, theme.style(Tone::Muted))));
            }
            lines
        }
    }
}

/// Arguments as `key=value` pairs on one line.
fn arguments_on_one_line(arguments: &Json) -> String {
    let Some(members) = arguments.as_object() else { return sanitize_line(&arguments.to_string()) };
    let pair = |(key, value): (&String, &Json)| match value {
        Json::String(text) => format!("{key}={}", sanitize_line(text)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            format!("{key}={}", sanitize_line(&value.to_string()))
        }
    };
    sanitize_line(&members.iter().map(pair).collect::<Vec<_>>().join("  "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::theme::Palette;

    const THEME: ScreenTheme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };

    fn card(arguments: Json) -> (ToolCallCard, Instant) {
        let now = Instant::now();
        let call = ToolCallView {
            id: "1".into(),
            tool: "mcp__files__read".into(),
            title: "files: read".to_owned(),
            arguments,
        };
        (ToolCallCard::new(call, now), now)
    }

    fn text(lines: &[Line<'_>]) -> String {
        lines.iter().map(|it| format!("{it}\n")).collect()
    }

    #[test]
    fn a_running_call_shows_time_and_progress() {
        let (mut card, began) = card(json!({"path": "a b", "lines": 3}));
        card.set_progress(1.0, Some(4.0), Some("reading".to_owned()));
        let later = began + Duration::from_millis(2500);
        insta::assert_snapshot!(text(&card.lines(60, Detail::Folded, &THEME, later)), @r"
        ⠋ files: read  2.5 s
          path=a b  lines=3
          ━━━━━───────────────  25 %  reading
        ");
    }

    #[test]
    fn a_long_result_is_folded_and_unfolds() {
        let (mut card, began) = card(json!({}));
        card.finish(CallOutcome::Done, "1\n2\n3\n4\n5\n", Duration::from_millis(7));
        insta::assert_snapshot!(text(&card.lines(40, Detail::Folded, &THEME, began)), @r"
        ● files: read  7 ms
          │ 1
          │ 2
          │ 3
          │ … 2 more lines (Ctrl-O)
        ");
        assert_eq!(card.lines(40, Detail::Expanded, &THEME, began).len(), 6);
    }

    #[test]
    fn secrets_in_arguments_are_covered_and_escapes_do_nothing() {
        let (mut card, began) = card(json!({"apiKey": "canary", "text": "a\u{1b}[2Jb"}));
        card.finish(CallOutcome::Denied, "no\u{1b}[31m", Duration::from_secs(75));
        insta::assert_snapshot!(text(&card.lines(60, Detail::Folded, &THEME, began)), @r"
        ⊘ files: read  not allowed, 1 min 15 s
          apiKey=•••  text=ab
          │ no
        ");
    }
}
