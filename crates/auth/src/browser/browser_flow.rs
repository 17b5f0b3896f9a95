//! The user's part of a browser login: shows the URL, waits for the redirect or for pasted text, whichever
//! comes first, and shows the result in the browser.

use std::pin::Pin;
use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};

use tokio::sync::Mutex;
use url::Url;

use crate::browser::loopback_listener;
use crate::browser::loopback_listener::{
    CallbackPort, CallbackRequest, ListenError, LoopbackHost, LoopbackListener, ResultPage,
};
use crate::flow::DeviceAuthorization;
use crate::flow::callback::{CallbackError, CallbackSource};
use crate::flow::runner::{CallbackFuture, CallbackInput, UserInteraction, UserUnavailable};

/// The text that the user pasted; `None` if the user gave up. Dropped when the redirect arrives first.
pub type PastedTextFuture<'a> = Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;

/// Shows the user where to log in.
pub trait LoginPrompt: Send + Sync {
    /// Shows the URL. Implementations open it unchanged and without a shell.
    fn open_url<'a>(&'a self, url: &'a Url) -> PastedTextFuture<'a>;

    /// Reports why the pasted text is refused.
    fn callback_rejected(&self, why: &str) {
        let _ignored = why;
    }

    /// Shows a code to enter on another device.
    fn show_device_code(&self, authorization: &DeviceAuthorization) -> Result<(), UserUnavailable>;
}

/// A browser login in progress.
pub struct BrowserFlow<'g> {
    prompt: &'g dyn LoginPrompt,
    /// Bound when the URL is shown, where the port is fixed: another login may use the port until then.
    listener: Mutex<Option<LoopbackListener>>,
    port: CallbackPort,
    redirect_uri: Url,
    state: StdMutex<BrowserState>,
}

#[derive(Default)]
struct BrowserState {
    /// The URL that was shown.
    url: Option<Url>,
    /// The browser request that waits for its page.
    callback: Option<CallbackRequest>,
    /// Why the listener could not be opened.
    listen_error: Option<ListenError>,
}

impl<'g> BrowserFlow<'g> {
    /// Prepares a login with a redirect to this port.
    pub async fn bind(
        port: CallbackPort,
        host: LoopbackHost,
        prompt: &'g dyn LoginPrompt,
    ) -> Result<BrowserFlow<'g>, ListenError> {
        let (listener, redirect_uri) = match port {
            CallbackPort::Fixed(number) => (None, loopback_listener::redirect_uri(number, host)),
            CallbackPort::Any => {
                let listener = LoopbackListener::bind(port).await?;
                let redirect_uri = listener.redirect_uri(host);
                (Some(listener), redirect_uri)
            }
        };
        let (listener, state) = (Mutex::new(listener), StdMutex::default());
        Ok(BrowserFlow { prompt, listener, port, redirect_uri, state })
    }

    /// The redirect URI.
    pub fn redirect_uri(&self) -> &Url {
        &self.redirect_uri
    }

    /// Shows the result in the browser and closes the listener.
    pub async fn finish(self, page: ResultPage) {
        if let Some(callback) = self.take_callback() {
            callback.respond(page);
        }
        if let Some(listener) = self.listener.into_inner() {
            listener.close().await;
        }
    }

    /// Takes the error of opening the listener, if there was one.
    pub fn take_listen_error(&self) -> Option<ListenError> {
        self.state().listen_error.take()
    }

    fn state(&self) -> MutexGuard<'_, BrowserState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_callback(&self) -> Option<CallbackRequest> {
        self.state().callback.take()
    }

    async fn wait_for_callback(&self, url: &Url) -> Result<CallbackInput, UserUnavailable> {
        let mut listener = self.listener.lock().await;
        if listener.is_none() {
            match LoopbackListener::bind(self.port).await {
                Ok(bound) => *listener = Some(bound),
                Err(error) => self.state().listen_error = Some(error),
            }
        }
        let listener = listener.as_mut().ok_or(UserUnavailable)?;
        tokio::select! {
            callback = listener.next_callback() => {
                let callback = callback.ok_or(UserUnavailable)?;
                let text = callback.query().to_owned();
                self.state().callback = Some(callback);
                Ok(CallbackInput { text, source: CallbackSource::Listener })
            }
            pasted = self.prompt.open_url(url) => {
                let text = pasted.ok_or(UserUnavailable)?;
                Ok(CallbackInput { text, source: CallbackSource::Pasted })
            }
        }
    }
}

impl UserInteraction for BrowserFlow<'_> {
    fn open_url<'a>(&'a self, url: &'a Url) -> CallbackFuture<'a> {
        self.state().url = Some(url.clone());
        Box::pin(self.wait_for_callback(url))
    }

    fn reject_callback<'a>(&'a self, error: CallbackError) -> CallbackFuture<'a> {
        let why = error.to_string();
        match self.take_callback() {
            Some(callback) => callback.respond(ResultPage::Rejected { why }),
            None => self.prompt.callback_rejected(&why),
        }
        let url = self.state().url.clone();
        Box::pin(async move { self.wait_for_callback(&url.ok_or(UserUnavailable)?).await })
    }

    fn show_device_code(&self, authorization: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        self.prompt.show_device_code(authorization)
    }
}
