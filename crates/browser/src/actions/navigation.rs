//! Opening pages, and going back and forward.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::actions::page::Page;
use crate::actions::report::MAX_REPORT;
use crate::actions::world::decode;
use crate::cdp::connection::CdpError;
use crate::error::{BrowserError, Result};
use crate::page::tab::{DocumentState, TabHealth};
use crate::shown_text::{quoted, shown};

/// How long the rest of a page is waited for once its document is there.
const LOAD_LIMIT: Duration = Duration::from_millis(2500);

/// Where a tab goes.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    Url(Url),
    Back,
    Forward,
    Reload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NavigationResponse {
    loader_id: Option<String>,
    error_text: Option<String>,
    #[serde(default)]
    is_download: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct History {
    current_index: i64,
    entries: Vec<HistoryEntry>,
}

#[derive(Deserialize)]
struct HistoryEntry {
    id: i64,
    url: String,
}

/// The document that a navigation leads to.
enum TargetDocument {
    /// That of a loader, where `before` was the one before it.
    Loader { loader: String, before: String },
    /// Any other than that of this loader.
    Other(String),
}

/// How a navigation ended.
enum Arrival {
    Arrived,
    Download,
    /// It stayed in its document.
    SameDocument,
    Held,
    Late,
}

impl Page {
    /// Goes somewhere and waits for the document; returns what is there.
    pub(crate) async fn go(&self, destination: &Destination, limit: Duration) -> Result<String> {
        let mark = self.mark()?;
        let arrival = match destination {
            Destination::Url(url) => self.open(url.as_str(), limit).await?,
            Destination::Back => self.travel(-1, limit).await?,
            Destination::Forward => self.travel(1, limit).await?,
            Destination::Reload => self.reload(limit).await?,
        };
        let happened = |head: String| {
            let mut parts = vec![head];
            let rest = self.happened(&mark);
            parts.extend(rest.into_iter().filter(|it| !it.starts_with("now at ")));
            crate::shown_text::cut(&parts.join("; "), MAX_REPORT)
        };
        Ok(match arrival {
            Arrival::Arrived | Arrival::SameDocument => happened(self.place().await?),
            Arrival::Download => happened("the page stays as it was".to_owned()),
            Arrival::Held => happened("the page is held".to_owned()),
            Arrival::Late => happened(format!(
                "not loaded within {} s; it may still be loading: use wait_for, or go elsewhere",
                limit.as_secs_f32()
            )),
        })
    }

    /// Where the tab is: URL, title and status.
    pub(crate) async fn place(&self) -> Result<String> {
        let answers = self.refresh_title(Duration::from_millis(1500)).await;
        self.with(|tab| {
            let status = tab.requests.document_status.as_ref();
            let status = status.filter(|it| it.0 == tab.loader).map(|it| format!(" ({})", it.1));
            let state = match (tab.document, answers) {
                (_, false) => ", its scripts keep it busy",
                (DocumentState::Loading, true) => ", still loading",
                (DocumentState::Ready | DocumentState::Loaded, true) => "",
            };
            let (url, title) = (shown(&tab.url, 150), quoted(&tab.title, 80));
            format!("tab {}: {url} {title}{}{state}", tab.number, status.unwrap_or_default())
        })
    }

    async fn open(&self, url: &str, limit: Duration) -> Result<Arrival> {
        // A crashed tab gets a new process with its next page.
        self.with(|it| it.health = TabHealth::Running)?;
        let before = self.with(|it| it.loader.clone())?;
        let refusal = self.context.guard.newest_refusal();
        let params = json!({"url": url});
        let method = "Page.navigate";
        let navigated = match self.call_page(&self.session, method, params, limit).await {
            Ok(Some(navigated)) => decode::<NavigationResponse>(method, &navigated)?,
            Ok(None) => return Ok(Arrival::Held),
            Err(BrowserError::Busy(_)) => {
                self.browser.cdp.post(Some(&self.session), "Page.stopLoading", json!({}));
                return Ok(Arrival::Late);
            }
            Err(error) => return Err(error),
        };
        if navigated.is_download {
            return Ok(Arrival::Download);
        }
        if let Some(error) = navigated.error_text.filter(|it| !it.is_empty()) {
            let refused = self.context.guard.refusals_since(refusal);
            let refused = refused
                .into_iter()
                .find(|it| url.contains(it.host.as_str()))
                .or_else(|| self.context.guard.refusals_since(refusal).into_iter().next());
            return Err(match refused {
                Some(refused) => refused.reason.into(),
                None if error == "net::ERR_ABORTED" => return Ok(Arrival::Download),
                None => BrowserError::Load(explain(&error)),
            });
        }
        match navigated.loader_id {
            None => Ok(Arrival::SameDocument),
            Some(loader) => {
                let awaited = TargetDocument::Loader { loader, before };
                Ok(self.arrive(&awaited, limit).await)
            }
        }
    }

    /// Waits for a document.
    async fn arrive(&self, awaited: &TargetDocument, limit: Duration) -> Arrival {
        let tab = self.tab;
        let at = |state: &mut crate::browser::context::ContextState, wanted: DocumentState| {
            let Some(tab) = state.tabs.get(&tab) else { return Some(Arrival::Held) };
            if tab.dialogs.open.is_some() || tab.health == TabHealth::Crashed {
                return Some(Arrival::Held);
            }
            let is_it = match awaited {
                // A script of the page may have gone on to another one.
                TargetDocument::Loader { loader, before } => {
                    tab.loader == *loader || (tab.loader != *before && !tab.is_navigating)
                }
                TargetDocument::Other(before) => tab.loader != *before,
            };
            (is_it && tab.document >= wanted).then_some(Arrival::Arrived)
        };
        match self.context.wait(limit, |it| at(it, DocumentState::Ready)).await {
            None => Arrival::Late,
            Some(Arrival::Arrived) => {
                let loaded = self.context.wait(LOAD_LIMIT, |it| at(it, DocumentState::Loaded));
                match loaded.await {
                    Some(Arrival::Held) => Arrival::Held,
                    Some(_) | None => Arrival::Arrived,
                }
            }
            Some(other) => other,
        }
    }

    async fn reload(&self, limit: Duration) -> Result<Arrival> {
        let before = self.with(|it| {
            it.health = TabHealth::Running;
            it.loader.clone()
        })?;
        self.browser.cdp.post(Some(&self.session), "Page.reload", json!({}));
        Ok(self.arrive(&TargetDocument::Other(before), limit).await)
    }

    async fn travel(&self, by: i64, limit: Duration) -> Result<Arrival> {
        let method = "Page.getNavigationHistory";
        let history = self.call(method, json!({})).await?;
        let history: History = decode(method, &history)?;
        let wanted = usize::try_from(history.current_index + by).ok();
        let entry = wanted.and_then(|it| history.entries.get(it));
        let entry =
            entry.filter(|it| it.url != "about:blank" || by > 0 || history.entries.len() == 1);
        let entry = entry.ok_or_else(|| {
            let word = if by < 0 { "before" } else { "after" };
            BrowserError::Load(format!("there is no page {word} this one"))
        })?;
        let (loader, url) = self.with(|it| (it.loader.clone(), it.url.clone()))?;
        let params = json!({"entryId": entry.id});
        let method = "Page.navigateToHistoryEntry";
        self.browser.cdp.call(Some(&self.session), method, params).await.map_err(
            |it| match it {
                CdpError::Timeout { .. } => BrowserError::Busy(10.0),
                CdpError::Closed
                | CdpError::SessionEnded
                | CdpError::Refused { .. }
                | CdpError::Unreadable { .. }
                | CdpError::TooLong { .. } => it.into(),
            },
        )?;
        let tab = self.tab;
        let moved = self.context.wait(limit, |state| {
            let Some(tab) = state.tabs.get(&tab) else { return Some(Arrival::Held) };
            if tab.dialogs.open.is_some() {
                return Some(Arrival::Held);
            }
            let is_new = tab.loader != loader && tab.document >= DocumentState::Ready;
            let is_same = tab.loader == loader && tab.url != url;
            match (is_new, is_same) {
                (true, _) => Some(Arrival::Arrived),
                (false, true) => Some(Arrival::SameDocument),
                (false, false) => None,
            }
        });
        Ok(moved.await.unwrap_or(Arrival::Late))
    }
}

/// The browser's name of an error, in words.
fn explain(error: &str) -> String {
    let words = match error {
        "net::ERR_NAME_NOT_RESOLVED" | "net::ERR_SOCKS_CONNECTION_HOST_UNREACHABLE" => {
            "its host was not found or cannot be reached"
        }
        "net::ERR_SOCKS_CONNECTION_FAILED"
        | "net::ERR_CONNECTION_REFUSED"
        | "net::ERR_PROXY_CONNECTION_FAILED" => {
            "its host refused the connection or cannot be reached"
        }
        "net::ERR_CONNECTION_TIMED_OUT" | "net::ERR_TIMED_OUT" => "it did not answer in time",
        "net::ERR_EMPTY_RESPONSE" => "it answered with nothing",
        "net::ERR_TOO_MANY_REDIRECTS" => "it redirects without end",
        "net::ERR_BLOCKED_BY_CLIENT" => "it is not among the allowed origins",
        "net::ERR_HTTP_RESPONSE_CODE_FAILURE" => "it answered with an error and without a page",
        _ if error.starts_with("net::ERR_CERT") => "its certificate is not valid",
        _ => return shown(error, 100),
    };
    format!("{words} ({error})")
}
