//! Takes somebody to the authorization server and back: shows where to go, waits at the listener and for what is
//! pasted, whichever comes first, and says in the browser what came of it.

use std::pin::Pin;
use std::sync::{Mutex as Plain, MutexGuard, PoisonError};

use tokio::sync::Mutex;
use url::Url;

use crate::callback::{Arrived, CallbackError};
use crate::flow::Instructions;
use crate::listener::{self, ListenError, Listener, Named, Page, Port, Visit};
use crate::runner::{NobodyThere, Person, Returned, Returning};

/// What somebody pasted, if they can paste; `None` where they gave up. Dropped when the browser was faster.
pub type Pasting<'a> = Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;

/// Shows somebody where to go.
pub trait Guide: Send + Sync {
    /// Shows a page. The URL is opened as it is, by no shell.
    fn visit<'a>(&'a self, url: &'a Url) -> Pasting<'a>;

    /// Says that what came back is not taken.
    fn not_taken(&self, why: &str) {
        let _nobody_reads_it = why;
    }

    /// Shows a code that is to be typed on another device.
    fn show(&self, instructions: &Instructions) -> Result<(), NobodyThere>;
}

/// Somebody on their way.
pub struct Escort<'g> {
    guide: &'g dyn Guide,
    /// Opened when somebody is sent away, where the port is known beforehand: another login may have it until then.
    listener: Mutex<Option<Listener>>,
    port: Port,
    redirect: Url,
    state: Plain<State>,
}

#[derive(Default)]
struct State {
    /// Where they were sent.
    url: Option<Url>,
    /// The browser that waits for a page.
    visit: Option<Visit>,
    /// Why nobody can come back.
    obstacle: Option<ListenError>,
}

impl<'g> Escort<'g> {
    /// Waits at a port of this machine.
    pub async fn at(
        port: Port,
        named: Named,
        guide: &'g dyn Guide,
    ) -> Result<Escort<'g>, ListenError> {
        let (listener, redirect) = match port {
            Port::Fixed(number) => (None, listener::redirect(number, named)),
            Port::Any => {
                let listener = Listener::bind(port).await?;
                let redirect = listener.redirect(named);
                (Some(listener), redirect)
            }
        };
        let (listener, state) = (Mutex::new(listener), Plain::default());
        Ok(Escort { guide, listener, port, redirect, state })
    }

    /// Where a browser is to come back to.
    pub fn redirect(&self) -> &Url {
        &self.redirect
    }

    /// Says in the browser what came of it, and closes.
    pub async fn farewell(self, page: Page) {
        if let Some(visit) = self.take_visit() {
            visit.answer(page);
        }
        if let Some(listener) = self.listener.into_inner() {
            listener.close().await;
        }
    }

    /// What kept everybody from coming back, if anything did.
    pub fn take_obstacle(&self) -> Option<ListenError> {
        self.state().obstacle.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_visit(&self) -> Option<Visit> {
        self.state().visit.take()
    }

    async fn back(&self, url: &Url) -> Result<Returned, NobodyThere> {
        let mut listener = self.listener.lock().await;
        if listener.is_none() {
            match Listener::bind(self.port).await {
                Ok(bound) => *listener = Some(bound),
                Err(error) => self.state().obstacle = Some(error),
            }
        }
        let listener = listener.as_mut().ok_or(NobodyThere)?;
        tokio::select! {
            visit = listener.visit() => {
                let visit = visit.ok_or(NobodyThere)?;
                let text = visit.query().to_owned();
                self.state().visit = Some(visit);
                Ok(Returned { text, arrived: Arrived::AtListener })
            }
            pasted = self.guide.visit(url) => {
                let text = pasted.ok_or(NobodyThere)?;
                Ok(Returned { text, arrived: Arrived::Pasted })
            }
        }
    }
}

impl Person for Escort<'_> {
    fn open<'a>(&'a self, url: &'a Url) -> Returning<'a> {
        self.state().url = Some(url.clone());
        Box::pin(self.back(url))
    }

    fn not_taken<'a>(&'a self, error: CallbackError) -> Returning<'a> {
        let why = error.to_string();
        match self.take_visit() {
            Some(visit) => visit.answer(Page::NotTaken { why }),
            None => self.guide.not_taken(&why),
        }
        let url = self.state().url.clone();
        Box::pin(async move { self.back(&url.ok_or(NobodyThere)?).await })
    }

    fn show(&self, instructions: &Instructions) -> Result<(), NobodyThere> {
        self.guide.show(instructions)
    }
}
