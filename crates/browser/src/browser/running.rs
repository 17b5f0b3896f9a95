//! A running browser: its connection, its process, and what it takes to open contexts and tabs.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard_wire::process::{DescendantSearch, Process};
use tokio::net::lookup_host;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::info;
use url::Url;

use crate::browser::context::{BrowserContext, Interception, MAX_TABS};
use crate::browser::endpoint;
use crate::browser::launch::{BrowserStart, LaunchOptions, ProfileFolder, launch};
use crate::browser::page_setup::target_filter;
use crate::browser::profile;
use crate::browser::router::{MAX_DEFERRED, Ownership, Router, Routes, SupervisorWork};
use crate::cdp::connection::Cdp;
use crate::error::{BrowserError, Result};
use crate::page::dialog::DIALOG_TIMEOUT;
use crate::reach::guard::ReachGuard;

/// How long the browser may take until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a new tab may take.
const TAB_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the browser may take to end by itself.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a name of a request may take to be resolved.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// How many questions and requests are worked on at a time.
const MAX_RUNNING: usize = 256;
/// The exit code of a browser whose profile is in use.
const PROFILE_IN_USE: i32 = 21;

/// Where the browser is from.
#[derive(Clone)]
pub(crate) enum BrowserOrigin {
    /// It is started here.
    Launch(LaunchOptions),
    /// It already runs, at this endpoint.
    Endpoint(String),
}

/// A running browser. Dropping it kills it, if it was started here.
pub(crate) struct RunningBrowser {
    pub(crate) cdp: Cdp,
    pub(crate) ownership: Ownership,
    pub(crate) generation: u64,
    routes: Arc<Mutex<Routes>>,
    process: tokio::sync::Mutex<Option<Process>>,
    tasks: Vec<JoinHandle<()>>,
    _profile: ProfileFolder,
}

impl std::fmt::Debug for RunningBrowser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunningBrowser({})", self.generation)
    }
}

impl Drop for RunningBrowser {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedContext {
    browser_context_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedTarget {
    target_id: String,
}

/// What a new context gets.
pub(crate) struct ContextOptions<'a> {
    pub(crate) guard: Arc<ReachGuard>,
    /// The proxy of the context; absent for the default context.
    pub(crate) proxy: Option<String>,
    pub(crate) downloads: &'a Path,
    pub(crate) viewport: Option<(u32, u32)>,
    pub(crate) isolation: Isolation,
}

/// Whether a session shares cookies and pages with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// It has a context of its own.
    Own,
    /// It uses the default context, with the cookies of the profile.
    Profile,
}

impl RunningBrowser {
    /// Starts a browser, or connects to one.
    pub(crate) async fn start(origin: &BrowserOrigin, generation: u64) -> Result<RunningBrowser> {
        let (channel, process, profile, ownership) = match origin {
            BrowserOrigin::Launch(options) => {
                let BrowserStart { channel, process, profile } = launch(options)?;
                (channel, Some(process), profile, Ownership::Own)
            }
            BrowserOrigin::Endpoint(url) => {
                let channel = endpoint::connect(url).await?;
                (channel, None, ProfileFolder::Foreign, Ownership::Foreign)
            }
        };
        let routes = Arc::new(Mutex::new(Routes::default()));
        let (deferred, queue) = mpsc::channel(MAX_DEFERRED);
        let router = Router { routes: routes.clone(), deferred, ownership };
        let (cdp, driver) = Cdp::spawn(channel, router);
        let supervisor = tokio::spawn(supervise(queue, cdp.clone()));
        let mut browser = RunningBrowser {
            cdp,
            ownership,
            generation,
            routes,
            process: tokio::sync::Mutex::new(process),
            tasks: vec![supervisor, driver],
            _profile: profile,
        };
        if let Err(error) = browser.prepare().await {
            return Err(browser.start_failure(origin, error).await);
        }
        info!(generation, "browser started");
        Ok(browser)
    }

    async fn prepare(&self) -> Result<()> {
        let filter = target_filter();
        if self.ownership == Ownership::Own {
            let attach = json!({
                "autoAttach": true,
                "waitForDebuggerOnStart": true,
                "flatten": true,
                "filter": filter,
            });
            let method = "Target.setAutoAttach";
            self.cdp.call_within(None, method, attach, START_TIMEOUT).await?;
        }
        let discover = json!({"discover": true, "filter": filter});
        self.cdp.call_within(None, "Target.setDiscoverTargets", discover, START_TIMEOUT).await?;
        Ok(())
    }

    /// Why the browser did not start: its exit says more than the end of the connection.
    async fn start_failure(&mut self, origin: &BrowserOrigin, error: BrowserError) -> BrowserError {
        let Some(mut process) = self.process.lock().await.take() else { return error };
        let Ok(Ok(status)) = timeout(CLOSE_TIMEOUT, process.wait()).await else { return error };
        if let (BrowserOrigin::Launch(options), Some(PROFILE_IN_USE)) = (origin, status.code())
            && let Some(name) = &options.profile
        {
            let folder = profile::folder(&options.profiles, name).unwrap_or_default();
            let holder = profile::holder(&folder).unwrap_or_else(|| "another browser".to_owned());
            return BrowserError::ProfileInUse { name: name.clone(), holder };
        }
        let tail = process.stderr_tail().await;
        let tail = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = tail.lines().filter(|it| !it.trim().is_empty()).collect();
        let words = lines[lines.len().saturating_sub(3)..].join(" / ");
        BrowserError::Ended {
            status: status.to_string(),
            words: crate::shown_text::shown(&words, 500),
        }
    }

    fn routes(&self) -> std::sync::MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its process or connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.cdp.has_ended()
    }

    /// Opens a context for a session.
    pub(crate) async fn open_context(
        &self,
        options: ContextOptions<'_>,
    ) -> Result<Arc<BrowserContext>> {
        let ContextOptions { guard, proxy, downloads, viewport, isolation } = options;
        let id = match isolation {
            Isolation::Profile => None,
            Isolation::Own => {
                let mut params = json!({"disposeOnDetach": true});
                if let Some(proxy) = &proxy {
                    params["proxyServer"] = json!(proxy);
                    params["proxyBypassList"] = json!("<-loopback>");
                }
                let method = "Target.createBrowserContext";
                let created: CreatedContext = self.cdp.get(None, method, params).await?;
                Some(created.browser_context_id)
            }
        };
        let interception = match (self.ownership, guard.limits_documents()) {
            (Ownership::Foreign, _) => Interception::Everything,
            (Ownership::Own, true) => Interception::Documents,
            (Ownership::Own, false) => Interception::Nothing,
        };
        let context = Arc::new(BrowserContext::new(id, guard, interception, viewport));
        {
            let mut routes = self.routes();
            if isolation == Isolation::Profile && routes.contexts.iter().any(|it| it.id.is_none()) {
                let holder = "another session of this process".to_owned();
                return Err(BrowserError::ProfileInUse { name: "default".to_owned(), holder });
            }
            routes.contexts.push(context.clone());
        }
        // The user's own downloads go where they always go.
        let mut behaviour = match self.ownership {
            Ownership::Foreign => json!({"behavior": "default", "eventsEnabled": true}),
            Ownership::Own => json!({
                "behavior": "allowAndName",
                "downloadPath": downloads,
                "eventsEnabled": true,
            }),
        };
        if let Some(id) = &context.id {
            behaviour["browserContextId"] = json!(id);
        }
        match self.cdp.call(None, "Browser.setDownloadBehavior", behaviour).await {
            Ok(_) => Ok(context),
            Err(error) => {
                self.close_context(&context).await;
                Err(error.into())
            }
        }
    }

    /// Ends a context: its pages, and its cookies if it has its own.
    pub(crate) async fn close_context(&self, context: &Arc<BrowserContext>) {
        match &context.id {
            Some(id) => {
                let params = json!({"browserContextId": id});
                let _ended_already =
                    self.cdp.call(None, "Target.disposeBrowserContext", params).await;
            }
            None => {
                let targets: Vec<String> = {
                    let state = context.lock();
                    let targets = state.tabs.values().map(|it| it.target.clone());
                    // Pages of the user stay.
                    let is_ours = |it: &String| state.own_targets.contains(it);
                    targets.filter(is_ours).collect()
                };
                for target in targets {
                    self.cdp.post(None, "Target.closeTarget", json!({"targetId": target}));
                }
                if self.ownership == Ownership::Foreign {
                    let params = json!({"behavior": "default"});
                    let method = "Browser.setDownloadBehavior";
                    let _ended_already = self.cdp.call(None, method, params).await;
                }
            }
        }
        self.routes().contexts.retain(|it| !Arc::ptr_eq(it, context));
    }

    /// Opens an empty tab and selects it.
    pub(crate) async fn open_tab(&self, context: &BrowserContext) -> Result<u32> {
        if context.lock().tabs.len() >= MAX_TABS {
            return Err(BrowserError::TooManyTabs(MAX_TABS));
        }
        let mut params = json!({"url": "about:blank"});
        if let Some(id) = &context.id {
            params["browserContextId"] = json!(id);
        }
        let method = "Target.createTarget";
        let created = self.cdp.call_within(None, method, params, TAB_TIMEOUT).await?;
        let created: CreatedTarget = serde_json::from_str(created.get())
            .map_err(|_| crate::cdp::connection::CdpError::Unreadable { method })?;
        context.lock().own_targets.insert(created.target_id.clone());
        if self.ownership == Ownership::Foreign {
            self.attach(&created.target_id).await?;
        }
        let target = created.target_id;
        let found = context.wait(TAB_TIMEOUT, |state| {
            let number = state.tab_of_target(&target)?;
            state.selected = Some(number);
            Some(number)
        });
        let number = found.await;
        let number =
            number.ok_or_else(|| BrowserError::Load("the browser opened no tab".to_owned()))?;
        self.wait_until_set_up(context, number).await?;
        Ok(number)
    }

    /// Waits until a tab reports its events: those of a page that is not set up yet are lost.
    pub(crate) async fn wait_until_set_up(&self, context: &BrowserContext, tab: u32) -> Result<()> {
        let session = context.with_tab(tab, |it| it.session.clone())?;
        for method in ["Page.enable", "Runtime.enable"] {
            self.cdp.call_within(Some(&session), method, json!({}), TAB_TIMEOUT).await?;
        }
        Ok(())
    }

    /// Connects to a page of a browser that is not ours.
    pub(crate) async fn attach(&self, target: &str) -> Result<()> {
        let params = json!({"targetId": target, "flatten": true});
        self.cdp.call(None, "Target.attachToTarget", params).await?;
        Ok(())
    }

    /// Ends a browser of our own; leaves another one running.
    pub(crate) async fn shut_down(&self) {
        let process = self.process.lock().await.take();
        let Some(mut process) = process else { return };
        let close = self.cdp.call_within(None, "Browser.close", json!({}), CLOSE_TIMEOUT);
        let _closes_anyway = close.await;
        process.note_descendants(DescendantSearch::Now).await;
        let _slow = timeout(CLOSE_TIMEOUT, process.wait()).await;
        process.stop(DescendantSearch::Now).await;
        info!(generation = self.generation, "browser stopped");
    }
}

/// Does what takes time: dismisses questions that nothing answers, and checks requests whose host has to be resolved.
async fn supervise(mut queue: mpsc::Receiver<SupervisorWork>, cdp: Cdp) {
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            deferred = queue.recv(), if work.len() < MAX_RUNNING => match deferred {
                Some(deferred) => drop(work.spawn(act(deferred, cdp.clone()))),
                None => return,
            },
            Some(_) = work.join_next() => {}
        }
    }
}

async fn act(deferred: SupervisorWork, cdp: Cdp) {
    match deferred {
        SupervisorWork::Question { context, tab, session, number } => {
            let closed = |state: &mut crate::browser::context::ContextState| {
                let open = state.tabs.get(&tab).and_then(|it| it.dialogs.open.as_ref());
                open.is_none_or(|it| it.number != number).then_some(())
            };
            if context.wait(DIALOG_TIMEOUT, closed).await.is_some() {
                return;
            }
            let _gone = context.with_tab(tab, |tab| {
                let dialog = tab.dialogs.open.as_ref().filter(|it| it.number == number);
                if let Some(dialog) = dialog {
                    let message = crate::shown_text::quoted(&dialog.message, 200);
                    let kind = dialog.kind.id();
                    tab.dialogs.note(format!(
                        "{kind} dismissed, because it was not answered for 10 s: {message}"
                    ));
                }
            });
            let params = json!({"accept": false});
            let _closed = cdp.call(Some(&session), "Page.handleJavaScriptDialog", params).await;
            context.notify();
        }
        SupervisorWork::Request { context, session, request, url } => {
            let checked = check_request(&context.guard, &url).await;
            match checked {
                Ok(()) => {
                    let params = json!({"requestId": request});
                    let _gone = cdp.call(Some(&session), "Fetch.continueRequest", params).await;
                }
                Err((host, reason)) => {
                    context.guard.record(&host, reason);
                    let params = json!({"requestId": request, "errorReason": "BlockedByClient"});
                    let _gone = cdp.call(Some(&session), "Fetch.failRequest", params).await;
                }
            }
        }
    }
}

/// Checks every address of a request's host. A host without one is not reached: the browser may find another one.
async fn check_request(
    guard: &ReachGuard,
    url: &str,
) -> std::result::Result<(), (String, crate::reach::guard::ReachError)> {
    let unresolved = |host: &str| {
        let host = crate::shown_text::shown(host, 200);
        (host.clone(), crate::reach::guard::ReachError::Unresolved { host })
    };
    let parsed = Url::parse(url).map_err(|_| unresolved(url))?;
    let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else {
        return Err(unresolved(url));
    };
    let lookup = timeout(LOOKUP_TIMEOUT, lookup_host((host.trim_matches(['[', ']']), port))).await;
    let Ok(Ok(addresses)) = lookup else { return Err(unresolved(host)) };
    let mut is_resolved = false;
    for address in addresses {
        guard.check_address(host, port, address.ip()).map_err(|it| (host.to_owned(), it))?;
        is_resolved = true;
    }
    if is_resolved { Ok(()) } else { Err(unresolved(host)) }
}
