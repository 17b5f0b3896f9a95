//! A text and a few answers, for questions that need no more. What the answers mean is left to who asks.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use tokio::sync::oneshot;

use crate::screen::dialog::paper::{Paper, draw_lines};
use crate::screen::dialog::text_box::{Focus, Taken};
use crate::screen::dialog::{Answers, Body, Dialog, FRAME, Urgency, framed, gives_up, shared_out};
use crate::screen::look::Look;
use crate::screen::overlay::{Overlay, Reaction};

/// What is asked.
#[derive(Debug)]
pub struct Choice<T> {
    /// The line above.
    pub title: String,
    /// What stays on the screen.
    pub head: Paper,
    /// What scrolls.
    pub body: Paper,
    /// The answers: what is shown, a letter that gives it at once where there is one, and what it means.
    pub answers: Vec<(&'static str, Option<char>, T)>,
    /// Which one is chosen to begin with.
    pub at: usize,
    /// What Esc means.
    pub escape: T,
    /// Does it ask, or only wait?
    pub urgency: Urgency,
    /// The keys, for the line at the bottom.
    pub keys: Vec<(&'static str, &'static str)>,
}

/// The dialog.
#[derive(Debug)]
pub struct ChoiceDialog<T> {
    title: String,
    head: Paper,
    body: Body,
    answers: Answers,
    meanings: Vec<(Option<char>, T)>,
    escape: T,
    urgency: Urgency,
    keys: Vec<(&'static str, &'static str)>,
    reply: Option<oneshot::Sender<T>>,
}

impl<T: Clone + Send> ChoiceDialog<T> {
    /// Asks.
    pub fn new(choice: Choice<T>, reply: oneshot::Sender<T>) -> ChoiceDialog<T> {
        let labels: Vec<&str> = choice.answers.iter().map(|it| it.0).collect();
        ChoiceDialog {
            title: choice.title,
            head: choice.head,
            body: Body::new(choice.body),
            answers: Answers::new(&labels, choice.at),
            meanings: choice.answers.into_iter().map(|(_, letter, it)| (letter, it)).collect(),
            escape: choice.escape,
            urgency: choice.urgency,
            keys: choice.keys,
            reply: Some(reply),
        }
    }

    fn answer(&mut self, meaning: T) -> Reaction {
        if let Some(reply) = self.reply.take() {
            let _nobody_waits = reply.send(meaning);
        }
        Reaction::Close
    }
}

impl<T: Clone + Send> Overlay for ChoiceDialog<T> {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        let inner = framed(frame, area, look, &self.title);
        let head = self.head.lay(inner.width, look);
        let answers = self.answers.lay(inner.width, look, Focus::Here);
        let [above, middle, bottom] = shared_out(inner, head.len(), answers.len());
        draw_lines(frame.buffer_mut(), above, &head);
        self.body.draw(frame, middle, look);
        draw_lines(frame.buffer_mut(), bottom, &answers);
    }

    fn key(&mut self, key: KeyEvent) -> Reaction {
        if gives_up(key) {
            return self.answer(self.escape.clone());
        }
        let at_once = self.meanings.iter().find(|(letter, _)| {
            letter.is_some_and(|it| key.code == KeyCode::Char(it)) && key.modifiers.is_empty()
        });
        if let Some((_, meaning)) = at_once {
            return self.answer(meaning.clone());
        }
        if key.code == KeyCode::Enter {
            let meaning = self.meanings.get(self.answers.at).map(|it| it.1.clone());
            return self.answer(meaning.unwrap_or_else(|| self.escape.clone()));
        }
        if self.answers.key(key) == Taken::No {
            self.body.key(key);
        }
        Reaction::Stay
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        self.keys.clone()
    }
}

impl<T: Clone + Send> Dialog for ChoiceDialog<T> {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn urgency(&self) -> Urgency {
        self.urgency
    }

    fn height(&mut self, width: u16, look: &Look) -> u16 {
        let inside = width.saturating_sub(FRAME.0);
        let rows = self.head.lay(inside, look).len()
            + self.body.height(inside, look)
            + self.answers.lay(inside, look, Focus::Here).len();
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME.1)
    }
}
