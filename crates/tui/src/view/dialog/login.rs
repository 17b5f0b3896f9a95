//! The dialog of a login: the URL, a field to paste the redirect into, or a device code. The queue closes it when the
//! browser comes back.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use tokio::sync::oneshot;
use url::Url;

use crate::text::rich_text::{RichText, draw_lines};
use crate::theme::{ScreenTheme, Tone};
use crate::view::overlay::{Dialog, Overlay, OverlayOutcome, Urgency};
use crate::view::widget::frame::{FRAME_SIZE, draw_frame, is_cancel_key, split_rows};
use crate::view::widget::input::InputFocus;
use crate::view::widget::scroll_area::ScrollArea;
use crate::view::widget::text_field::TextField;

/// The content of a login dialog.
#[derive(Debug, Clone)]
pub struct LoginPage {
    /// The server, as it is displayed.
    pub server: String,
    /// The page to sign in at.
    pub url: Url,
    /// How the user gets there.
    pub method: LoginGrant,
    /// Why the last pasted text was rejected.
    pub rejection: Option<String>,
}

/// How the user gets to the login page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginGrant {
    /// A browser was opened.
    BrowserOpened,
    /// No browser could be opened, for this reason.
    BrowserFailed(String),
    /// The user opens the URL.
    UrlShown,
    /// With a device code.
    DeviceCode {
        /// The code.
        code: String,
        /// The URL that contains the code, if the server sent one.
        complete: Option<Url>,
        /// How long the code is valid.
        expires_in: Duration,
    },
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginInput {
    /// The pasted text.
    Text(String),
    /// Open a browser.
    OpenBrowser,
    /// The user cancelled.
    Cancelled,
}

/// A login dialog.
#[derive(Debug)]
pub struct LoginDialog {
    page: LoginPage,
    head: RichText,
    body: ScrollArea,
    field: TextField,
    reply: Option<oneshot::Sender<LoginInput>>,
}

/// The prompt in front of the text field.
const PROMPT: &str = "> ";

impl LoginPage {
    fn head(&self) -> RichText {
        let mut content = RichText::default();
        let host = self.url.host_str().unwrap_or_default();
        let begin = match &self.method {
            LoginGrant::BrowserOpened => "In the browser that opens now, sign in at ",
            LoginGrant::BrowserFailed(_) | LoginGrant::UrlShown => {
                "Open in a browser and sign in at "
            }
            LoginGrant::DeviceCode { .. } => "On any device, open ",
        };
        content.push_line(2, vec![(Tone::Text, begin.to_owned()), (Tone::Strong, host.to_owned())]);
        if let LoginGrant::BrowserFailed(why) = &self.method {
            content.push_text(Tone::Warning, why);
        }
        if let LoginGrant::DeviceCode { code, .. } = &self.method {
            content.push_line(
                2,
                vec![(Tone::Text, "and type the code ".to_owned()), (Tone::Strong, code.clone())],
            );
        }
        if let Some(refusal) = &self.rejection {
            content.push_text(Tone::Error, &format!("Not accepted: {refusal}"));
        }
        content
    }

    fn body(&self) -> RichText {
        let mut content = RichText::default();
        content.push_text(Tone::Link, self.url.as_str());
        content.push_blank();
        match &self.method {
            LoginGrant::DeviceCode { complete, expires_in, .. } => {
                if let Some(complete) = complete {
                    content.push_text(Tone::Text, "Or use this link, which contains the code:");
                    content.push_text(Tone::Link, complete.as_str());
                }
                let minutes = expires_in.as_secs().div_ceil(60);
                let text = format!("Waiting; the code expires in {minutes} min.");
                content.push_text(Tone::Muted, &text);
            }
            LoginGrant::BrowserOpened | LoginGrant::BrowserFailed(_) | LoginGrant::UrlShown => content.push_text(
                Tone::Muted,
                "Waiting for the browser to come back. If it ends on a page that cannot be shown, as it does on \
                 another machine, paste that page's address here, or the code.",
            ),
        }
        content
    }

    fn takes_text(&self) -> bool {
        !matches!(self.method, LoginGrant::DeviceCode { .. })
    }
}

impl LoginDialog {
    /// A dialog whose answer goes to `reply`.
    pub fn new(page: LoginPage, reply: oneshot::Sender<LoginInput>) -> LoginDialog {
        let (head, body) = (page.head(), ScrollArea::new(page.body()));
        LoginDialog { page, head, body, field: TextField::default(), reply: Some(reply) }
    }

    fn answer(&mut self, pasted: LoginInput) -> OverlayOutcome {
        if let Some(reply) = self.reply.take() {
            let _caller_gone = reply.send(pasted);
        }
        OverlayOutcome::Close
    }
}

impl Overlay for LoginDialog {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let inner = draw_frame(frame, area, theme, &format!("Sign in to {}", self.page.server));
        let head = self.head.layout(inner.width, theme);
        let below = usize::from(self.page.takes_text());
        let [above, middle, bottom] = split_rows(inner, head.len(), below);
        draw_lines(frame.buffer_mut(), above, &head);
        self.body.draw(frame, middle, theme);
        if self.page.takes_text() && bottom.height > 0 {
            let prompt = Span::styled(PROMPT, theme.style(Tone::Accent));
            frame.buffer_mut().set_span(bottom.x, bottom.y, &prompt, bottom.width);
            let front = 2.min(bottom.width);
            let room = Rect { x: bottom.x + front, width: bottom.width - front, ..bottom };
            self.field.draw(frame, room, theme, InputFocus::Focused);
        }
    }

    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome {
        if is_cancel_key(key) {
            return self.answer(LoginInput::Cancelled);
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let text = self.field.text().trim();
        match (key.code, control) {
            (KeyCode::Char('o'), true) if self.page.takes_text() => {
                self.answer(LoginInput::OpenBrowser)
            }
            (KeyCode::Enter, _) if !text.is_empty() => {
                let pasted = LoginInput::Text(text.to_owned());
                self.answer(pasted)
            }
            (KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown, _) => {
                self.body.on_key(key);
                OverlayOutcome::Stay
            }
            (_, _) => {
                if self.page.takes_text() {
                    self.field.on_key(key);
                }
                OverlayOutcome::Stay
            }
        }
    }

    fn on_paste(&mut self, text: &str) -> OverlayOutcome {
        if self.page.takes_text() {
            self.field.insert(text);
        }
        OverlayOutcome::Stay
    }

    fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        match self.page.takes_text() {
            true => vec![("Enter", "submit"), ("Ctrl-O", "open a browser"), ("Esc", "give up")],
            false => vec![("Esc", "give up")],
        }
    }
}

impl Dialog for LoginDialog {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|it| !it.is_closed())
    }

    fn urgency(&self) -> Urgency {
        Urgency::Waiting
    }

    fn preferred_height(&mut self, width: u16, theme: &ScreenTheme) -> u16 {
        let inside = width.saturating_sub(FRAME_SIZE.0);
        let rows = self.head.layout(inside, theme).len() + self.body.height(inside, theme) + 1;
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME_SIZE.1)
    }
}
