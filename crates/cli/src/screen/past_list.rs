//! Which conversation to go on with: a list of those of the project, before anything else begins.

use std::io;
use std::time::{Duration, SystemTime};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use switchboard_chat::chronicle::Past;

use crate::describe::counted;
use crate::screen::clean_text::clean_line;
use crate::screen::look::{Look, Tone};
use crate::screen::raw_terminal::RawTerminal;
use crate::screen::wrapping::shortened;

/// The list.
#[derive(Debug)]
pub struct PastList {
    all: Vec<Past>,
    chosen: usize,
    now: SystemTime,
}

/// What became of a key.
#[derive(Debug, PartialEq, Eq)]
enum Chosen {
    NotYet,
    Nothing,
    One(String),
}

impl PastList {
    /// A list of conversations, the latest first.
    pub fn new(all: Vec<Past>, now: SystemTime) -> PastList {
        PastList { all, chosen: 0, now }
    }

    /// Lets somebody choose; nothing where nobody wants any of them. Blocks until then.
    pub fn choose(mut self, terminal: &mut RawTerminal, look: &Look) -> io::Result<Option<String>> {
        loop {
            terminal.draw(|frame| self.draw(frame, frame.area(), look))?;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match self.key(key) {
                    Chosen::NotYet => {}
                    Chosen::Nothing => return Ok(None),
                    Chosen::One(id) => return Ok(Some(id)),
                },
                Event::Key(_)
                | Event::Resize(_, _)
                | Event::FocusGained
                | Event::FocusLost
                | Event::Mouse(_)
                | Event::Paste(_) => {}
            }
        }
    }

    fn key(&mut self, key: KeyEvent) -> Chosen {
        match (key.code, key.modifiers) {
            (KeyCode::Esc | KeyCode::Char('q'), KeyModifiers::NONE)
            | (KeyCode::Char('c' | 'd'), KeyModifiers::CONTROL) => return Chosen::Nothing,
            (KeyCode::Up | KeyCode::Char('k'), _) => self.chosen = self.chosen.saturating_sub(1),
            (KeyCode::Down | KeyCode::Char('j'), _) => {
                self.chosen = (self.chosen + 1).min(self.all.len().saturating_sub(1));
            }
            (KeyCode::Enter, _) => {
                let chosen = self.all.get(self.chosen).map(|it| it.id.clone());
                return chosen.map_or(Chosen::Nothing, Chosen::One);
            }
            (_, _) => {}
        }
        Chosen::NotYet
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        let buffer = frame.buffer_mut();
        let title = "Which conversation?  (arrows and Enter; Esc leaves)";
        buffer.set_stringn(
            area.x,
            area.y,
            title,
            usize::from(area.width),
            look.style(Tone::Accent),
        );
        let rows = usize::from(area.height.saturating_sub(2));
        let first = (self.chosen + 1).saturating_sub(rows);
        for ((y, past), at) in (area.y + 2..area.bottom()).zip(&self.all[first..]).zip(first..) {
            let tone = if at == self.chosen { Tone::Chosen } else { Tone::Text };
            let when = format!(" {:>9} ", ago(past, self.now));
            let room = usize::from(area.width).saturating_sub(when.len() + 1);
            let line = Line::from(vec![
                Span::styled(when, look.style(Tone::Faint)),
                Span::styled(shortened(&clean_line(&past.first_words), room), look.style(tone)),
            ]);
            buffer.set_line(area.x, y, &line, area.width);
        }
    }
}

/// How long ago somebody last spoke in it.
fn ago(past: &Past, now: SystemTime) -> String {
    let since = now.duration_since(past.when).unwrap_or(Duration::ZERO).as_secs();
    let (count, one, many) = match since {
        0..60 => return "just now".to_owned(),
        60..3600 => (since / 60, "minute", "minutes"),
        3600..86_400 => (since / 3600, "hour", "hours"),
        86_400.. => (since / 86_400, "day", "days"),
    };
    counted(usize::try_from(count).unwrap_or(usize::MAX), one, many)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::dialog::stage::{LOOK, seen};

    fn list() -> PastList {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let past = |id: &str, seconds: u64, words: &str| Past {
            id: id.to_owned(),
            when: now - Duration::from_secs(seconds),
            first_words: words.to_owned(),
            utterances: 2,
        };
        let all = vec![
            past("a", 5, "the latest"),
            past("b", 7300, "an older\none"),
            past("c", 400_000, "\u{1b}[2Jthe oldest"),
        ];
        PastList::new(all, now)
    }

    #[test]
    fn the_latest_is_first_and_texts_do_nothing() {
        let list = list();
        insta::assert_snapshot!(seen((50, 6), |frame| list.draw(frame, frame.area(), &LOOK)), @r"
        Which conversation?  (arrows and Enter; Esc leaves

          just now the latest
           2 hours an older one
            4 days the oldest
        ");
    }

    #[test]
    fn one_is_chosen_or_none() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let mut list = list();
        for _ in 0..5 {
            assert_eq!(list.key(key(KeyCode::Down)), Chosen::NotYet);
        }
        assert_eq!(list.key(key(KeyCode::Up)), Chosen::NotYet);
        assert_eq!(list.key(key(KeyCode::Enter)), Chosen::One("b".to_owned()));
        assert_eq!(list.key(key(KeyCode::Esc)), Chosen::Nothing);
    }
}
