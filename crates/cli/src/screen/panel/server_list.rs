//! All servers in a table: one row each, the cause below where something is wrong. What does not fit is left out,
//! name and state last.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::screen::dialog::more;
use crate::screen::dialog::paper::{Scroll, cut, draw_lines};
use crate::screen::dialog::text_box::{Focus, Taken, TextBox};
use crate::screen::look::{Look, Signs, Tone};
use crate::screen::panel::observing::Observed;
use crate::screen::panel::portrait::{Mood, Portrait};
use crate::screen::panel::resident;

/// The columns behind the name.
const TITLES: [&str; 7] = ["STATE", "ERA", "SCOPE", "TYPE", "T/R/P", "READY", "MEMORY"];
/// Which of them go first where there is no room.
const YIELDING: [usize; 6] = [2, 3, 1, 5, 6, 4];
/// The widest that a name may be while something else is shown.
const WIDEST_NAME: usize = 32;

/// The table's state.
#[derive(Debug, Default)]
pub struct ServerList {
    /// The name that the keys go to.
    chosen: Option<String>,
    filter: TextBox,
    /// Is the filter being typed?
    is_typing: bool,
    order: Order,
    scroll: Scroll,
}

/// In which order servers are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Order {
    #[default]
    ByName,
    FailingFirst,
}

impl ServerList {
    /// Those that are shown, in their order.
    fn shown<'p>(&self, all: &'p [Portrait]) -> Vec<&'p Portrait> {
        let wanted = self.filter.text().to_lowercase();
        let mut shown: Vec<&Portrait> = all
            .iter()
            .filter(|it| {
                let words = [it.name.as_str(), &it.state, it.scope, it.transport];
                words.iter().any(|word| word.to_lowercase().contains(&wanted))
            })
            .collect();
        if self.order == Order::FailingFirst {
            shown.sort_by_key(|it| it.mood);
        }
        shown
    }

    fn at(&self, shown: &[&Portrait]) -> usize {
        let chosen = self.chosen.as_deref();
        shown.iter().position(|it| Some(it.name.as_str()) == chosen).unwrap_or(0)
    }

    /// The server that the keys go to.
    pub fn chosen<'p>(&self, all: &'p [Portrait]) -> Option<&'p Portrait> {
        let shown = self.shown(all);
        shown.get(self.at(&shown)).copied()
    }

    /// Is a filter being typed? Then letters are not keys.
    pub fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Goes to a server.
    pub fn choose(&mut self, name: &str) {
        self.chosen = Some(name.to_owned());
    }

    /// Takes the keys that move, filter and sort.
    pub fn key(&mut self, key: KeyEvent, all: &[Portrait]) -> Taken {
        if self.is_typing {
            return self.typed(key, all);
        }
        let page = self.scroll.page();
        match (key.code, ()) {
            (KeyCode::Char('/'), ()) => self.is_typing = true,
            (KeyCode::Char('s'), ()) => {
                self.order = match self.order {
                    Order::ByName => Order::FailingFirst,
                    Order::FailingFirst => Order::ByName,
                };
            }
            (KeyCode::Esc, ()) if !self.filter.text().is_empty() => self.filter.clear(),
            (KeyCode::Up | KeyCode::Char('k'), ()) => self.go(-1, all),
            (KeyCode::Down | KeyCode::Char('j'), ()) => self.go(1, all),
            (KeyCode::PageUp, ()) => self.go(-page, all),
            (KeyCode::PageDown, ()) => self.go(page, all),
            (KeyCode::Home, ()) => self.go(isize::MIN, all),
            (KeyCode::End, ()) => self.go(isize::MAX, all),
            (_, ()) => return Taken::No,
        }
        Taken::Yes
    }

    fn typed(&mut self, key: KeyEvent, all: &[Portrait]) -> Taken {
        match (key.code, ()) {
            (KeyCode::Esc, ()) => {
                self.filter.clear();
                self.is_typing = false;
            }
            (KeyCode::Enter, ()) => self.is_typing = false,
            (KeyCode::Up, ()) => self.go(-1, all),
            (KeyCode::Down, ()) => self.go(1, all),
            (KeyCode::Backspace, ()) if self.filter.text().is_empty() => self.is_typing = false,
            (_, ()) => {
                self.filter.key(key);
            }
        }
        Taken::Yes
    }

    /// Takes text that was pasted.
    pub fn paste(&mut self, text: &str) {
        if self.is_typing {
            self.filter.insert(text);
        }
    }

    fn go(&mut self, by: isize, all: &[Portrait]) {
        let shown = self.shown(all);
        let last = shown.len().saturating_sub(1);
        let at = self.at(&shown).saturating_add_signed(by).min(last);
        self.chosen = shown.get(at).map(|it| it.name.clone());
    }

    /// Draws it.
    pub fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        look: &Look,
        (all, observed): (&[Portrait], &Observed),
    ) {
        let shown = self.shown(all);
        let at = self.at(&shown);
        let mut area = area;
        if self.is_typing || !self.filter.text().is_empty() {
            area = self.draw_filter(frame, area, look);
        }
        if shown.is_empty() {
            let text =
                if all.is_empty() { "no servers are configured" } else { "none is like that" };
            let line = Line::from(Span::styled(text, look.style(Tone::Faint)));
            draw_lines(frame.buffer_mut(), area, &[line]);
            return;
        }
        let table = Table::of(&shown, observed, look, usize::from(area.width));
        if area.height > 3 {
            draw_lines(frame.buffer_mut(), Rect { height: 1, ..area }, &[table.header(look)]);
            area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        }
        let (mut lines, mut chosen) = (Vec::new(), 0..0);
        for (index, portrait) in shown.iter().enumerate() {
            let start = lines.len();
            let focus = if index == at { Focus::Here } else { Focus::Elsewhere };
            lines.push(table.row(index, portrait, focus, look));
            lines.extend(cause(portrait, look, usize::from(area.width)));
            if index == at {
                chosen = start..lines.len();
            }
        }
        let is_more = lines.len() > usize::from(area.height) && area.height > 2;
        let height = if is_more { area.height - 1 } else { area.height };
        self.scroll.show(chosen, height);
        let seen = self.scroll.fit(lines.len(), height);
        draw_lines(frame.buffer_mut(), Rect { height, ..area }, &lines[seen]);
        if is_more {
            let more = Span::styled(more(self.scroll.hidden(), look), look.style(Tone::Faint));
            frame.buffer_mut().set_span(area.x, area.y + height, &more, area.width);
        }
    }

    fn draw_filter(&self, frame: &mut Frame<'_>, area: Rect, look: &Look) -> Rect {
        if area.height < 2 || area.width < 4 {
            return area;
        }
        let front = Span::styled("/", look.style(Tone::Accent));
        frame.buffer_mut().set_span(area.x, area.y, &front, area.width);
        let room = Rect { x: area.x + 1, width: area.width - 1, height: 1, ..area };
        let focus = if self.is_typing { Focus::Here } else { Focus::Elsewhere };
        self.filter.draw(frame, room, look, focus);
        Rect { y: area.y + 1, height: area.height - 1, ..area }
    }
}

fn cause(portrait: &Portrait, look: &Look, width: usize) -> Option<Line<'static>> {
    // Who switched it off knows why it does not run.
    let cause = portrait.cause.as_ref().filter(|_| portrait.mood < Mood::Connected)?;
    let front = match look.signs {
        Signs::Drawn => "   └ ",
        Signs::Ascii => "     ",
    };
    let what = cause.what.lines().next().unwrap_or_default();
    let text = cut(what, width.saturating_sub(front.width()));
    Some(Line::from(vec![
        Span::styled(front, look.style(Tone::Faint)),
        Span::styled(text, look.style(portrait.mood.tone())),
    ]))
}

/// The cells, and which columns there is room for.
struct Table {
    cells: Vec<[String; 7]>,
    widths: [usize; 7],
    name: usize,
    columns: Vec<usize>,
    gap: usize,
}

impl Table {
    fn of(shown: &[&Portrait], observed: &Observed, look: &Look, width: usize) -> Table {
        let cells: Vec<[String; 7]> = shown.iter().map(|it| cells(it, observed, look)).collect();
        let mut widths: [usize; 7] = std::array::from_fn(|at| TITLES[at].width());
        for row in &cells {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let longest = shown.iter().map(|it| cut(&it.name, WIDEST_NAME).width()).max().unwrap_or(0);
        let name = longest.max(4) + 2;
        let mut columns: Vec<usize> = (0..7).collect();
        let needed = |columns: &[usize], gap: usize| {
            name + columns.iter().map(|at| widths[*at] + gap).sum::<usize>()
        };
        let gap = if needed(&columns, 2) <= width { 2 } else { 1 };
        for yielding in YIELDING {
            if needed(&columns, gap) <= width {
                break;
            }
            columns.retain(|at| *at != yielding);
        }
        let others: usize = columns.iter().map(|at| widths[*at] + gap).sum();
        let name = name.min(width.saturating_sub(others).max(8));
        Table { cells, widths, name, columns, gap }
    }

    fn header(&self, look: &Look) -> Line<'static> {
        let mut text = format!("{:<width$}", "  NAME", width = self.name);
        for at in &self.columns {
            text.push_str(&" ".repeat(self.gap));
            text.push_str(&format!("{:<width$}", TITLES[*at], width = self.widths[*at]));
        }
        Line::from(Span::styled(text, look.style(Tone::Faint)))
    }

    fn row(&self, index: usize, portrait: &Portrait, focus: Focus, look: &Look) -> Line<'static> {
        let mark = match (focus, look.signs) {
            (Focus::Elsewhere, _) => "  ",
            (Focus::Here, Signs::Drawn) => "▸ ",
            (Focus::Here, Signs::Ascii) => "> ",
        };
        let tone = |usual: Tone| if focus == Focus::Here { Tone::Chosen } else { usual };
        let name = cut(&portrait.name, self.name.saturating_sub(2).min(WIDEST_NAME));
        let mut spans = vec![Span::styled(
            format!("{mark}{}", padded(&name, self.name.saturating_sub(2))),
            look.style(tone(Tone::Strong)),
        )];
        for at in &self.columns {
            let usual = if *at == 0 { portrait.mood.tone() } else { Tone::Text };
            let cell = padded(&self.cells[index][*at], self.widths[*at]);
            let text = format!("{}{cell}", " ".repeat(self.gap));
            spans.push(Span::styled(text, look.style(tone(usual))));
        }
        Line::from(spans)
    }
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

fn cells(portrait: &Portrait, observed: &Observed, look: &Look) -> [String; 7] {
    let absent = || "-".to_owned();
    let count = |count: Option<usize>| count.map_or_else(absent, |it| it.to_string());
    let counts = match portrait.counts {
        [None, None, None] => absent(),
        [tools, resources, prompts] => {
            format!("{}/{}/{}", count(tools), count(resources), count(prompts))
        }
    };
    let memory = portrait.process.and_then(|it| observed.resident.get(&it));
    [
        cut(&format!("{} {}", portrait.mood.sign(look), portrait.state), 28),
        portrait.introduced.as_ref().map_or_else(absent, |it| it.era.to_owned()),
        portrait.scope.to_owned(),
        portrait.transport.to_owned(),
        counts,
        portrait.ready_after.map_or_else(absent, |it| format!("{} ms", it.as_millis())),
        memory.map_or_else(absent, |it| resident::shown(*it)),
    ]
}
