//! One client's session: its part of the browser, opened at first use and again after a crash or an idle time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tokio::sync::OwnedMutexGuard;

use crate::actions::page::Page;
use crate::browser::context::BrowserContext;
use crate::browser::launch::{LaunchOptions, create_private};
use crate::browser::program::Window;
use crate::browser::running::{BrowserOrigin, ContextOptions, Isolation, RunningBrowser};
use crate::browser::shared::ActiveCall;
use crate::error::{BrowserError, Result};
use crate::reach::guard::ReachGuard;
use crate::reach::proxy::Proxy;
use crate::reach::proxy::upstream::UpstreamProxy;
use crate::settings::{BrowserSettings, BrowserSource, IDLE_LIMIT};

/// The size of pages without a window.
const VIEWPORT: (u32, u32) = (1280, 720);
/// How long downloads of sessions that ended stay.
const DOWNLOAD_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// One client's session.
pub(crate) struct Session {
    pub(crate) settings: BrowserSettings,
    pub(crate) guard: Arc<ReachGuard>,
    place: tokio::sync::Mutex<PlaceSlot>,
    /// Why pages are gone, until the model has been told.
    notice: Mutex<Option<&'static str>>,
    /// One action at a time in a tab.
    turns: Mutex<HashMap<u32, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct PlaceSlot {
    place: Option<Place>,
    /// Why the last place is gone, until there is another one.
    lost: Option<&'static str>,
}

/// The part of a running browser that belongs to the session.
struct Place {
    browser: Arc<RunningBrowser>,
    context: Arc<BrowserContext>,
    downloads: PathBuf,
    _proxy: Option<Proxy>,
}

/// A place as a call uses it.
pub(crate) struct Visit {
    pub(crate) browser: Arc<RunningBrowser>,
    pub(crate) context: Arc<BrowserContext>,
}

/// A tab that a call uses alone.
pub(crate) struct Turn {
    pub(crate) page: Page,
    _alone: OwnedMutexGuard<()>,
}

impl Session {
    pub(crate) fn new(settings: BrowserSettings) -> Arc<Session> {
        let guard = Arc::new(ReachGuard::new(settings.reach.clone()));
        Arc::new(Session {
            settings,
            guard,
            place: tokio::sync::Mutex::default(),
            notice: Mutex::default(),
            turns: Mutex::default(),
        })
    }

    /// Keeps the browser from being stopped until the value is dropped.
    pub(crate) fn begin_call(&self) -> ActiveCall<'_> {
        self.settings.shared().begin_call()
    }

    fn notice(&self) -> std::sync::MutexGuard<'_, Option<&'static str>> {
        self.notice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the model has to know before it reads an answer: that its pages are gone. An answer that is not given, because
    /// the call was cancelled, does not count.
    pub(crate) fn take_notice(&self) -> Option<&'static str> {
        self.notice().take()
    }

    /// The session's part of the browser; opens it if there is none.
    pub(crate) async fn visit(&self) -> Result<Visit> {
        let mut slot = self.place.lock().await;
        if slot.place.as_ref().is_some_and(|it| it.browser.has_ended()) {
            slot.place = None;
            slot.lost = Some("the browser had crashed and was started again; its pages are gone");
        }
        if slot.place.is_none() {
            slot.place = Some(self.open().await?);
            if let Some(lost) = slot.lost.take() {
                *self.notice() = Some(lost);
            }
        }
        let Some(place) = &slot.place else { return Err(BrowserError::NoProgram) };
        Ok(Visit { browser: place.browser.clone(), context: place.context.clone() })
    }

    async fn open(&self) -> Result<Place> {
        let settings = &self.settings;
        if let Some(scheme) = settings.proxy.as_ref().and_then(UpstreamProxy::unsupported_scheme) {
            return Err(BrowserError::ProxyScheme { scheme: scheme.to_owned() });
        }
        let downloads = self.downloads_folder()?;
        let fail = |source| BrowserError::Folder { what: "the proxy", source };
        let proxy = match &settings.source {
            BrowserSource::Endpoint(_) => None,
            BrowserSource::Own { .. } => {
                Some(Proxy::start(self.guard.clone(), settings.proxy.clone()).await.map_err(fail)?)
            }
        };
        let proxy_url = proxy.as_ref().map(Proxy::url);
        let (origin, isolation, viewport) = self.origin(proxy_url.clone());
        let options = ContextOptions {
            guard: self.guard.clone(),
            proxy: proxy_url,
            downloads: &downloads,
            viewport,
            isolation,
        };
        let (browser, context) = settings.shared().open(&origin, options).await?;
        Ok(Place { browser, context, downloads, _proxy: proxy })
    }

    fn origin(&self, proxy: Option<String>) -> (BrowserOrigin, Isolation, Option<(u32, u32)>) {
        match &self.settings.source {
            BrowserSource::Endpoint(url) => {
                (BrowserOrigin::Endpoint(url.clone()), Isolation::Profile, None)
            }
            BrowserSource::Own { window, profile, program } => {
                let isolation = if profile.is_some() { Isolation::Profile } else { Isolation::Own };
                let viewport = match window {
                    Window::Headless => Some(VIEWPORT),
                    Window::Windowed => None,
                };
                let options = LaunchOptions {
                    window: *window,
                    profile: profile.clone(),
                    profiles: self.settings.data_folder.join("profiles"),
                    program: program.clone(),
                    environment: self.settings.environment.clone(),
                    watchdog: self.settings.watchdog.clone(),
                    proxy: proxy.filter(|_| profile.is_some()),
                };
                (BrowserOrigin::Launch(options), isolation, viewport)
            }
        }
    }

    /// A new folder for the files that this session downloads.
    fn downloads_folder(&self) -> Result<PathBuf> {
        let fail = |source| BrowserError::Folder { what: "the folder of downloads", source };
        let all = self.settings.data_folder.join("downloads");
        create_private(&all).map_err(fail)?;
        remove_old(&all);
        let folder: TempDir =
            tempfile::Builder::new().prefix("session-").tempdir_in(&all).map_err(fail)?;
        // Files stay for some days after the session.
        Ok(folder.keep())
    }

    /// A tab, alone: the given one, the selected one, or a new one if there is none.
    pub(crate) async fn turn(&self, tab: Option<u32>) -> Result<Turn> {
        let visit = self.visit().await?;
        let number = self.tab_number(&visit, tab).await?;
        let alone = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|number, turn| {
                Arc::strong_count(turn) > 1 || visit.context.lock().tabs.contains_key(number)
            });
            turns.entry(number).or_default().clone()
        };
        let alone = alone.lock_owned().await;
        let page = Page::new(&visit.browser, &visit.context, number)?;
        Ok(Turn { page, _alone: alone })
    }

    /// A tab that other calls may use at the same time.
    pub(crate) async fn page(&self, tab: Option<u32>) -> Result<Page> {
        let visit = self.visit().await?;
        let number = self.tab_number(&visit, tab).await?;
        Page::new(&visit.browser, &visit.context, number)
    }

    async fn tab_number(&self, visit: &Visit, tab: Option<u32>) -> Result<u32> {
        let known = {
            let state = visit.context.lock();
            let target = tab.and_then(|it| state.known_targets.iter().find(|known| known.0 == it));
            match (tab, target) {
                (Some(_), Some((_, target))) => Err(target.clone()),
                (Some(tab), None) => {
                    let has_it = state.tabs.contains_key(&tab);
                    let list = state.tab_list();
                    drop(state);
                    return if has_it { Ok(tab) } else { Err(BrowserError::NoTab(tab, list)) };
                }
                (None, _) => {
                    let selected = state.selected.filter(|it| state.tabs.contains_key(it));
                    Ok(selected.or_else(|| state.tabs.keys().next_back().copied()))
                }
            }
        };
        match known {
            Ok(Some(number)) => Ok(number),
            Ok(None) => visit.browser.open_tab(&visit.context).await,
            Err(target) => {
                visit.browser.attach(&target).await?;
                let limit = Duration::from_secs(5);
                let found = visit.context.wait(limit, |it| it.tab_of_target(&target)).await;
                let found = found
                    .ok_or_else(|| BrowserError::Load("the tab does not answer".to_owned()))?;
                visit.browser.wait_until_set_up(&visit.context, found).await?;
                Ok(found)
            }
        }
    }

    /// The path of a downloaded file.
    pub(crate) fn download_path(&self, guid: &str) -> Option<PathBuf> {
        let all = self.settings.data_folder.join("downloads");
        let folders = std::fs::read_dir(all).ok()?;
        folders.flatten().map(|it| it.path().join(guid)).find(|it| it.is_file())
    }

    /// Closes the session's pages whenever nothing has happened for some time. Never ends.
    pub(crate) async fn stop_when_idle(self: Arc<Session>) {
        let limit = self.settings.idle_limit.unwrap_or(IDLE_LIMIT);
        loop {
            self.settings.shared().wait_until_idle(limit).await;
            let mut slot = self.place.lock().await;
            // A call may have begun meanwhile.
            if !self.settings.shared().is_idle(limit) {
                continue;
            }
            if let Some(place) = slot.place.take() {
                slot.lost = Some(
                    "the browser was stopped because nothing happened for a while; its pages are gone",
                );
                self.close(place).await;
            }
            drop(slot);
            tokio::time::sleep(limit).await;
        }
    }

    async fn close(&self, place: Place) {
        let Place { browser, context, downloads, _proxy } = place;
        self.settings.shared().close(browser, context).await;
        let _has_files = std::fs::remove_dir(&downloads);
    }

    /// Closes the session's pages, and the browser if no other session uses it.
    pub(crate) async fn shut_down(&self) {
        let place = self.place.lock().await.place.take();
        if let Some(place) = place {
            self.close(place).await;
        }
    }
}

/// Removes downloads of sessions that ended long ago.
fn remove_old(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let now = SystemTime::now();
    for entry in entries.flatten() {
        let changed = entry.metadata().and_then(|it| it.modified());
        let is_old =
            changed.is_ok_and(|it| now.duration_since(it).is_ok_and(|age| age > DOWNLOAD_AGE));
        if is_old {
            let _in_use = std::fs::remove_dir_all(entry.path());
        }
    }
}
