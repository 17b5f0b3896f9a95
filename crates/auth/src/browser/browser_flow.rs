//! Takes somebody to the authorization server and back: shows where to go, waits at the listener and for what is
//! pasted, whichever comes first, and says in the browser what came of it.

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

/// What somebody pasted, if they can paste; `None` where they gave up. Dropped when the browser was faster.
pub type PastedTextFuture<'a> = Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;

/// Shows somebody where to go.
pub trait LoginPrompt: Send + Sync {
    /// Shows a page. The URL is opened as it is, by no shell.
    fn open_url<'a>(&'a self, url: &'a Url) -> PastedTextFuture<'a>;

    /// Says that what came back is not taken.
    fn callback_rejected(&self, why: &str) {
        let _nobody_reads_it = why;
    }

    /// Shows a code that is to be typed on another device.
    fn show_device_code(&self, authorization: &DeviceAuthorization) -> Result<(), UserUnavailable>;
}

/// Somebody on their way.
pub struct BrowserFlow<'g> {
    prompt: &'g dyn LoginPrompt,
    /// Opened when somebody is sent away, where the port is known beforehand: another login may have it until then.
    listener: Mutex<Option<LoopbackListener>>,
    port: CallbackPort,
    redirect_uri: Url,
    state: StdMutex<BrowserState>,
}

#[derive(Default)]
struct BrowserState {
    /// Where they were sent.
    url: Option<Url>,
    /// The browser that waits for a page.
    callback: Option<CallbackRequest>,
    /// Why nobody can come back.
    listen_error: Option<ListenError>,
}

impl<'g> BrowserFlow<'g> {
    /// Waits at a port of this machine.
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

    /// Where a browser is to come back to.
    pub fn redirect_uri(&self) -> &Url {
        &self.redirect_uri
    }

    /// Says in the browser what came of it, and closes.
    pub async fn finish(self, page: ResultPage) {
        if let Some(callback) = self.take_callback() {
            callback.respond(page);
        }
        if let Some(listener) = self.listener.into_inner() {
            listener.close().await;
        }
    }

    /// What kept everybody from coming back, if anything did.
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
