//! A pager: a long text over the conversation, to scroll and search in.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::text::ansi;
use crate::text::wrap::{Margin, truncate, wrap};
use crate::theme::{ScreenTheme, Tone};
use crate::view::overlay::{Overlay, OverlayOutcome};

/// A pager.
#[derive(Debug)]
pub struct Pager {
    title: String,
    text: String,
    layout: Option<(u16, Vec<Line<'static>>)>,
    top: usize,
    height: usize,
    /// The search text, and whether it is still being typed.
    search: Option<(String, SearchInput)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchInput {
    Editing,
    Done,
}

/// The position at which a text opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    /// At its start.
    Top,
    /// At its end.
    Bottom,
}

impl Pager {
    /// A pager for a text, which may hold SGR colours.
    pub fn new(title: &str, text: &str, start: StartPosition) -> Pager {
        let top = match start {
            StartPosition::Top => 0,
            StartPosition::Bottom => usize::MAX,
        };
        Pager {
            title: title.to_owned(),
            text: text.to_owned(),
            layout: None,
            top,
            height: 1,
            search: None,
        }
    }

    fn lines(&self) -> &[Line<'static>] {
        self.layout.as_ref().map_or(&[], |(_, lines)| lines)
    }

    fn max_top(&self) -> usize {
        self.lines().len().saturating_sub(self.height)
    }

    fn scroll_to(&mut self, top: usize) {
        self.top = top.min(self.max_top());
    }

    /// The next line that contains the search text, starting at `from` and wrapping around.
    fn find(&self, from: usize, step: SearchDirection) -> Option<usize> {
        let (needle, _) = self.search.as_ref()?;
        let needle = needle.to_lowercase();
        let all = self.lines().len();
        let is_found = |at: &usize| self.lines()[*at].to_string().to_lowercase().contains(&needle);
        if needle.is_empty() || all == 0 {
            return None;
        }
        match step {
            SearchDirection::Forward => (0..all).map(|it| (from + it) % all).find(is_found),
            SearchDirection::Backward => (0..all).map(|it| (from + all - it) % all).find(is_found),
        }
    }

    fn search_key(&mut self, key: KeyEvent) {
        let Some((mut text, _)) = self.search.take() else { return };
        match (key.code, key.modifiers) {
            (KeyCode::Esc, _) => return,
            (KeyCode::Enter, _) => {
                self.search = Some((text, SearchInput::Done));
                return;
            }
            (KeyCode::Backspace, _) => {
                text.pop();
            }
            (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) => text.push(c),
            (_, _) => {}
        }
        self.search = Some((text, SearchInput::Editing));
        if let Some(at) = self.find(self.top.min(self.max_top()), SearchDirection::Forward) {
            self.scroll_to(at);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum SearchDirection {
    Forward,
    Backward,
}

impl Overlay for Pager {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        if area.height < 2 {
            return;
        }
        if self.layout.as_ref().is_none_or(|(width, _)| *width != area.width) {
            let lines = ansi::lines(&self.text, theme);
            let wrapped = lines
                .iter()
                .flat_map(|it| wrap(&it.spans, usize::from(area.width), &Margin::none()));
            self.layout = Some((area.width, wrapped.collect()));
        }
        self.height = usize::from(area.height - 1);
        self.scroll_to(self.top);
        let all = self.lines().len();
        let end = (self.top + self.height).min(all);
        let mut title = format!("{}  ({}-{end} of {all})", self.title, self.top + 1);
        if let Some((text, typing)) = &self.search {
            let mark = if *typing == SearchInput::Editing { "_" } else { "" };
            title.push_str(&format!("  /{text}{mark}"));
        }
        let title = truncate(&title, usize::from(area.width));
        let buffer = frame.buffer_mut();
        buffer.set_string(area.x, area.y, &title, theme.style(Tone::Accent));
        let needle = self.search.as_ref().map(|(it, _)| it.to_lowercase());
        for (y, line) in (area.y + 1..area.bottom()).zip(self.lines().iter().skip(self.top)) {
            buffer.set_line(area.x, y, line, area.width);
            let text = line.to_string();
            let is_found = |it: &String| !it.is_empty() && text.to_lowercase().contains(it);
            if needle.as_ref().is_some_and(is_found) {
                let row = Rect { y, height: 1, ..area };
                buffer.set_style(row, theme.style(Tone::Selected));
            }
        }
    }

    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome {
        if let Some((_, SearchInput::Editing)) = self.search {
            self.search_key(key);
            return OverlayOutcome::Stay;
        }
        let page = self.height.saturating_sub(1).max(1);
        match (key.code, key.modifiers) {
            (KeyCode::Esc | KeyCode::Char('q'), KeyModifiers::NONE)
            | (KeyCode::Char('c'), KeyModifiers::CONTROL) => return OverlayOutcome::Close,
            (KeyCode::Up | KeyCode::Char('k'), _) => self.scroll_to(self.top.saturating_sub(1)),
            (KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter, _) => {
                self.scroll_to(self.top + 1)
            }
            (KeyCode::PageUp | KeyCode::Char('b'), _) => {
                self.scroll_to(self.top.saturating_sub(page))
            }
            (KeyCode::PageDown | KeyCode::Char(' ' | 'f'), _) => self.scroll_to(self.top + page),
            (KeyCode::Home | KeyCode::Char('g'), _) => self.scroll_to(0),
            (KeyCode::End | KeyCode::Char('G'), _) => self.scroll_to(usize::MAX),
            (KeyCode::Char('/'), _) => self.search = Some((String::new(), SearchInput::Editing)),
            (KeyCode::Char('n'), _) => {
                if let Some(at) = self.find(self.top + 1, SearchDirection::Forward) {
                    self.scroll_to(at);
                }
            }
            (KeyCode::Char('N'), _) => {
                let from = self.top.checked_sub(1).unwrap_or(self.lines().len().saturating_sub(1));
                if let Some(at) = self.find(from, SearchDirection::Backward) {
                    self.scroll_to(at);
                }
            }
            (_, _) => {}
        }
        OverlayOutcome::Stay
    }

    fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        match self.search {
            Some((_, SearchInput::Editing)) => vec![("Enter", "search"), ("Esc", "back")],
            Some((_, SearchInput::Done)) => vec![("n N", "next, last"), ("Esc", "close")],
            None => vec![("↑↓ PgUp PgDn", "scroll"), ("/", "search"), ("Esc", "close")],
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::theme::{GlyphSet, Palette};

    const THEME: ScreenTheme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };

    fn shown(page: &mut Pager) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(30, 4)).expect("it needs no terminal");
        terminal
            .draw(|frame| page.draw(frame, frame.area(), &THEME))
            .expect("it needs no terminal");
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..30).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..4).map(|y| row(y).trim_end().to_owned()).collect()
    }

    fn typed(page: &mut Pager, keys: &str) {
        for c in keys.chars() {
            let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
            page.on_key(KeyEvent::new(code, KeyModifiers::NONE));
        }
    }

    #[test]
    fn it_scrolls_between_its_ends() {
        let text: String = (1..=9).map(|it| format!("line {it}\n")).collect();
        let mut page = Pager::new("log", &text, StartPosition::Bottom);
        assert_eq!(shown(&mut page), ["log  (7-9 of 9)", "line 7", "line 8", "line 9"]);
        typed(&mut page, "kj g");
        assert_eq!(shown(&mut page)[1], "line 1");
        typed(&mut page, " ");
        assert_eq!(shown(&mut page)[1], "line 3");
    }

    #[test]
    fn a_search_goes_on_around_the_end() {
        let text: String = (1..=9).map(|it| format!("line {it}\n")).collect();
        let mut page = Pager::new("log", &text, StartPosition::Top);
        shown(&mut page);
        typed(&mut page, "/5\n");
        assert_eq!(shown(&mut page)[1], "line 5");
        typed(&mut page, "n");
        assert_eq!(shown(&mut page)[1], "line 5");
    }
}
