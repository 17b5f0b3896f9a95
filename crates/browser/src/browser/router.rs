//! Routes the events of the browser to the sessions' contexts, sets new pages up, and answers what pages wait for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use url::Url;

use crate::browser::context::{BrowserContext, Interception, MAX_TABS};
use crate::browser::page_setup::RouteKind;
use crate::browser::{download_events, page_setup};
use crate::cdp::connection::{CommandList, EventSink};
use crate::cdp::message::{Event, SessionId};
use crate::page::tab::{Tab, TabHealth};
use crate::page::tab_events::TabChange;
use crate::reach::guard::ReachError;
use crate::shown_text::cut;

/// How many decisions may wait for the supervisor.
pub(crate) const MAX_DEFERRED: usize = 1024;

/// Who gets which events.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub(crate) contexts: Vec<Arc<BrowserContext>>,
    sessions: HashMap<String, Route>,
}

#[derive(Debug, Clone)]
struct Route {
    id: SessionId,
    context: Arc<BrowserContext>,
    tab: u32,
    kind: RouteKind,
}

/// What the supervisor does because it takes time.
#[derive(Debug)]
pub(crate) enum SupervisorWork {
    /// Dismiss a question that is not answered.
    Question { context: Arc<BrowserContext>, tab: u32, session: SessionId, number: u64 },
    /// Check a request whose host has to be resolved.
    Request { context: Arc<BrowserContext>, session: SessionId, request: String, url: String },
}

/// Whether the browser pauses new pages until they are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// It is ours.
    Own,
    /// It belongs to the user: only pages that are used are attached to.
    Foreign,
}

/// The sink of a browser's events.
pub(crate) struct Router {
    pub(crate) routes: Arc<Mutex<Routes>>,
    pub(crate) deferred: mpsc::Sender<SupervisorWork>,
    pub(crate) ownership: Ownership,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetAttachment {
    session_id: String,
    target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetEvent {
    target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetInfo {
    target_id: String,
    #[serde(rename = "type")]
    kind: String,
    title: String,
    url: String,
    opener_id: Option<String>,
    browser_context_id: Option<String>,
    parent_frame_id: Option<String>,
    #[serde(default)]
    attached: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetDetachment {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestPause {
    request_id: String,
    request: PausedRequest,
    frame_id: String,
    resource_type: String,
}

#[derive(Deserialize)]
struct PausedRequest {
    url: String,
}

impl Routes {
    /// The context with an id. A default context takes what no other one has.
    fn context(&self, id: Option<&str>) -> Option<Arc<BrowserContext>> {
        let is_it = |it: &&Arc<BrowserContext>| it.id.is_some() && it.id.as_deref() == id;
        let default = || self.contexts.iter().find(|it| it.id.is_none());
        self.contexts.iter().find(is_it).or_else(default).cloned()
    }
}

impl EventSink for Router {
    fn on_event(&mut self, event: &Event<'_>, commands: &mut CommandList) {
        let routes = self.routes.clone();
        let mut routes = routes.lock().unwrap_or_else(PoisonError::into_inner);
        match event.method {
            "Target.attachedToTarget" => {
                if let Some(attached) = event.decode() {
                    self.attached(&mut routes, event.session, attached, commands);
                }
            }
            "Target.detachedFromTarget" => {
                if let Some(TargetDetachment { session_id }) = event.decode() {
                    detached(&mut routes, &session_id);
                }
            }
            "Target.targetCreated" => {
                if let Some(TargetEvent { target_info }) = event.decode() {
                    self.created(&routes, &target_info, commands);
                }
            }
            "Target.targetInfoChanged" => {
                if let Some(TargetEvent { target_info }) = event.decode() {
                    info_changed(&routes, &target_info);
                }
            }
            "Browser.downloadWillBegin" => {
                if let Some(beginning) = event.decode() {
                    download_events::begins(&routes.contexts, beginning, commands);
                }
            }
            "Browser.downloadProgress" => {
                if let Some(progress) = event.decode() {
                    download_events::continues(&routes.contexts, &progress, commands);
                }
            }
            _ => {
                if let Some(route) = event.session.and_then(|it| routes.sessions.get(it)).cloned() {
                    self.page_event(&route, event, commands);
                }
            }
        }
    }

    fn on_end(&mut self) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        for context in &routes.contexts {
            context.lock().tabs.clear();
            context.notify();
        }
    }
}

impl Router {
    fn attached(
        &self,
        routes: &mut Routes,
        parent: Option<&str>,
        attached: TargetAttachment,
        commands: &mut CommandList,
    ) {
        let TargetAttachment { session_id, target_info: target } = attached;
        let session: SessionId = session_id.as_str().into();
        let parent = parent.and_then(|it| routes.sessions.get(it)).cloned();
        let above = parent.as_ref().map(|it| it.id.clone());
        let route = match (target.kind.as_str(), parent) {
            ("page", _) => {
                let context = routes.context(target.browser_context_id.as_deref());
                context.and_then(|context| new_tab(&context, &session, &target, commands))
            }
            ("iframe", Some(parent)) => {
                let mut state = parent.context.lock();
                state.tabs.get_mut(&parent.tab).map(|tab| {
                    let (id, above) = (&target.target_id, target.parent_frame_id.as_deref());
                    tab.frames.attach(id, above, &session);
                    let context = parent.context.clone();
                    Route { id: session.clone(), context, tab: parent.tab, kind: RouteKind::Frame }
                })
            }
            _ => None,
        };
        match route {
            Some(route) => {
                let kind = route.kind;
                page_setup::set_up(&route.context, kind, &route.id, commands);
                route.context.notify();
                routes.sessions.insert(session_id, route);
            }
            None => {
                commands.push(Some(&session_id), "Runtime.runIfWaitingForDebugger", json!({}));
                let detach = json!({"sessionId": session_id});
                commands.push(above.as_deref(), "Target.detachFromTarget", detach);
            }
        }
    }

    /// Follows pages that ours open in a browser that attaches to nothing by itself.
    fn created(&self, routes: &Routes, target: &TargetInfo, commands: &mut CommandList) {
        let Some(opener) = &target.opener_id else { return };
        if self.ownership == Ownership::Own || target.attached || target.kind != "page" {
            return;
        }
        let is_ours = |it: &Arc<BrowserContext>| it.lock().tab_of_target(opener).is_some();
        if routes.contexts.iter().any(is_ours) {
            let attach = json!({"targetId": target.target_id, "flatten": true});
            commands.push(None, "Target.attachToTarget", attach);
        }
    }

    fn page_event(&self, route: &Route, event: &Event<'_>, commands: &mut CommandList) {
        if event.method == "Fetch.requestPaused" {
            if let Some(paused) = event.decode() {
                self.paused(route, paused, commands);
            }
            return;
        }
        let change = {
            let mut state = route.context.lock();
            let Some(tab) = state.tabs.get_mut(&route.tab) else { return };
            match (event.method, route.kind) {
                ("Inspector.targetCrashed", RouteKind::Page) => {
                    tab.health = TabHealth::Crashed;
                    tab.is_navigating = false;
                    TabChange::Changed
                }
                // The page around the frame goes on.
                ("Inspector.targetCrashed", RouteKind::Frame) => {
                    tab.frames.forget_worlds(&route.id, None);
                    tab.requests.end_session(&route.id);
                    TabChange::Changed
                }
                (_, RouteKind::Page | RouteKind::Frame) => tab.on_event(&route.id, event, commands),
            }
        };
        match change {
            TabChange::Nothing => {}
            TabChange::Changed => route.context.notify(),
            TabChange::Question(number) => {
                route.context.notify();
                let (context, tab) = (route.context.clone(), route.tab);
                let session = route.id.clone();
                let question = SupervisorWork::Question { context, tab, session, number };
                if self.deferred.try_send(question).is_err() {
                    let dismiss = json!({"accept": false});
                    commands.push(Some(&route.id), "Page.handleJavaScriptDialog", dismiss);
                }
            }
        }
    }

    /// Decides about a request that the browser holds.
    fn paused(&self, route: &Route, paused: RequestPause, commands: &mut CommandList) {
        let context = &route.context;
        let url = Url::parse(&paused.request.url);
        let is_web =
            url.as_ref().is_ok_and(|it| matches!(it.scheme(), "http" | "https" | "ws" | "wss"));
        let is_document = paused.resource_type == "Document";
        let is_of_tab = {
            let state = context.lock();
            state.tabs.get(&route.tab).is_some_and(|it| it.target == paused.frame_id)
        };
        let refused = url.ok().filter(|_| is_web).and_then(|url| {
            let document = if is_document { context.guard.check_allowed(&url) } else { Ok(()) };
            let host = url.host_str().unwrap_or_default().to_owned();
            let port = url.port_or_known_default().unwrap_or(0);
            document.and_then(|()| context.guard.check_host(&host, port)).err().map(|it| (host, it))
        });
        if let Some((host, reason)) = refused {
            let document = match (is_document, is_of_tab) {
                (true, true) => StoppedRequest::Document,
                (true, false) => StoppedRequest::Frame,
                (false, _) => StoppedRequest::Part,
            };
            let (request, url) = (paused.request_id.as_str(), paused.request.url.as_str());
            stop_request(route, (request, document), (&host, url), reason, commands);
            return;
        }
        let defer = context.interception == Interception::Everything && is_web;
        let request = paused.request_id;
        let deferred = SupervisorWork::Request {
            context: context.clone(),
            session: route.id.clone(),
            request: request.clone(),
            url: paused.request.url,
        };
        let is_deferred = defer && self.deferred.try_send(deferred).is_ok();
        match (defer, is_deferred) {
            (true, true) => {}
            (true, false) => {
                let fail = json!({"requestId": request, "errorReason": "BlockedByClient"});
                commands.push(Some(&route.id), "Fetch.failRequest", fail);
            }
            (false, _) => {
                let go_on = json!({"requestId": request});
                commands.push(Some(&route.id), "Fetch.continueRequest", go_on);
            }
        }
    }
}

/// What is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoppedRequest {
    /// The document of a tab.
    Document,
    /// The document of a frame in a page.
    Frame,
    /// A part of a document.
    Part,
}

fn stop_request(
    route: &Route,
    (request, stopped): (&str, StoppedRequest),
    (host, url): (&str, &str),
    reason: ReachError,
    commands: &mut CommandList,
) {
    route.context.guard.record(host, reason.clone());
    if matches!(reason, ReachError::NotAllowed { .. }) {
        let _gone = route.context.with_tab(route.tab, |tab| {
            let url = crate::shown_text::shown(url, 150);
            tab.note(match stopped {
                StoppedRequest::Frame => {
                    format!("stopped: a frame with {url}, outside the allowed origins")
                }
                StoppedRequest::Document | StoppedRequest::Part => format!(
                    "stopped: the page wanted to open {url}, outside the allowed origins; call navigate with it to ask the user"
                ),
            });
        });
    }
    // An aborted document leaves the page that is there.
    let error = match stopped {
        StoppedRequest::Document => "Aborted",
        StoppedRequest::Frame | StoppedRequest::Part => "BlockedByClient",
    };
    let fail = json!({"requestId": request, "errorReason": error});
    commands.push(Some(&route.id), "Fetch.failRequest", fail);
    route.context.notify();
}

/// A page appears: ours, or one that a page has opened.
fn new_tab(
    context: &Arc<BrowserContext>,
    session: &SessionId,
    target: &TargetInfo,
    commands: &mut CommandList,
) -> Option<Route> {
    let mut state = context.lock();
    if state.tab_of_target(&target.target_id).is_some() {
        return None;
    }
    if state.tabs.len() >= MAX_TABS {
        state.closed_popups += 1;
        commands.push(None, "Target.closeTarget", json!({"targetId": target.target_id}));
        return None;
    }
    let known = state.known_targets.iter().position(|it| it.1 == target.target_id);
    let number = match known {
        Some(at) => state.known_targets.swap_remove(at).0,
        None => state.new_tab_number(),
    };
    let mut tab = Tab::new(number, &target.target_id, session.clone());
    tab.url = cut(&target.url, 2000);
    tab.title = cut(&target.title, 300);
    tab.opener = target.opener_id.as_deref().and_then(|it| state.tab_of_target(it));
    if tab.opener.is_some() && state.opened_popups.len() < MAX_TABS {
        state.opened_popups.push(number);
        state.own_targets.insert(target.target_id.clone());
    }
    state.tabs.insert(number, tab);
    drop(state);
    let id = session.clone();
    Some(Route { id, context: context.clone(), tab: number, kind: RouteKind::Page })
}

fn detached(routes: &mut Routes, session: &str) {
    let Some(route) = routes.sessions.remove(session) else { return };
    {
        let mut state = route.context.lock();
        match route.kind {
            RouteKind::Page => {
                state.tabs.remove(&route.tab);
                if state.selected == Some(route.tab) {
                    state.selected = state.tabs.keys().next_back().copied();
                }
            }
            RouteKind::Frame => {
                if let Some(tab) = state.tabs.get_mut(&route.tab) {
                    tab.frames.forget_worlds(session, None);
                    tab.requests.end_session(session);
                }
            }
        }
    }
    route.context.notify();
}

fn info_changed(routes: &Routes, target: &TargetInfo) {
    for context in &routes.contexts {
        let mut state = context.lock();
        if let Some(tab) = state.tabs.values_mut().find(|it| it.target == target.target_id) {
            tab.title = cut(&target.title, 300);
            if !target.url.is_empty() {
                tab.url = cut(&target.url, 2000);
            }
            drop(state);
            context.notify();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::reach::guard::{ReachGuard, ReachRules};
    use crate::reach::origin_pattern::OriginPattern;

    /// A router with a page of an allowed origin and a frame of another process in it.
    fn router() -> (Router, Arc<BrowserContext>) {
        let allowed = vec![OriginPattern::parse("https://allowed.example").expect("a pattern")];
        let guard = Arc::new(ReachGuard::new(ReachRules { allowed, blocked: Vec::new() }));
        let context = Arc::new(BrowserContext::new(None, guard, Interception::Documents, None));
        let routes = Routes { contexts: vec![context.clone()], sessions: HashMap::new() };
        let (deferred, _) = mpsc::channel(1);
        let routes = Arc::new(Mutex::new(routes));
        let mut router = Router { routes, deferred, ownership: Ownership::Own };
        let target = |id: &str, kind: &str| {
            json!({"sessionId": format!("s-{id}"), "targetInfo": {
                "targetId": id, "type": kind, "title": "", "url": "", "parentFrameId": "page",
            }})
        };
        happens(&mut router, None, "Target.attachedToTarget", target("page", "page"));
        happens(&mut router, Some("s-page"), "Target.attachedToTarget", target("frame", "iframe"));
        (router, context)
    }

    /// The commands that an event causes.
    fn happens(
        router: &mut Router,
        session: Option<&str>,
        method: &str,
        params: serde_json::Value,
    ) -> String {
        let mut commands = CommandList::default();
        let params = params.to_string();
        router.on_event(&Event { session, method, params: &params }, &mut commands);
        format!("{commands:?}")
    }

    #[test]
    fn a_frame_that_crashes_leaves_its_page_usable() {
        let (mut router, context) = router();
        happens(&mut router, Some("s-frame"), "Inspector.targetCrashed", json!({}));
        let health = |context: &BrowserContext| context.with_tab(1, |it| it.health).expect("a tab");
        assert_eq!(health(&context), TabHealth::Running);
        happens(&mut router, Some("s-page"), "Inspector.targetCrashed", json!({}));
        assert_eq!(health(&context), TabHealth::Crashed);
    }

    #[tokio::test]
    async fn documents_of_frames_are_checked_as_those_of_tabs() {
        let (mut router, context) = router();
        let mut check = |session: &str, (frame, url): (&str, &str), expected: &str| {
            let params = json!({
                "requestId": "r", "request": {"url": url}, "frameId": frame, "resourceType": "Document",
            });
            let commands = happens(&mut router, Some(session), "Fetch.requestPaused", params);
            assert!(commands.contains(expected), "{url} in {frame}: {commands}");
        };
        for (session, frame) in [("s-page", "page"), ("s-page", "frame"), ("s-frame", "frame")] {
            check(session, (frame, "https://allowed.example/x"), "Fetch.continueRequest");
        }
        check(
            "s-page",
            ("page", "https://other.example/x"),
            "\"errorReason\": String(\"Aborted\")",
        );
        check("s-page", ("frame", "https://other.example/x"), "BlockedByClient");
        check("s-frame", ("frame", "https://other.example/x"), "BlockedByClient");
        let told = context.wait(Duration::ZERO, |state| Some(state.tabs.get_mut(&1)?.take_notes()));
        assert_eq!(told.await.expect("a tab").len(), 3);
    }
}
