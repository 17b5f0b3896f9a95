//! Guides the user through a login on the screen: opens or shows the page, and returns what the user pastes. Checking the
//! response is left to `auth`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use switchboard::auth::browser::browser_flow::{LoginPrompt, PastedTextFuture};
use switchboard::auth::flow::DeviceAuthorization;
use switchboard::auth::flow::runner::UserUnavailable;
use switchboard::wire::shared::Shared;
use tokio::sync::{mpsc, oneshot};
use url::Url;

use crate::elicitor::{BrowserMode, ElicitorMessage, ScreenElicitor};
use crate::view::dialog::login::{LoginGrant, LoginInput, LoginPage};
use crate::view::dialog::request::DialogRequest;

/// A login prompt on the screen.
#[derive(Debug)]
pub struct ScreenLoginGuide {
    elicitor: ScreenElicitor,
    server: String,
    /// Has the browser been opened? It is opened once only.
    is_opened: AtomicBool,
    /// Why the last pasted text was rejected.
    /// Shared state: the login's task sets it, and the next dialog takes it.
    rejection: Shared<Option<String>>,
    cancellations: mpsc::Sender<oneshot::Receiver<LoginInput>>,
}

/// Reports that the user cancelled a device code. Dropping it closes the dialog.
#[derive(Debug)]
pub struct LoginCancellation {
    codes: mpsc::Receiver<oneshot::Receiver<LoginInput>>,
}

impl LoginCancellation {
    /// Returns when the user cancels the device code.
    pub async fn cancelled(&mut self) {
        while let Some(code) = self.codes.recv().await {
            if code.await.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }
}

impl ScreenLoginGuide {
    /// A guide for a login to `server`.
    pub fn new(elicitor: &ScreenElicitor, server: &str) -> (ScreenLoginGuide, LoginCancellation) {
        // One code per login, and one more where it is shown again.
        let (cancellations, codes) = mpsc::channel(2);
        let guide = ScreenLoginGuide {
            elicitor: elicitor.clone(),
            server: server.to_owned(),
            is_opened: AtomicBool::new(false),
            rejection: Shared::default(),
            cancellations,
        };
        (guide, LoginCancellation { codes })
    }

    fn open_browser(&self, url: &Url) -> LoginGrant {
        match (self.elicitor.context.open_url)(url) {
            Ok(()) => LoginGrant::BrowserOpened,
            Err(error) => {
                LoginGrant::BrowserFailed(format!("no browser could be started: {error}"))
            }
        }
    }

    async fn prompt_for_redirect(&self, url: &Url) -> Option<String> {
        let mut display = match (
            self.elicitor.context.browser_mode,
            self.is_opened.swap(true, Ordering::Relaxed),
        ) {
            (BrowserMode::Open, false) => self.open_browser(url),
            (BrowserMode::Open, true) => LoginGrant::BrowserOpened,
            (BrowserMode::ShowUrl, _) => LoginGrant::UrlShown,
        };
        loop {
            let rejection = self.rejection.update(Option::take);
            let page = LoginPage {
                server: self.server.clone(),
                url: url.clone(),
                method: display,
                rejection,
            };
            match self.elicitor.request(|reply| DialogRequest::Login(page, reply)).await {
                Some(LoginInput::Text(text)) => return Some(text),
                Some(LoginInput::OpenBrowser) => display = self.open_browser(url),
                Some(LoginInput::Cancelled) | None => return None,
            }
        }
    }
}

impl LoginPrompt for ScreenLoginGuide {
    fn open_url<'a>(&'a self, url: &'a Url) -> PastedTextFuture<'a> {
        Box::pin(self.prompt_for_redirect(url))
    }

    fn callback_rejected(&self, why: &str) {
        self.rejection.update(|rejection| *rejection = Some(why.to_owned()));
    }

    fn show_device_code(&self, instructions: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        let (reply, answer) = oneshot::channel();
        let display = LoginGrant::DeviceCode {
            code: instructions.user_code.clone(),
            complete: instructions.verification_uri_complete.clone(),
            expires_in: Duration::from_secs(instructions.expires_in),
        };
        let url = instructions.verification_uri.clone();
        let page = LoginPage { server: self.server.clone(), url, method: display, rejection: None };
        let question = ElicitorMessage::Request(Box::new(DialogRequest::Login(page, reply)));
        self.elicitor.messages.try_send(question).map_err(|_| UserUnavailable)?;
        self.cancellations.try_send(answer).map_err(|_| UserUnavailable)
    }
}
