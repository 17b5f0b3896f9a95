//! Somebody signs in: where the page is, a place to paste what the browser ended on, or the code to type elsewhere.
//! Leaves the screen by itself when the browser comes back.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use tokio::sync::oneshot;
use url::Url;

use crate::screen::dialog::paper::{Paper, draw_lines};
use crate::screen::dialog::text_box::{Focus, TextBox};
use crate::screen::dialog::{Body, Dialog, FRAME, Urgency, framed, gives_up, shared_out};
use crate::screen::look::{Look, Tone};
use crate::screen::overlay::{Overlay, Reaction};

/// A page to sign in at.
#[derive(Debug, Clone)]
pub struct LoginPage {
    /// Whom they sign in to.
    pub whom: String,
    /// Where.
    pub url: Url,
    /// How they get there.
    pub way: Way,
    /// Why what was pasted last was not taken.
    pub refusal: Option<String>,
}

/// How somebody gets to a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// A browser was started.
    Opened,
    /// No browser could be, and why.
    NotOpened(String),
    /// They open it wherever they have a browser.
    Shown,
    /// On another device, with a code.
    Code {
        /// The code.
        code: String,
        /// The address with the code in it, where there is such a one.
        complete: Option<Url>,
        /// How long the code is good.
        expires_in: Duration,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pasted {
    /// This was pasted.
    Text(String),
    /// The browser is to be started.
    OpenIt,
    /// Nobody wants to sign in.
    GaveUp,
}

/// The dialog.
#[derive(Debug)]
pub struct LoginDialog {
    page: LoginPage,
    head: Paper,
    body: Body,
    field: TextBox,
    reply: Option<oneshot::Sender<Pasted>>,
}

/// What stands before what is pasted.
const PROMPT: &str = "> ";

impl LoginPage {
    fn head(&self) -> Paper {
        let mut paper = Paper::default();
        let host = self.url.host_str().unwrap_or_default();
        let begin = match &self.way {
            Way::Opened => "In the browser that opens now, sign in at ",
            Way::NotOpened(_) | Way::Shown => "Open in a browser and sign in at ",
            Way::Code { .. } => "On any device, open ",
        };
        paper.row(2, vec![(Tone::Text, begin.to_owned()), (Tone::Strong, host.to_owned())]);
        if let Way::NotOpened(why) = &self.way {
            paper.text(Tone::Doubtful, why);
        }
        if let Way::Code { code, .. } = &self.way {
            paper.row(
                2,
                vec![(Tone::Text, "and type the code ".to_owned()), (Tone::Strong, code.clone())],
            );
        }
        if let Some(refusal) = &self.refusal {
            paper.text(Tone::Bad, &format!("That is not taken: {refusal}"));
        }
        paper
    }

    fn body(&self) -> Paper {
        let mut paper = Paper::default();
        paper.text(Tone::Link, self.url.as_str());
        paper.gap();
        match &self.way {
            Way::Code { complete, expires_in, .. } => {
                if let Some(complete) = complete {
                    paper.text(Tone::Text, "Or, with the code in it:");
                    paper.text(Tone::Link, complete.as_str());
                }
                let minutes = expires_in.as_secs().div_ceil(60);
                let text = format!("Waiting; the code is good for {minutes} min.");
                paper.text(Tone::Faint, &text);
            }
            Way::Opened | Way::NotOpened(_) | Way::Shown => paper.text(
                Tone::Faint,
                "Waiting for the browser to come back. If it ends on a page that cannot be shown, as it does on \
                 another machine, paste that page's address here, or the code.",
            ),
        }
        paper
    }

    fn takes_text(&self) -> bool {
        !matches!(self.way, Way::Code { .. })
    }
}

impl LoginDialog {
    /// Shows a page.
    pub fn new(page: LoginPage, reply: oneshot::Sender<Pasted>) -> LoginDialog {
        let (head, body) = (page.head(), Body::new(page.body()));
        LoginDialog { page, head, body, field: TextBox::default(), reply: Some(reply) }
    }

    fn answer(&mut self, pasted: Pasted) -> Reaction {
        if let Some(reply) = self.reply.take() {
            let _nobody_waits = reply.send(pasted);
        }
        Reaction::Close
    }
}

impl Overlay for LoginDialog {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        let inner = framed(frame, area, look, &format!("Sign in to {}", self.page.whom));
        let head = self.head.lay(inner.width, look);
        let below = usize::from(self.page.takes_text());
        let [above, middle, bottom] = shared_out(inner, head.len(), below);
        draw_lines(frame.buffer_mut(), above, &head);
        self.body.draw(frame, middle, look);
        if self.page.takes_text() && bottom.height > 0 {
            let prompt = Span::styled(PROMPT, look.style(Tone::Accent));
            frame.buffer_mut().set_span(bottom.x, bottom.y, &prompt, bottom.width);
            let front = 2.min(bottom.width);
            let room = Rect { x: bottom.x + front, width: bottom.width - front, ..bottom };
            self.field.draw(frame, room, look, Focus::Here);
        }
    }

    fn key(&mut self, key: KeyEvent) -> Reaction {
        if gives_up(key) {
            return self.answer(Pasted::GaveUp);
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let text = self.field.text().trim();
        match (key.code, control) {
            (KeyCode::Char('o'), true) if self.page.takes_text() => self.answer(Pasted::OpenIt),
            (KeyCode::Enter, _) if !text.is_empty() => {
                let pasted = Pasted::Text(text.to_owned());
                self.answer(pasted)
            }
            (KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown, _) => {
                self.body.key(key);
                Reaction::Stay
            }
            (_, _) => {
                if self.page.takes_text() {
                    self.field.key(key);
                }
                Reaction::Stay
            }
        }
    }

    fn paste(&mut self, text: &str) -> Reaction {
        if self.page.takes_text() {
            self.field.insert(text);
        }
        Reaction::Stay
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        match self.page.takes_text() {
            true => vec![("Enter", "hand it in"), ("Ctrl-O", "open a browser"), ("Esc", "give up")],
            false => vec![("Esc", "give up")],
        }
    }
}

impl Dialog for LoginDialog {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn urgency(&self) -> Urgency {
        Urgency::Waits
    }

    fn height(&mut self, width: u16, look: &Look) -> u16 {
        let inside = width.saturating_sub(FRAME.0);
        let rows = self.head.lay(inside, look).len() + self.body.height(inside, look) + 1;
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME.1)
    }
}
