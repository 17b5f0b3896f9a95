//! Draws the whole screen: transcript, activity, composer with its completion menu, status line, overlays and dialogs.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Clear;
use unicode_width::UnicodeWidthStr;

use crate::state::screen_state::ScreenState;
use crate::text::duration::format_duration;
use crate::text::wrap::{Margin, truncate, wrap};
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::composer::completion;
use crate::view::composer::completion::CompletionMenu;
use crate::view::spinner::spinner;
use crate::view::status_line::StatusLine;
use switchboard::config::display::sanitize_line;

/// The composer takes at most one part in so many of the height.
const COMPOSER_FRACTION: u16 = 3;
/// The prompt in front of the draft.
const PROMPT: &str = "> ";
/// How many queued messages are shown.
const MAX_QUEUED_SHOWN: usize = 3;

/// Draws a frame.
pub fn draw(state: &mut ScreenState, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < 4 || area.height < 3 {
        return;
    }
    let (body, bottom) = split_bottom(area, 1);
    draw_status_bar(state, frame, bottom);
    let dialog = match state.dialogs.is_empty() {
        true => None,
        false => Some(state.dialogs.area(body, &state.theme)),
    };
    match (state.overlays.pop(), dialog) {
        (Some(mut overlay), _) => {
            overlay.draw(frame, body, &state.theme);
            state.overlays.push(overlay);
        }
        (None, None) => draw_chat(state, frame, body),
        // The dialog covers the composer; the end of the transcript stays visible above it.
        (None, Some(dialog)) => {
            draw_transcript(state, frame, Rect { height: dialog.y - body.y, ..body });
        }
    }
    if let Some(dialog) = dialog {
        state.dialogs.draw(frame, dialog, &state.theme, state.now);
    }
}

fn draw_chat(state: &mut ScreenState, frame: &mut Frame<'_>, body: Rect) {
    let (above, composer) = split_bottom(body, composer_height(state, body));
    let cursor = draw_composer(state, frame, composer);
    let waiting = activity_lines(state, usize::from(above.width));
    let (transcript, waits) = split_bottom(above, to_u16(waiting.len()));
    draw_lines(frame, waits, &waiting);
    draw_transcript(state, frame, transcript);
    if let Some(menu) = &state.completions {
        draw_menu(menu, frame, above, &state.theme);
    }
    if let Some((x, y)) = cursor {
        frame.set_cursor_position((x, y));
    }
}

/// Splits the last rows off an area.
fn split_bottom(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    let above = Rect { height: area.height - rows, ..area };
    (above, Rect { y: area.y + above.height, height: rows, ..area })
}

fn to_u16(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}

fn draw_lines(frame: &mut Frame<'_>, area: Rect, lines: &[Line<'_>]) {
    for (y, line) in (area.top()..area.bottom()).zip(lines) {
        frame.buffer_mut().set_line(area.x, y, line, area.width);
    }
}

fn draw_transcript(state: &mut ScreenState, frame: &mut Frame<'_>, area: Rect) {
    if area.height == 0 {
        return;
    }
    if state.transcript.is_empty() {
        let lines = welcome(state, usize::from(area.width));
        draw_lines(frame, area, &lines);
        return;
    }
    let (theme, now) = (state.theme, state.now);
    state.transcript.draw(frame, area, &theme, now);
    if let Some(unseen) = state.transcript.lines_below() {
        let arrow = glyph(&theme, "↓", "v");
        let text = match unseen {
            0 => format!(" {arrow} Ctrl-End: to the end "),
            1 => format!(" {arrow} 1 new line "),
            unseen => format!(" {arrow} {unseen} new lines "),
        };
        let width = to_u16(text.width()).min(area.width);
        let (x, y) = (area.right() - width, area.bottom() - 1);
        frame.buffer_mut().set_stringn(
            x,
            y,
            &text,
            usize::from(width),
            theme.style(Tone::Selected),
        );
    }
}

/// The text shown in an empty conversation.
fn welcome(state: &ScreenState, width: usize) -> Vec<Line<'static>> {
    let theme = &state.theme;
    let faint = theme.style(Tone::Muted);
    let pending = state.snapshot.servers.values().filter(|it| !it.status.is_settled()).count();
    let tools = state.pool.tools().iter().filter(|it| !it.is_built_in()).count();
    let servers = match (state.snapshot.servers.len(), pending) {
        (0, _) => "No servers yet.".to_owned(),
        (_, 0) => format!("{tools} tools are ready."),
        (all, pending) => format!("Connecting: {} of {all} servers are connected.", all - pending),
    };
    let mut lines = vec![
        Line::default(),
        Line::from(vec![
            Span::styled("Switchboard", theme.style(Tone::Accent)),
            Span::styled(format!(" {}", env!("CARGO_PKG_VERSION")), faint),
        ]),
        Line::default(),
    ];
    let hints = [
        ("/help", "keys and commands"),
        ("/mcp", "servers and their status"),
        ("/call", "call a tool yourself"),
        ("@", "include a resource in a message"),
    ];
    lines.push(Line::from(servers));
    if state.model.is_none() {
        let text =
            "No model is set: commands work, free text does not. /model explains how to set one.";
        let style = theme.style(Tone::Warning);
        lines.extend(wrap(&[Span::styled(text, style)], width, &Margin::none()));
    }
    lines.push(Line::default());
    for (key, about) in hints {
        lines.push(Line::from(vec![
            Span::styled(format!("  {key:<7}"), theme.style(Tone::Accent)),
            Span::styled(about, faint),
        ]));
    }
    lines
}

/// The running turn and the queued messages.
fn activity_lines(state: &ScreenState, width: usize) -> Vec<Line<'static>> {
    let theme = &state.theme;
    let mut lines = Vec::new();
    if let Some(since) = state.turn_started {
        let elapsed = state.now.saturating_duration_since(since);
        lines.push(Line::from(vec![
            Span::styled(spinner(theme, elapsed), theme.style(Tone::Accent)),
            Span::styled(
                format!(" working, {}  (Esc stops it)", format_duration(whole_seconds(elapsed))),
                theme.style(Tone::Muted),
            ),
        ]));
    }
    let hidden = state.queued.len().saturating_sub(MAX_QUEUED_SHOWN);
    for text in state.queued.iter().skip(hidden) {
        let text = truncate(&sanitize_line(text), width.saturating_sub(8));
        lines.push(Line::from(Span::styled(format!("queued: {text}"), theme.style(Tone::Muted))));
    }
    if !lines.is_empty() {
        lines.insert(0, Line::default());
    }
    lines
}

fn whole_seconds(time: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_secs(time.as_secs().max(1))
}

fn composer_height(state: &ScreenState, area: Rect) -> u16 {
    let width = usize::from(area.width).saturating_sub(PROMPT.len());
    let rows = to_u16(state.composer.layout(width).rows.len());
    let most = (area.height / COMPOSER_FRACTION).max(1);
    let question = u16::from(state.prompt.is_some());
    // A rule above and one below.
    (rows.min(most) + 2 + question).min(area.height)
}

/// Draws the composer and returns the position of the cursor.
fn draw_composer(state: &mut ScreenState, frame: &mut Frame<'_>, area: Rect) -> Option<(u16, u16)> {
    let theme = state.theme;
    let faint = theme.style(Tone::Muted);
    let rule = glyph(&theme, "─", "-").repeat(usize::from(area.width));
    let buffer = frame.buffer_mut();
    if area.height < 3 {
        return None;
    }
    buffer.set_string(area.x, area.top(), &rule, faint);
    buffer.set_string(area.x, area.bottom() - 1, &rule, faint);
    let mut inner = Rect { y: area.y + 1, height: area.height - 2, ..area };
    if let Some(search) = &state.history_search {
        let found = state.history.search(&search.text, search.skipped).unwrap_or_default();
        let front = format!("search: {}", sanitize_line(&search.text));
        let room = usize::from(inner.width).saturating_sub(front.width() + 2);
        let line = Line::from(vec![
            Span::styled(front.clone(), theme.style(Tone::Accent)),
            Span::styled(format!("  {}", truncate(&sanitize_line(found), room)), faint),
        ]);
        buffer.set_line(inner.x, inner.y, &line, inner.width);
        return Some((inner.x + to_u16(front.width()).min(inner.width - 1), inner.y));
    }
    if let Some(prompt) = &state.prompt
        && let Some(argument) = prompt.current_argument()
    {
        let need = if argument.is_required { "" } else { " (may be left empty)" };
        let about = sanitize_line(&argument.description);
        let colon = if about.is_empty() { "" } else { ": " };
        let text = format!("{}{need}{colon}{about}", sanitize_line(&argument.name));
        let line = Line::from(Span::styled(text, theme.style(Tone::Accent)));
        buffer.set_line(inner.x, inner.y, &line, inner.width);
        inner = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
    }
    let width = usize::from(inner.width).saturating_sub(PROMPT.len());
    state.composer.set_width(width);
    let layout = state.composer.layout(width);
    // The cursor's row is always visible.
    let rows = usize::from(inner.height).max(1);
    let first = (layout.row + 1).saturating_sub(rows);
    buffer.set_string(inner.x, inner.y, PROMPT, theme.style(Tone::Accent));
    let x = inner.x + to_u16(PROMPT.len());
    for (y, row) in (inner.top()..inner.bottom()).zip(layout.rows.iter().skip(first)) {
        buffer.set_stringn(x, y, &row.text, width, theme.style(Tone::Text));
    }
    if state.composer.is_empty() && state.prompt.is_none() {
        let text = match state.model.is_some() {
            true => "Type a message, or / for commands",
            false => "Type / for commands",
        };
        buffer.set_stringn(x, inner.y, text, width, faint);
    }
    let row = to_u16(layout.row - first);
    Some((x + to_u16(layout.column), inner.y + row))
}

fn draw_menu(menu: &CompletionMenu, frame: &mut Frame<'_>, above: Rect, theme: &ScreenTheme) {
    let rows = menu.candidates.len().min(completion::VISIBLE_ROWS).min(usize::from(above.height));
    let first = menu.selected.map_or(0, |it| (it + 1).saturating_sub(rows));
    let shown = &menu.candidates[first..(first + rows).min(menu.candidates.len())];
    let (_, area) = split_bottom(above, to_u16(rows));
    frame.render_widget(Clear, area);
    let widest = shown.iter().map(|it| it.value.width()).max().unwrap_or(0);
    let value_room = widest.min(usize::from(area.width) * 2 / 3);
    for ((y, choice), at) in (area.top()..).zip(shown).zip(first..) {
        let value = truncate(&choice.value, value_room);
        let room = value_room - value.width();
        let tone = if Some(at) == menu.selected { Tone::Selected } else { Tone::Text };
        let line = Line::from(vec![
            Span::styled(format!(" {value}{} ", " ".repeat(room)), theme.style(tone)),
            Span::styled(
                format!("  {}", sanitize_line(&choice.description)),
                theme.style(Tone::Muted),
            ),
        ]);
        frame.buffer_mut().set_line(area.x, y, &line, area.width);
    }
}

fn draw_status_bar(state: &ScreenState, frame: &mut Frame<'_>, area: Rect) {
    let theme = &state.theme;
    let keys = match (state.dialogs.is_empty(), state.overlays.last()) {
        (false, _) => Some(state.dialogs.key_hints()),
        (true, overlay) => overlay.map(|it| it.key_hints()),
    };
    let is_covered = keys.is_some();
    let hint = match keys {
        Some(keys) => {
            let pair = |(key, what): &(&str, &str)| format!("{key} {what}");
            keys.iter().map(pair).collect::<Vec<_>>().join("  ")
        }
        None if state.is_quit_pending() => "Ctrl-C again quits".to_owned(),
        None => key_hint(state).to_owned(),
    };
    let width = usize::from(area.width);
    let status = StatusLine {
        model: state.model.as_ref().map(|it| it.name.as_str()),
        context_tokens: (
            state.context_tokens,
            state.model.as_ref().and_then(|it| it.context_window),
        ),
        total_tokens: (state.usage.input, state.usage.output),
        snapshot: &state.snapshot,
        mode: state.mode,
        ide_selection: state.ide_selection.as_deref(),
        folder: &state.folder,
    };
    let is_over = is_covered || state.is_quit_pending();
    let room = if is_over { width.saturating_sub(hint.width() + 2) } else { width };
    let line = status.line(room, theme);
    let used = line.width();
    if !(is_over && used > room) {
        frame.buffer_mut().set_line(area.x, area.y, &line, area.width);
    }
    let left = if used > room { width } else { width.saturating_sub(used + 2) };
    let hint = if is_over { truncate(&hint, left) } else { hint };
    if hint.width() <= left {
        let x = area.right() - to_u16(hint.width());
        frame.buffer_mut().set_string(x, area.y, &hint, theme.style(Tone::Muted));
    }
}

/// The keys that are useful in this state.
fn key_hint(state: &ScreenState) -> &'static str {
    if state.history_search.is_some() {
        "Ctrl-R earlier  Enter send  Esc back"
    } else if state.prompt.is_some() {
        "Enter next  Esc cancel"
    } else if state.completions.is_some() {
        "Tab take  Esc close"
    } else if state.is_busy() {
        "Esc stop"
    } else {
        "/help"
    }
}

fn glyph(theme: &ScreenTheme, drawn: &'static str, ascii: &'static str) -> &'static str {
    match theme.glyphs {
        GlyphSet::Unicode => drawn,
        GlyphSet::Ascii => ascii,
    }
}
