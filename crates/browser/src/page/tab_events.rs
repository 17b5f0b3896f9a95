//! Events of a tab's sessions.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::cdp::connection::CommandList;
use crate::cdp::message::{Event, SessionId};
use crate::page::dialog::{DialogEvent, DialogKind};
use crate::page::tab::{DocumentState, FileChooser, Tab};

/// What an event means to those that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TabChange {
    /// Nothing waits for it.
    Nothing,
    /// The state of the tab has changed.
    Changed,
    /// A question is open, with this number: without an answer it has to be dismissed.
    Question(u64),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameEvent<'a> {
    #[serde(borrow)]
    frame_id: Cow<'a, str>,
    #[serde(borrow)]
    parent_frame_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    navigation_type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    disposition: Option<Cow<'a, str>>,
    #[serde(borrow)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow)]
    loader_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct NavigationEvent {
    frame: NavigatedFrame,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NavigatedFrame {
    id: String,
    parent_id: Option<String>,
    loader_id: String,
    url: String,
    unreachable_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContextEvent {
    execution_context_id: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChooserEvent {
    mode: String,
    backend_node_id: Option<i64>,
}

#[derive(Deserialize)]
struct DragEvent {
    data: Box<RawValue>,
}

impl Tab {
    /// Takes an event of one of the tab's sessions.
    pub(crate) fn on_event(
        &mut self,
        session: &SessionId,
        event: &Event<'_>,
        commands: &mut CommandList,
    ) -> TabChange {
        if self.console.on_event(event) {
            return TabChange::Nothing;
        }
        if self.requests.on_event(session, event) {
            let ends = matches!(event.method, "Network.loadingFinished" | "Network.loadingFailed");
            return if ends { TabChange::Changed } else { TabChange::Nothing };
        }
        match event.method {
            "Page.javascriptDialogOpening" => {
                let Some(opening) = event.decode::<DialogEvent>() else {
                    let accept = json!({"accept": false});
                    commands.push(Some(session), "Page.handleJavaScriptDialog", accept);
                    return TabChange::Changed;
                };
                let (kind, number) = self.dialogs.open(opening);
                return match kind {
                    DialogKind::Alert | DialogKind::BeforeUnload => {
                        let accept = json!({"accept": true});
                        commands.push(Some(session), "Page.handleJavaScriptDialog", accept);
                        TabChange::Changed
                    }
                    DialogKind::Confirm | DialogKind::Prompt => TabChange::Question(number),
                };
            }
            "Page.javascriptDialogClosed" => self.dialogs.open = None,
            "Page.frameNavigated" => {
                if let Some(NavigationEvent { frame }) = event.decode() {
                    self.navigated(session, &frame);
                }
            }
            "Page.fileChooserOpened" => {
                let opened = event.decode::<ChooserEvent>();
                self.chooser = opened.and_then(|it| {
                    let takes_many = it.mode == "selectMultiple";
                    let node = it.backend_node_id?;
                    Some(FileChooser { session: session.clone(), node, takes_many })
                });
            }
            "Input.dragIntercepted" => {
                self.drag = event.decode::<DragEvent>().map(|it| it.data);
            }
            "Runtime.executionContextsCleared" => self.frames.forget_worlds(session, None),
            "Runtime.executionContextDestroyed" => {
                if let Some(ContextEvent { execution_context_id }) = event.decode() {
                    self.frames.forget_worlds(session, Some(execution_context_id));
                }
                return TabChange::Nothing;
            }
            method if method.starts_with("Page.") => {
                let Some(frame) = event.decode::<FrameEvent<'_>>() else {
                    return TabChange::Nothing;
                };
                return self.frame_event(session, method, &frame);
            }
            _ => return TabChange::Nothing,
        }
        TabChange::Changed
    }

    fn frame_event(
        &mut self,
        session: &SessionId,
        method: &str,
        event: &FrameEvent<'_>,
    ) -> TabChange {
        let is_main = event.frame_id == self.target;
        match method {
            "Page.frameAttached" => {
                self.frames.attach(&event.frame_id, event.parent_frame_id.as_deref(), session);
            }
            // A frame that moves to another process stays.
            "Page.frameDetached" if event.reason.as_deref() != Some("swap") => {
                self.frames.detach(&event.frame_id);
            }
            "Page.navigatedWithinDocument" => {
                let url = event.url.as_deref().unwrap_or_default();
                if is_main {
                    self.url = crate::shown_text::cut(url, 2000);
                }
                if let Some(frame) = self.frames.get_mut(&event.frame_id) {
                    frame.url = crate::shown_text::cut(url, 2000);
                }
            }
            "Page.frameStartedNavigating" | "Page.frameRequestedNavigation" if is_main => {
                let is_other = matches!(
                    event.navigation_type.as_deref(),
                    Some("sameDocument" | "historySameDocument")
                ) || matches!(
                    event.disposition.as_deref(),
                    Some("newTab" | "newWindow" | "download")
                );
                if !is_other {
                    self.is_navigating = true;
                    self.navigations += 1;
                }
            }
            "Page.frameStoppedLoading" if is_main => self.is_navigating = false,
            "Page.lifecycleEvent" if is_main => {
                let loader = event.loader_id.as_deref().unwrap_or_default();
                // Events of a document whose beginning was missed are told again.
                if event.name.as_deref() == Some("commit") && *loader != *self.loader {
                    let url = self.url.clone();
                    self.frames.navigate(&event.frame_id, loader, &url, session);
                    self.loader = loader.to_owned();
                    self.document = DocumentState::Loading;
                    self.is_navigating = false;
                }
                if event.loader_id.as_deref() != Some(&self.loader) {
                    return TabChange::Nothing;
                }
                let reached = match event.name.as_deref() {
                    Some("DOMContentLoaded") => DocumentState::Ready,
                    Some("load") => DocumentState::Loaded,
                    Some(_) | None => return TabChange::Nothing,
                };
                self.document = self.document.max(reached);
            }
            _ => return TabChange::Nothing,
        }
        TabChange::Changed
    }

    fn navigated(&mut self, session: &SessionId, frame: &NavigatedFrame) {
        let url = frame.unreachable_url.as_ref().unwrap_or(&frame.url);
        let url = crate::shown_text::cut(url, 2000);
        if !self.frames.contains(&frame.id) {
            self.frames.attach(&frame.id, frame.parent_id.as_deref(), session);
        }
        self.frames.navigate(&frame.id, &frame.loader_id, &url, session);
        if frame.id == self.target {
            self.url = url;
            self.loader.clone_from(&frame.loader_id);
            self.document = DocumentState::Loading;
            self.is_navigating = false;
            self.chooser = None;
        }
    }
}
