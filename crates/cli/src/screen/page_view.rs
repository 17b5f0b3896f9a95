//! A long text over the chat, to scroll and to search in.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::screen::look::{Look, Tone};
use crate::screen::overlay::{Overlay, Reaction};
use crate::screen::painted;
use crate::screen::wrapping::{Margin, shortened, wrap};

/// The text.
#[derive(Debug)]
pub struct PageView {
    title: String,
    text: String,
    laid: Option<(u16, Vec<Line<'static>>)>,
    top: usize,
    height: usize,
    /// What is looked for, and whether it is still being typed.
    search: Option<(String, Typing)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Typing {
    GoesOn,
    Done,
}

/// Where a text is looked at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At its beginning.
    Top,
    /// At its end.
    Bottom,
}

impl PageView {
    /// A text, which may hold our own colours.
    pub fn new(title: &str, text: &str, begin: Begin) -> PageView {
        let top = match begin {
            Begin::Top => 0,
            Begin::Bottom => usize::MAX,
        };
        PageView {
            title: title.to_owned(),
            text: text.to_owned(),
            laid: None,
            top,
            height: 1,
            search: None,
        }
    }

    fn lines(&self) -> &[Line<'static>] {
        self.laid.as_ref().map_or(&[], |(_, lines)| lines)
    }

    fn most(&self) -> usize {
        self.lines().len().saturating_sub(self.height)
    }

    fn go(&mut self, top: usize) {
        self.top = top.min(self.most());
    }

    /// The next line that holds what is looked for, from one on and around the end.
    fn find(&self, from: usize, step: Step) -> Option<usize> {
        let (needle, _) = self.search.as_ref()?;
        let needle = needle.to_lowercase();
        let all = self.lines().len();
        let is_found = |at: &usize| self.lines()[*at].to_string().to_lowercase().contains(&needle);
        if needle.is_empty() || all == 0 {
            return None;
        }
        match step {
            Step::Forward => (0..all).map(|it| (from + it) % all).find(is_found),
            Step::Back => (0..all).map(|it| (from + all - it) % all).find(is_found),
        }
    }

    fn search_key(&mut self, key: KeyEvent) {
        let Some((mut text, _)) = self.search.take() else { return };
        match (key.code, key.modifiers) {
            (KeyCode::Esc, _) => return,
            (KeyCode::Enter, _) => {
                self.search = Some((text, Typing::Done));
                return;
            }
            (KeyCode::Backspace, _) => {
                text.pop();
            }
            (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) => text.push(c),
            (_, _) => {}
        }
        self.search = Some((text, Typing::GoesOn));
        if let Some(at) = self.find(self.top.min(self.most()), Step::Forward) {
            self.go(at);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Forward,
    Back,
}

impl Overlay for PageView {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        if area.height < 2 {
            return;
        }
        if self.laid.as_ref().is_none_or(|(width, _)| *width != area.width) {
            let lines = painted::lines(&self.text, look);
            let wrapped = lines
                .iter()
                .flat_map(|it| wrap(&it.spans, usize::from(area.width), &Margin::none()));
            self.laid = Some((area.width, wrapped.collect()));
        }
        self.height = usize::from(area.height - 1);
        self.go(self.top);
        let all = self.lines().len();
        let end = (self.top + self.height).min(all);
        let mut title = format!("{}  ({}-{end} of {all})", self.title, self.top + 1);
        if let Some((text, typing)) = &self.search {
            let mark = if *typing == Typing::GoesOn { "_" } else { "" };
            title.push_str(&format!("  /{text}{mark}"));
        }
        let title = shortened(&title, usize::from(area.width));
        let buffer = frame.buffer_mut();
        buffer.set_string(area.x, area.y, &title, look.style(Tone::Accent));
        let needle = self.search.as_ref().map(|(it, _)| it.to_lowercase());
        for (y, line) in (area.y + 1..area.bottom()).zip(self.lines().iter().skip(self.top)) {
            buffer.set_line(area.x, y, line, area.width);
            let text = line.to_string();
            let is_found = |it: &String| !it.is_empty() && text.to_lowercase().contains(it);
            if needle.as_ref().is_some_and(is_found) {
                let row = Rect { y, height: 1, ..area };
                buffer.set_style(row, look.style(Tone::Chosen));
            }
        }
    }

    fn key(&mut self, key: KeyEvent) -> Reaction {
        if let Some((_, Typing::GoesOn)) = self.search {
            self.search_key(key);
            return Reaction::Stay;
        }
        let page = self.height.saturating_sub(1).max(1);
        match (key.code, key.modifiers) {
            (KeyCode::Esc | KeyCode::Char('q'), KeyModifiers::NONE)
            | (KeyCode::Char('c'), KeyModifiers::CONTROL) => return Reaction::Close,
            (KeyCode::Up | KeyCode::Char('k'), _) => self.go(self.top.saturating_sub(1)),
            (KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter, _) => self.go(self.top + 1),
            (KeyCode::PageUp | KeyCode::Char('b'), _) => self.go(self.top.saturating_sub(page)),
            (KeyCode::PageDown | KeyCode::Char(' ' | 'f'), _) => self.go(self.top + page),
            (KeyCode::Home | KeyCode::Char('g'), _) => self.go(0),
            (KeyCode::End | KeyCode::Char('G'), _) => self.go(usize::MAX),
            (KeyCode::Char('/'), _) => self.search = Some((String::new(), Typing::GoesOn)),
            (KeyCode::Char('n'), _) => {
                if let Some(at) = self.find(self.top + 1, Step::Forward) {
                    self.go(at);
                }
            }
            (KeyCode::Char('N'), _) => {
                let from = self.top.checked_sub(1).unwrap_or(self.lines().len().saturating_sub(1));
                if let Some(at) = self.find(from, Step::Back) {
                    self.go(at);
                }
            }
            (_, _) => {}
        }
        Reaction::Stay
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        match self.search {
            Some((_, Typing::GoesOn)) => vec![("Enter", "search"), ("Esc", "back")],
            Some((_, Typing::Done)) => vec![("n N", "next, last"), ("Esc", "close")],
            None => vec![("↑↓ PgUp PgDn", "scroll"), ("/", "search"), ("Esc", "close")],
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::screen::look::{Palette, Signs};

    const LOOK: Look = Look { palette: Palette::Plain, signs: Signs::Drawn };

    fn shown(page: &mut PageView) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(30, 4)).expect("it needs no terminal");
        terminal.draw(|frame| page.draw(frame, frame.area(), &LOOK)).expect("it needs no terminal");
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..30).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..4).map(|y| row(y).trim_end().to_owned()).collect()
    }

    fn typed(page: &mut PageView, keys: &str) {
        for c in keys.chars() {
            let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
            page.key(KeyEvent::new(code, KeyModifiers::NONE));
        }
    }

    #[test]
    fn it_scrolls_between_its_ends() {
        let text: String = (1..=9).map(|it| format!("line {it}\n")).collect();
        let mut page = PageView::new("log", &text, Begin::Bottom);
        assert_eq!(shown(&mut page), ["log  (7-9 of 9)", "line 7", "line 8", "line 9"]);
        typed(&mut page, "kj g");
        assert_eq!(shown(&mut page)[1], "line 1");
        typed(&mut page, " ");
        assert_eq!(shown(&mut page)[1], "line 3");
    }

    #[test]
    fn a_search_goes_on_around_the_end() {
        let text: String = (1..=9).map(|it| format!("line {it}\n")).collect();
        let mut page = PageView::new("log", &text, Begin::Top);
        shown(&mut page);
        typed(&mut page, "/5\n");
        assert_eq!(shown(&mut page)[1], "line 5");
        typed(&mut page, "n");
        assert_eq!(shown(&mut page)[1], "line 5");
    }
}
