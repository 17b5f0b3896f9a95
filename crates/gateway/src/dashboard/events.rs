//! Live updates of one page, as server-sent events: the sections that changed, at most four times a second. Nothing is
//! queued: a section is rendered when the browser can take it, so that a slow reader gets the newest state.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use maud::Markup;
use serde_json::{Map, Value as Json, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::access::DashboardSession;
use super::clients::ClientDirectory;
use super::context::{Dashboard, ScreenContext};
use super::page::{RenderScope, Section, announcement, approvals_count};
use super::screens::Screen;

/// The path of the events.
pub(crate) const PATH: &str = "/ui/events";
/// The least time between two events.
pub(crate) const EVENT_INTERVAL: Duration = Duration::from_millis(250);
/// How long a stream is silent before it sends a comment, which also shows whether the browser is gone.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How often the session is checked.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE: Bytes = Bytes::from_static(b": still here\n\n");

/// The stream of a page. None if too many pages are open. It ends with the session.
pub(crate) fn stream(
    dashboard: Dashboard,
    screen: Screen,
    (secret, session): (String, DashboardSession),
    clients: Arc<dyn ClientDirectory>,
) -> Option<Pin<Box<dyn Stream<Item = Bytes> + Send>>> {
    let slot = dashboard.0.open_pages.clone().try_acquire_owned().ok()?;
    let now = Instant::now();
    let page = OpenPage {
        dashboard,
        screen,
        secret,
        session,
        clients,
        _slot: slot,
        changes: Changes::default(),
        next: now,
        last_sent: now,
        session_checked: now,
    };
    Some(Box::pin(stream::unfold(page, |mut page| async move {
        let event = page.next_event().await?;
        Some((event, page))
    })))
}

struct OpenPage {
    dashboard: Dashboard,
    screen: Screen,
    secret: String,
    session: DashboardSession,
    clients: Arc<dyn ClientDirectory>,
    _slot: OwnedSemaphorePermit,
    changes: Changes,
    next: Instant,
    last_sent: Instant,
    session_checked: Instant,
}

impl OpenPage {
    /// The next event. None when the session has ended.
    async fn next_event(&mut self) -> Option<Bytes> {
        loop {
            sleep_until(self.next).await;
            if self.session_checked.elapsed() >= SESSION_CHECK_INTERVAL {
                self.dashboard.0.access.check(&self.secret).await?;
                self.session_checked = Instant::now();
            }
            let sections = self.render().await;
            // From the end of the rendering, so that a slow page is not rendered all the time.
            self.next = Instant::now() + EVENT_INTERVAL;
            if let Some(event) = self.changes.event(sections) {
                self.last_sent = Instant::now();
                return Some(event);
            }
            if self.last_sent.elapsed() >= KEEPALIVE_INTERVAL {
                self.last_sent = Instant::now();
                return Some(KEEPALIVE);
            }
        }
    }

    async fn render(&self) -> Vec<(&'static str, Markup)> {
        let parts = &self.dashboard.0;
        let context =
            ScreenContext { parts, clients: &*self.clients, page_token: &self.session.page_token };
        let view = self.screen.render(context, RenderScope::Live).await;
        let waiting = parts.approvals.pending().len();
        let mut sections: Vec<(&'static str, Markup)> = vec![
            ("approvals-count", approvals_count(waiting)),
            ("announcement", announcement(waiting)),
        ];
        sections.extend(view.sections.into_iter().filter_map(|section| match section {
            Section::Live(id, markup) => Some((id, markup)),
            Section::Static(_) => None,
        }));
        sections
    }
}

/// What a browser has received, as hashes.
#[derive(Debug, Default)]
struct Changes {
    hashes: HashMap<&'static str, u64>,
    hasher: RandomState,
}

impl Changes {
    /// The event with the sections that differ from those that were sent last. None if there are none.
    fn event(&mut self, sections: Vec<(&'static str, Markup)>) -> Option<Bytes> {
        let mut changed = Map::new();
        for (id, markup) in sections {
            let hash = self.hasher.hash_one(&markup.0);
            if self.hashes.insert(id, hash) != Some(hash) {
                changed.insert(id.to_owned(), Json::String(markup.0));
            }
        }
        // JSON has no line breaks, as the data of an event requires.
        (!changed.is_empty()).then(|| format!("data: {}\n\n", json!({"sections": changed})).into())
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    #[test]
    fn an_event_has_only_what_changed() {
        let mut changes = Changes::default();
        let sections = |b: &str| vec![("a", html! { p { "x\ny" } }), ("b", html! { (b) })];
        let text =
            |event: Option<Bytes>| event.map(|it| String::from_utf8(it.to_vec()).expect("text"));
        let first = text(changes.event(sections("<1>"))).expect("all is new");
        assert_eq!(first, "data: {\"sections\":{\"a\":\"<p>x\\ny</p>\",\"b\":\"&lt;1&gt;\"}}\n\n");
        assert_eq!(changes.event(sections("<1>")), None);
        let second = text(changes.event(sections("2"))).expect("one is new");
        assert_eq!(second, "data: {\"sections\":{\"b\":\"2\"}}\n\n");
    }
}
