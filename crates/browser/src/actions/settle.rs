//! Waits after an action until the page has taken it in: by its events, never for a fixed time.

use std::time::Duration;

use serde_json::json;

use crate::actions::page::Page;
use crate::error::Result;
use crate::page::tab::DocumentState;

/// How long a navigation may take that an action has begun.
const NAVIGATION_LIMIT: Duration = Duration::from_secs(10);
/// How long the rest of a new document is waited for.
const LOAD_LIMIT: Duration = Duration::from_millis(600);
/// How long requests are waited for that an action has begun.
const REQUEST_LIMIT: Duration = Duration::from_millis(700);
/// How long the page may take to draw.
const DRAW_LIMIT: Duration = Duration::from_millis(400);
/// How long a window may take to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// What the page was like before an action.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) loader: String,
    pub(crate) url: String,
    pub(crate) request: u64,
    pub(crate) refusal: u64,
    pub(crate) downloads: usize,
    pub(crate) had_chooser: bool,
}

impl Page {
    /// What the page is like now.
    pub(crate) fn mark(&self) -> Result<Mark> {
        let refusal = self.context.guard.newest_refusal();
        let mut state = self.context.lock();
        let downloads = state.downloads.list.len();
        let list = state.tab_list();
        let tab = state.tabs.get_mut(&self.tab);
        let tab = tab.ok_or(crate::error::BrowserError::NoTab(self.tab, list))?;
        Ok(Mark {
            loader: tab.loader.clone(),
            url: tab.url.clone(),
            request: tab.requests.list.newest(),
            refusal,
            downloads,
            had_chooser: tab.chooser.is_some(),
        })
    }

    /// Waits until what an action has begun is done, within bounds. A tab that the action closed is settled.
    pub(crate) async fn settle(&self, mark: &Mark) {
        if self.is_held() {
            return;
        }
        let is_away = |it: &crate::page::tab::Tab| it.is_navigating || it.loader != mark.loader;
        if !self.with(|it| is_away(it)).unwrap_or(false) {
            self.draw().await;
        }
        if self.with(|it| is_away(it)).unwrap_or(false) {
            self.wait_for_document().await;
            return;
        }
        let tab = self.tab;
        let done = |state: &mut crate::browser::context::ContextState| {
            let Some(tab) = state.tabs.get(&tab) else { return Some(false) };
            let is_open = tab.dialogs.open.is_some();
            let is_done = tab.requests.under_way_since(mark.request) == 0;
            (is_open || is_done || tab.is_navigating).then_some(tab.is_navigating)
        };
        if self.with(|it| it.url != mark.url).unwrap_or(false) {
            self.refresh_title(DRAW_LIMIT).await;
        }
        let began = self.with(|it| it.requests.under_way_since(mark.request) > 0);
        if !began.unwrap_or(false) {
            return;
        }
        match self.context.wait(REQUEST_LIMIT, done).await {
            Some(true) => self.wait_for_document().await,
            Some(false) => self.draw().await,
            None => {}
        }
    }

    /// Waits until a navigation has its new document, and a little for the rest of it.
    async fn wait_for_document(&self) {
        let tab = self.tab;
        let reached = |state: &mut crate::browser::context::ContextState, wanted: DocumentState| {
            let Some(tab) = state.tabs.get(&tab) else { return Some(()) };
            let is_held = tab.dialogs.open.is_some();
            (is_held || (!tab.is_navigating && tab.document >= wanted)).then_some(())
        };
        let ready = self.context.wait(NAVIGATION_LIMIT, |it| reached(it, DocumentState::Ready));
        if ready.await.is_some() {
            self.context.wait(LOAD_LIMIT, |it| reached(it, DocumentState::Loaded)).await;
        }
        if !self.is_held() {
            self.refresh_title(DRAW_LIMIT).await;
        }
    }

    /// Asks the page for its title, which the browser tells only later; returns whether the page answered.
    pub(crate) async fn refresh_title(&self, limit: Duration) -> bool {
        #[derive(serde::Deserialize)]
        struct PageTitle {
            title: String,
        }
        let answer = self.run_within(&self.target, "pageInfo", &json!([]), limit).await;
        let Ok(PageTitle { title }) = answer else { return false };
        self.with(|it| it.title = crate::shown_text::cut(&title, 300)).is_ok()
    }

    /// Waits until the page has drawn once more.
    async fn draw(&self) {
        #[derive(serde::Deserialize)]
        struct DrawState {
            closing: bool,
        }
        let drawn = self.run_within(&self.target, "settled", &json!([]), DRAW_LIMIT).await;
        // A page that closes or leaves answers no more before it is told here.
        let is_leaving = match drawn {
            Ok(DrawState { closing }) => closing,
            Err(_) => !self.is_held(),
        };
        if is_leaving {
            let tab = self.tab;
            let gone = |state: &mut crate::browser::context::ContextState| {
                let tab = state.tabs.get(&tab);
                tab.is_none_or(|it| it.is_navigating || it.dialogs.open.is_some()).then_some(())
            };
            self.context.wait(CLOSE_LIMIT, gone).await;
        }
    }

    /// Whether a dialog holds the page, or the tab is gone.
    fn is_held(&self) -> bool {
        self.with(|it| it.dialogs.open.is_some()).unwrap_or(true)
    }
}
