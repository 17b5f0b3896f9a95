//! A form that a server wants filled in: every field at once, what is wrong said below it, three answers at the end.
//! What is a valid answer is decided by `host::form`.

mod blank;

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use serde_json::Map;
use switchboard::form::Form;
use switchboard::inquiry::Reply;
use tokio::sync::oneshot;

use crate::screen::dialog::paper::{Paper, Scroll, draw_lines};
use crate::screen::dialog::text_box::{Focus, Taken};
use crate::screen::dialog::{Answers, Dialog, FRAME, framed, gives_up, more, shared_out};
use crate::screen::look::{Look, Signs, Tone};
use crate::screen::overlay::{Overlay, Reaction};

use blank::{Blank, Complaints};

/// The dialog.
#[derive(Debug)]
pub struct FormDialog {
    server: String,
    message: String,
    blanks: Vec<Blank>,
    /// The field that the keys go to; the answers, where it is none of them.
    at: usize,
    answers: Answers,
    complaints: Complaints,
    scroll: Scroll,
    /// Is the field that the keys go to to be seen? Not while somebody reads elsewhere.
    follows: bool,
    reply: Option<oneshot::Sender<Reply>>,
}

/// Everything that scrolls, laid out.
#[derive(Default)]
struct Laid {
    lines: Vec<Line<'static>>,
    /// Where each field is.
    fields: Vec<std::ops::Range<usize>>,
    /// Where something is typed: the line, and whose it is.
    typed: Vec<(usize, usize)>,
}

/// How far what is typed is moved in.
const INDENT: u16 = 4;

impl FormDialog {
    /// Asks for a form to be filled in.
    pub fn new(server: &str, form: Form, reply: oneshot::Sender<Reply>) -> FormDialog {
        FormDialog {
            server: server.to_owned(),
            message: form.message,
            blanks: form.fields.into_iter().map(Blank::new).collect(),
            at: 0,
            answers: Answers::new(&["Accept", "Decline", "Cancel"], 0),
            complaints: Complaints::Touched,
            scroll: Scroll::default(),
            follows: true,
            reply: Some(reply),
        }
    }

    fn focus(&self, at: usize) -> Focus {
        if self.at == at { Focus::Here } else { Focus::Elsewhere }
    }

    fn go(&mut self, at: usize) -> Reaction {
        self.at = at.min(self.blanks.len());
        self.follows = true;
        Reaction::Stay
    }

    fn answer(&mut self, reply: Reply) -> Reaction {
        if let Some(sender) = self.reply.take() {
            let _nobody_waits = sender.send(reply);
        }
        Reaction::Close
    }

    fn cancel(&mut self) -> Reaction {
        self.answer(Reply::Cancel("the person did not decide".to_owned()))
    }

    fn confirmed(&mut self) -> Reaction {
        match self.answers.at {
            0 => self.accept(),
            1 => self.answer(Reply::Decline("the person said no".to_owned())),
            _ => self.cancel(),
        }
    }

    fn accept(&mut self) -> Reaction {
        if let Some(at) = self.blanks.iter().position(|it| it.value().is_err()) {
            self.complaints = Complaints::All;
            return self.go(at);
        }
        let mut answers = Map::new();
        for blank in &self.blanks {
            if let Ok(Some(value)) = blank.value() {
                answers.insert(blank.name().to_owned(), value);
            }
        }
        self.answer(Reply::Accept(answers))
    }

    fn lay(&self, width: u16, look: &Look) -> Laid {
        let mut laid = Laid::default();
        let mut message = Paper::default();
        if !self.message.is_empty() {
            message.text(Tone::Text, &self.message);
            message.gap();
        }
        laid.lines = message.lay(width, look);
        for (at, blank) in self.blanks.iter().enumerate() {
            let start = laid.lines.len();
            let focus = self.focus(at);
            laid.lines.extend(blank.introduction(focus, look).lay(width, look));
            match blank.typed() {
                Some(_) => {
                    laid.typed.push((laid.lines.len(), at));
                    let front = match look.signs {
                        Signs::Drawn => "  › ",
                        Signs::Ascii => "  : ",
                    };
                    laid.lines.push(Line::from(Span::styled(front, look.style(Tone::Faint))));
                }
                None => laid.lines.extend(blank.choices(focus, look).lay(width, look)),
            }
            if let Some(complaint) = blank.complaint(self.complaints) {
                let mut paper = Paper::default();
                paper.hung(2, Tone::Bad, &complaint);
                laid.lines.extend(paper.lay(width, look));
            }
            laid.fields.push(start..laid.lines.len());
        }
        laid
    }

    fn draw_fields(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        let laid = self.lay(area.width, look);
        let is_more = laid.lines.len() > usize::from(area.height) && area.height > 1;
        let height = if is_more { area.height - 1 } else { area.height };
        if self.follows
            && let Some(lines) = laid.fields.get(self.at)
        {
            self.scroll.show(lines.clone(), height);
        }
        let seen = self.scroll.fit(laid.lines.len(), height);
        let room = Rect { height, ..area };
        draw_lines(frame.buffer_mut(), room, &laid.lines[seen.clone()]);
        for (line, at) in laid.typed.into_iter().filter(|(line, _)| seen.contains(line)) {
            let row = u16::try_from(line - seen.start).unwrap_or(u16::MAX);
            let area = Rect {
                x: area.x + INDENT.min(area.width),
                y: area.y + row,
                width: area.width.saturating_sub(INDENT),
                height: 1,
            };
            if let Some(typed) = self.blanks[at].typed() {
                typed.draw(frame, area, look, self.focus(at));
            }
        }
        if is_more {
            let text = Span::styled(more(self.scroll.hidden(), look), look.style(Tone::Doubtful));
            frame.buffer_mut().set_span(area.x, area.y + height, &text, area.width);
        }
    }
}

impl Overlay for FormDialog {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        let inner = framed(frame, area, look, &format!("{} asks", self.server));
        let answers = self.answers.lay(inner.width, look, self.focus(self.blanks.len()));
        let [_, middle, bottom] = shared_out(inner, 0, answers.len());
        self.draw_fields(frame, middle, look);
        draw_lines(frame.buffer_mut(), bottom, &answers);
    }

    fn key(&mut self, key: KeyEvent) -> Reaction {
        if gives_up(key) {
            return self.cancel();
        }
        let is_answers = self.at >= self.blanks.len();
        let page = self.scroll.page();
        match (key.code, is_answers) {
            (KeyCode::Down, _) | (KeyCode::Tab | KeyCode::Enter, false) => self.go(self.at + 1),
            (KeyCode::Up | KeyCode::BackTab, _) => self.go(self.at.saturating_sub(1)),
            (KeyCode::Tab, true) => self.go(0),
            (KeyCode::Enter, true) => self.confirmed(),
            (KeyCode::PageDown, _) => {
                self.follows = false;
                self.scroll.by(page);
                Reaction::Stay
            }
            (KeyCode::PageUp, _) => {
                self.follows = false;
                self.scroll.by(-page);
                Reaction::Stay
            }
            (_, _) => {
                let taken = match self.blanks.get_mut(self.at) {
                    Some(blank) => blank.key(key),
                    None => self.answers.key(key),
                };
                self.follows = self.follows || taken == Taken::Yes;
                Reaction::Stay
            }
        }
    }

    fn paste(&mut self, text: &str) -> Reaction {
        if let Some(blank) = self.blanks.get_mut(self.at) {
            blank.paste(text);
            self.follows = true;
        }
        Reaction::Stay
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        match self.at < self.blanks.len() {
            true => vec![("Tab", "next"), ("←→ Space", "choose"), ("Esc", "cancel")],
            false => vec![("←→", "choose"), ("Enter", "answer"), ("Esc", "cancel")],
        }
    }
}

impl Dialog for FormDialog {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn height(&mut self, width: u16, look: &Look) -> u16 {
        let inside = width.saturating_sub(FRAME.0);
        let rows = self.lay(inside, look).lines.len()
            // Room for what is wrong, so that nothing jumps.
            + self.blanks.len()
            + self.answers.lay(inside, look, Focus::Here).len();
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME.1)
    }
}

#[cfg(test)]
mod tests;
