//! A tab that a call works on.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::browser::context::BrowserContext;
use crate::browser::running::RunningBrowser;
use crate::cdp::connection::CdpError;
use crate::cdp::message::SessionId;
use crate::error::{BrowserError, Result};
use crate::page::dialog::Dialog;
use crate::page::tab::{Tab, TabHealth};

/// A tab that a call works on.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) browser: Arc<RunningBrowser>,
    pub(crate) context: Arc<BrowserContext>,
    pub(crate) tab: u32,
    pub(crate) session: SessionId,
    /// The main frame.
    pub(crate) target: String,
}

impl Page {
    pub(crate) fn new(
        browser: &Arc<RunningBrowser>,
        context: &Arc<BrowserContext>,
        tab: u32,
    ) -> Result<Page> {
        let (session, target) =
            context.with_tab(tab, |it| (it.session.clone(), it.target.clone()))?;
        Ok(Page { browser: browser.clone(), context: context.clone(), tab, session, target })
    }

    /// Reads or changes what is known about the tab.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Tab) -> T) -> Result<T> {
        self.context.with_tab(self.tab, f)
    }

    /// The open question, if there is one.
    pub(crate) fn dialog(&self) -> Option<Dialog> {
        self.with(|it| it.dialogs.open.clone()).ok().flatten()
    }

    /// Fails if the page cannot answer: it has crashed, or waits for an answer itself.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if self.with(|it| it.health)? == TabHealth::Crashed {
            return Err(BrowserError::Crashed(self.tab));
        }
        match self.dialog() {
            Some(dialog) => Err(self.dialog_error(&dialog)),
            None => Ok(()),
        }
    }

    pub(crate) fn dialog_error(&self, dialog: &Dialog) -> BrowserError {
        let message = crate::shown_text::quoted(&dialog.message, 200);
        BrowserError::DialogOpen { tab: self.tab, kind: dialog.kind.id(), message }
    }

    /// A command for the tab's own session.
    pub(crate) async fn call(
        &self,
        method: &'static str,
        params: impl Serialize,
    ) -> Result<Box<RawValue>> {
        Ok(self.browser.cdp.call(Some(&self.session), method, params).await?)
    }

    /// A command that the page itself answers; `None` if a dialog opens meanwhile, which holds the page.
    pub(crate) async fn call_page(
        &self,
        session: &SessionId,
        method: &'static str,
        params: impl Serialize,
        limit: Duration,
    ) -> Result<Option<Box<RawValue>>> {
        let tab = self.tab;
        let dialog = self.context.wait(limit + Duration::from_secs(1), |state| {
            state.tabs.get(&tab).is_none_or(|it| it.dialogs.open.is_some()).then_some(())
        });
        tokio::select! {
            biased;
            result = self.browser.cdp.call_within(Some(session), method, params, limit) => {
                match result {
                    Ok(result) => Ok(Some(result)),
                    Err(CdpError::Timeout { .. }) => Err(BrowserError::Busy(limit.as_secs_f32())),
                    Err(CdpError::SessionEnded) if self.with(|it| it.health).is_ok_and(|it| it == TabHealth::Crashed) => {
                        Err(BrowserError::Crashed(self.tab))
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Some(()) = dialog => Ok(None),
        }
    }
}
