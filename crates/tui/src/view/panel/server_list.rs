//! The table of all servers: one row each, with the cause of a failure below it. Columns that do not fit are left out;
//! name and state stay longest.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use switchboard::config::display::format_bytes;

use crate::text::rich_text::{draw_lines, sanitize_and_truncate};
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::panel::monitor::Measurements;
use crate::view::panel::server_details::{ServerDetails, ServerHealth};
use crate::view::widget::frame::hidden_lines_label;
use crate::view::widget::input::{InputFocus, KeyOutcome};
use crate::view::widget::scroll::Scroll;
use crate::view::widget::text_field::TextField;

/// The columns after the name.
const COLUMN_TITLES: [&str; 7] = ["STATE", "PROTOCOL", "SCOPE", "TYPE", "T/R/P", "READY", "MEMORY"];
/// The order in which columns are left out.
const DROP_ORDER: [usize; 6] = [2, 3, 1, 5, 6, 4];
/// The maximum width of the name column.
const MAX_NAME_WIDTH: usize = 32;

/// The state of the table.
#[derive(Debug, Default)]
pub struct ServerList {
    /// The name of the selected server.
    selected: Option<String>,
    filter: TextField,
    /// Is the filter being typed?
    is_filtering: bool,
    order: SortOrder,
    scroll: Scroll,
}

/// The order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SortOrder {
    #[default]
    ByName,
    FailingFirst,
}

impl ServerList {
    /// The visible servers, in their order.
    fn visible<'p>(&self, all: &'p [ServerDetails]) -> Vec<&'p ServerDetails> {
        let wanted = self.filter.text().to_lowercase();
        let mut shown: Vec<&ServerDetails> = all
            .iter()
            .filter(|it| {
                let words = [it.name.as_str(), &it.state, it.scope, it.transport];
                words.iter().any(|word| word.to_lowercase().contains(&wanted))
            })
            .collect();
        if self.order == SortOrder::FailingFirst {
            shown.sort_by_key(|it| it.health);
        }
        shown
    }

    fn selected_index(&self, shown: &[&ServerDetails]) -> usize {
        let chosen = self.selected.as_deref();
        shown.iter().position(|it| Some(it.name.as_str()) == chosen).unwrap_or(0)
    }

    /// The selected server.
    pub fn selected<'p>(&self, all: &'p [ServerDetails]) -> Option<&'p ServerDetails> {
        let shown = self.visible(all);
        shown.get(self.selected_index(&shown)).copied()
    }

    /// Is the filter being typed? Then letters are no commands.
    pub fn is_filtering(&self) -> bool {
        self.is_filtering
    }

    /// Selects a server.
    pub fn select(&mut self, name: &str) {
        self.selected = Some(name.to_owned());
    }

    /// Handles the keys that move, filter and sort.
    pub fn on_key(&mut self, key: KeyEvent, all: &[ServerDetails]) -> KeyOutcome {
        if self.is_filtering {
            return self.on_filter_key(key, all);
        }
        let page = self.scroll.page_size();
        match (key.code, ()) {
            (KeyCode::Char('/'), ()) => self.is_filtering = true,
            (KeyCode::Char('s'), ()) => {
                self.order = match self.order {
                    SortOrder::ByName => SortOrder::FailingFirst,
                    SortOrder::FailingFirst => SortOrder::ByName,
                };
            }
            (KeyCode::Esc, ()) if !self.filter.text().is_empty() => self.filter.clear(),
            (KeyCode::Up | KeyCode::Char('k'), ()) => self.move_selection(-1, all),
            (KeyCode::Down | KeyCode::Char('j'), ()) => self.move_selection(1, all),
            (KeyCode::PageUp, ()) => self.move_selection(-page, all),
            (KeyCode::PageDown, ()) => self.move_selection(page, all),
            (KeyCode::Home, ()) => self.move_selection(isize::MIN, all),
            (KeyCode::End, ()) => self.move_selection(isize::MAX, all),
            (_, ()) => return KeyOutcome::NotHandled,
        }
        KeyOutcome::Handled
    }

    fn on_filter_key(&mut self, key: KeyEvent, all: &[ServerDetails]) -> KeyOutcome {
        match (key.code, ()) {
            (KeyCode::Esc, ()) => {
                self.filter.clear();
                self.is_filtering = false;
            }
            (KeyCode::Enter, ()) => self.is_filtering = false,
            (KeyCode::Up, ()) => self.move_selection(-1, all),
            (KeyCode::Down, ()) => self.move_selection(1, all),
            (KeyCode::Backspace, ()) if self.filter.text().is_empty() => self.is_filtering = false,
            (_, ()) => {
                self.filter.on_key(key);
            }
        }
        KeyOutcome::Handled
    }

    /// Inserts pasted text into the filter.
    pub fn on_paste(&mut self, text: &str) {
        if self.is_filtering {
            self.filter.insert(text);
        }
    }

    fn move_selection(&mut self, by: isize, all: &[ServerDetails]) {
        let shown = self.visible(all);
        let last = shown.len().saturating_sub(1);
        let at = self.selected_index(&shown).saturating_add_signed(by).min(last);
        self.selected = shown.get(at).map(|it| it.name.clone());
    }

    /// Draws the table.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        theme: &ScreenTheme,
        (all, measurements): (&[ServerDetails], &Measurements),
    ) {
        let shown = self.visible(all);
        let at = self.selected_index(&shown);
        let mut area = area;
        if self.is_filtering || !self.filter.text().is_empty() {
            area = self.draw_filter(frame, area, theme);
        }
        if shown.is_empty() {
            let text =
                if all.is_empty() { "no servers are configured" } else { "no server matches" };
            let line = Line::from(Span::styled(text, theme.style(Tone::Muted)));
            draw_lines(frame.buffer_mut(), area, &[line]);
            return;
        }
        let table = Table::new(&shown, measurements, theme, usize::from(area.width));
        if area.height > 3 {
            draw_lines(frame.buffer_mut(), Rect { height: 1, ..area }, &[table.header(theme)]);
            area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        }
        let (mut lines, mut chosen) = (Vec::new(), 0..0);
        for (index, details) in shown.iter().enumerate() {
            let start = lines.len();
            let focus = if index == at { InputFocus::Focused } else { InputFocus::Unfocused };
            lines.push(table.row(index, details, focus, theme));
            lines.extend(failure_line(details, theme, usize::from(area.width)));
            if index == at {
                chosen = start..lines.len();
            }
        }
        let is_more = lines.len() > usize::from(area.height) && area.height > 2;
        let height = if is_more { area.height - 1 } else { area.height };
        self.scroll.scroll_into_view(chosen, height);
        let seen = self.scroll.visible(lines.len(), height);
        draw_lines(frame.buffer_mut(), Rect { height, ..area }, &lines[seen]);
        if is_more {
            let more = Span::styled(
                hidden_lines_label(self.scroll.hidden_counts(), theme),
                theme.style(Tone::Muted),
            );
            frame.buffer_mut().set_span(area.x, area.y + height, &more, area.width);
        }
    }

    fn draw_filter(&self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) -> Rect {
        if area.height < 2 || area.width < 4 {
            return area;
        }
        let front = Span::styled("/", theme.style(Tone::Accent));
        frame.buffer_mut().set_span(area.x, area.y, &front, area.width);
        let room = Rect { x: area.x + 1, width: area.width - 1, height: 1, ..area };
        let focus = if self.is_filtering { InputFocus::Focused } else { InputFocus::Unfocused };
        self.filter.draw(frame, room, theme, focus);
        Rect { y: area.y + 1, height: area.height - 1, ..area }
    }
}

fn failure_line(
    details: &ServerDetails,
    theme: &ScreenTheme,
    width: usize,
) -> Option<Line<'static>> {
    // The user who disabled it knows why it does not run.
    let cause = details.failure.as_ref().filter(|_| details.health < ServerHealth::Connected)?;
    let front = match theme.glyphs {
        GlyphSet::Unicode => "   └ ",
        GlyphSet::Ascii => "     ",
    };
    let what = cause.summary.lines().next().unwrap_or_default();
    let text = sanitize_and_truncate(what, width.saturating_sub(front.width()));
    Some(Line::from(vec![
        Span::styled(front, theme.style(Tone::Muted)),
        Span::styled(text, theme.style(details.health.tone())),
    ]))
}

/// The cells, and the columns that fit.
struct Table {
    cells: Vec<[String; 7]>,
    widths: [usize; 7],
    name: usize,
    columns: Vec<usize>,
    gap: usize,
}

impl Table {
    fn new(
        shown: &[&ServerDetails],
        measurements: &Measurements,
        theme: &ScreenTheme,
        width: usize,
    ) -> Table {
        let cells: Vec<[String; 7]> =
            shown.iter().map(|it| cells(it, measurements, theme)).collect();
        let mut widths: [usize; 7] = std::array::from_fn(|at| COLUMN_TITLES[at].width());
        for row in &cells {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let longest = shown
            .iter()
            .map(|it| sanitize_and_truncate(&it.name, MAX_NAME_WIDTH).width())
            .max()
            .unwrap_or(0);
        let name = longest.max(4) + 2;
        let mut columns: Vec<usize> = (0..7).collect();
        let needed = |columns: &[usize], gap: usize| {
            name + columns.iter().map(|at| widths[*at] + gap).sum::<usize>()
        };
        let gap = if needed(&columns, 2) <= width { 2 } else { 1 };
        for truncated_columns in DROP_ORDER {
            if needed(&columns, gap) <= width {
                break;
            }
            columns.retain(|at| *at != truncated_columns);
        }
        let others: usize = columns.iter().map(|at| widths[*at] + gap).sum();
        let name = name.min(width.saturating_sub(others).max(8));
        Table { cells, widths, name, columns, gap }
    }

    fn header(&self, theme: &ScreenTheme) -> Line<'static> {
        let mut text = format!("{:<width$}", "  NAME", width = self.name);
        for at in &self.columns {
            text.push_str(&" ".repeat(self.gap));
            text.push_str(&format!("{:<width$}", COLUMN_TITLES[*at], width = self.widths[*at]));
        }
        Line::from(Span::styled(text, theme.style(Tone::Muted)))
    }

    fn row(
        &self,
        index: usize,
        details: &ServerDetails,
        focus: InputFocus,
        theme: &ScreenTheme,
    ) -> Line<'static> {
        let mark = match (focus, theme.glyphs) {
            (InputFocus::Unfocused, _) => "  ",
            (InputFocus::Focused, GlyphSet::Unicode) => "▸ ",
            (InputFocus::Focused, GlyphSet::Ascii) => "> ",
        };
        let tone = |usual: Tone| if focus == InputFocus::Focused { Tone::Selected } else { usual };
        let name =
            sanitize_and_truncate(&details.name, self.name.saturating_sub(2).min(MAX_NAME_WIDTH));
        let mut spans = vec![Span::styled(
            format!("{mark}{}", padded(&name, self.name.saturating_sub(2))),
            theme.style(tone(Tone::Strong)),
        )];
        for at in &self.columns {
            let usual = if *at == 0 { details.health.tone() } else { Tone::Text };
            let cell = padded(&self.cells[index][*at], self.widths[*at]);
            let text = format!("{}{cell}", " ".repeat(self.gap));
            spans.push(Span::styled(text, theme.style(tone(usual))));
        }
        Line::from(spans)
    }
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

fn cells(details: &ServerDetails, measurements: &Measurements, theme: &ScreenTheme) -> [String; 7] {
    let absent = || "-".to_owned();
    let count = |count: Option<usize>| count.map_or_else(absent, |it| it.to_string());
    let counts = match details.counts {
        [None, None, None] => absent(),
        [tools, resources, prompts] => {
            format!("{}/{}/{}", count(tools), count(resources), count(prompts))
        }
    };
    let memory = details.process.and_then(|it| measurements.memory.get(&it));
    [
        sanitize_and_truncate(&format!("{} {}", details.health.glyph(theme), details.state), 30),
        details.description.as_ref().map_or_else(absent, |it| it.protocol_version.clone()),
        details.scope.to_owned(),
        details.transport.to_owned(),
        counts,
        details.ready_after.map_or_else(absent, |it| format!("{} ms", it.as_millis())),
        memory.map_or_else(absent, |it| format_bytes(*it)),
    ]
}
