//! The part of a browser that belongs to one session: its tabs and downloads, without the cookies and pages of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::error::{BrowserError, Result};
use crate::page::downloads::Downloads;
use crate::page::tab::Tab;
use crate::reach::guard::ReachGuard;

/// How many tabs a session may have.
pub(crate) const MAX_TABS: usize = 24;

/// Which requests are held until they are checked. Everything that leaves passes the proxy anyway, where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interception {
    /// None.
    Nothing,
    /// The documents of tabs, because not every origin is allowed.
    Documents,
    /// All of them, because the browser is not ours and uses no proxy of ours.
    Everything,
}

/// The part of a browser that belongs to one session.
#[derive(Debug)]
pub(crate) struct BrowserContext {
    /// The browser's id; `None` for its default context.
    pub(crate) id: Option<String>,
    pub(crate) guard: Arc<ReachGuard>,
    pub(crate) interception: Interception,
    /// Whether pages have a size that the browser's window does not give them.
    pub(crate) viewport: Option<(u32, u32)>,
    state: Mutex<ContextState>,
    changed: watch::Sender<u64>,
}

/// What changes in it.
#[derive(Debug, Default)]
pub(crate) struct ContextState {
    pub(crate) tabs: BTreeMap<u32, Tab>,
    pub(crate) selected: Option<u32>,
    pub(crate) downloads: Downloads,
    /// Tabs that pages wanted to open beyond the most.
    pub(crate) closed_popups: u64,
    /// Tabs that pages opened since the last answer.
    pub(crate) opened_popups: Vec<u32>,
    next_tab: u32,
    /// The pages that this session has opened, by itself or through its pages.
    pub(crate) own_targets: BTreeSet<String>,
    /// Pages of a browser that is not ours, to which no connection exists yet.
    pub(crate) known_targets: Vec<(u32, String)>,
}

impl ContextState {
    /// A number for a new tab.
    pub(crate) fn new_tab_number(&mut self) -> u32 {
        self.next_tab += 1;
        self.next_tab
    }

    /// The numbers of the open tabs, for messages.
    pub(crate) fn tab_list(&self) -> String {
        let numbers: Vec<String> = self.tabs.keys().map(u32::to_string).collect();
        if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
    }

    /// The tab of a target.
    pub(crate) fn tab_of_target(&self, target: &str) -> Option<u32> {
        self.tabs.values().find(|it| it.target == target).map(|it| it.number)
    }
}

impl BrowserContext {
    pub(crate) fn new(
        id: Option<String>,
        guard: Arc<ReachGuard>,
        interception: Interception,
        viewport: Option<(u32, u32)>,
    ) -> BrowserContext {
        let state = Mutex::default();
        let (changed, _) = watch::channel(0);
        BrowserContext { id, guard, interception, viewport, state, changed }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ContextState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those that wait for a change.
    pub(crate) fn notify(&self) {
        self.changed.send_modify(|it| *it += 1);
    }

    /// Reads or changes a tab.
    pub(crate) fn with_tab<T>(&self, number: u32, f: impl FnOnce(&mut Tab) -> T) -> Result<T> {
        let mut state = self.lock();
        match state.tabs.get_mut(&number) {
            Some(tab) => Ok(f(tab)),
            None => Err(BrowserError::NoTab(number, state.tab_list())),
        }
    }

    /// Waits until `find` finds something; `None` after the time.
    pub(crate) async fn wait<T>(
        &self,
        limit: Duration,
        mut find: impl FnMut(&mut ContextState) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + limit;
        let mut changes = self.changed.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(found) = find(&mut self.lock()) {
                return Some(found);
            }
            match timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return find(&mut self.lock()),
            }
        }
    }
}
