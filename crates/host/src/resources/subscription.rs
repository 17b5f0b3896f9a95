//! Hearing of changes to resources: what a holder sees of a subscription that a connection keeps.
//! Asking servers, and asking again after a reconnect, is left to the connection's task.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::protocol::era::Era;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::connection::dedicated::DedicatedConnection;
use crate::connection::{ConnectionHandle, ConnectionUse, ServerView};
use crate::host::Host;

/// How long a server may take to be told that nobody listens any more.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How often something happened to a resource. A reader that was away sees the sum: nothing queues up.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResourceActivity {
    /// How often the server said that it tells us.
    pub(crate) subscribed: u64,
    /// How often it said that the resource changed.
    pub(crate) updates: u64,
    /// What changed last: the resource, or a part of it.
    pub(crate) last_changed: Option<Arc<str>>,
    /// How often it said that it does not tell us.
    pub(crate) refusals: u64,
    /// Why, the last time.
    pub(crate) refusal_reason: Option<Arc<str>>,
}

/// What a holder hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceEvent {
    /// The server tells of changes from now on.
    Subscribed,
    /// It does so again, on another connection or stream. Changes between the two were missed.
    Resubscribed,
    /// The resource changed, once or more since the last news. One change may be told twice, none is left out.
    Updated {
        /// The resource, or the part of it that changed last.
        uri: String,
    },
    /// The server does not tell of changes.
    Refused(String),
}

/// Why nothing is heard of a resource.
#[derive(Debug, Error)]
pub enum SubscribeError {
    /// There is no such server.
    #[error("there is no server `{0}`")]
    UnknownServer(String),
    /// The server is not connected; the view says why.
    #[error("`{}` is not connected", .0.name)]
    NotConnected(Arc<ServerView>),
    /// The server cannot do it.
    #[error("`{0}` does not tell of changes to its resources")]
    Unsupported(String),
    /// Too many resources of one server are heard of already.
    #[error("`{0}` is asked about too many resources already")]
    TooMany(String),
}

/// One holder's hold on a resource's changes. Several holders share one subscription at the server, which ends when
/// the last of them is dropped.
#[derive(Debug)]
pub struct Subscription {
    uri: String,
    handle: ConnectionHandle,
    /// There until the end.
    activity: Option<watch::Receiver<ResourceActivity>>,
    seen: ResourceActivity,
    _use: ConnectionUse,
}

impl Host {
    /// Hears of changes to a resource from now on, across reconnects. Connects where nothing is connected.
    pub async fn subscribe(&self, server: &str, uri: &str) -> Result<Subscription, SubscribeError> {
        self.subscribe_dedicated(server, uri, None).await
    }

    /// The same on a connection that is not the one for everybody.
    pub async fn subscribe_dedicated(
        &self,
        server: &str,
        uri: &str,
        dedicated: Option<&DedicatedConnection>,
    ) -> Result<Subscription, SubscribeError> {
        let unknown_server = || SubscribeError::UnknownServer(server.to_owned());
        let handle = self.connection_for(server, dedicated).await.ok_or_else(unknown_server)?;
        handle.ensure_active(None).await.map_err(SubscribeError::NotConnected)?;
        let view = handle.view();
        let is_supported = view.server_info.as_ref().is_some_and(|it| match it.era {
            Era::Legacy => it.capabilities.resources.is_some_and(|it| it.subscribe),
            // Such a server says of each resource whether it tells of it.
            Era::Modern => it.capabilities.resources.is_some(),
        });
        if !is_supported {
            return Err(SubscribeError::Unsupported(server.to_owned()));
        }
        let activity = handle.subscribe(uri).await;
        let activity = activity.ok_or_else(|| SubscribeError::TooMany(server.to_owned()))?;
        let seen =
            ResourceActivity { updates: activity.borrow().updates, ..ResourceActivity::default() };
        let _use = handle.begin_use();
        Ok(Subscription { uri: uri.to_owned(), handle, activity: Some(activity), seen, _use })
    }
}

impl Subscription {
    /// The resource.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The next news; none when the server is not wanted any more. May be dropped and asked again.
    pub async fn next(&mut self) -> Option<ResourceEvent> {
        let activity = self.activity.as_mut()?;
        loop {
            let now = activity.borrow_and_update().clone();
            if let Some(news) = next_event(&mut self.seen, &now) {
                return Some(news);
            }
            activity.changed().await.ok()?;
        }
    }

    /// Ends it, and comes back when the server was told, unless that takes too long.
    pub async fn unsubscribe(mut self) {
        drop(self.activity.take());
        let _took_too_long = timeout(UNSUBSCRIBE_TIMEOUT, self.handle.unsubscribe()).await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The task counts those who listen, so this one goes first.
        if let Some(activity) = self.activity.take() {
            drop(activity);
            self.handle.unsubscribe_soon();
        }
    }
}

/// The first thing in `now` that was not seen.
fn next_event(seen: &mut ResourceActivity, now: &ResourceActivity) -> Option<ResourceEvent> {
    // A server that tells of a change has subscribed us, whether its answer was heard already or not.
    let is_unacknowledged = seen.subscribed == 0 && now.updates > seen.updates;
    if now.subscribed > seen.subscribed || is_unacknowledged {
        let is_first = seen.subscribed == 0;
        seen.subscribed = now.subscribed.max(1);
        return Some(if is_first {
            ResourceEvent::Subscribed
        } else {
            ResourceEvent::Resubscribed
        });
    }
    if now.updates > seen.updates {
        seen.updates = now.updates;
        let uri = now.last_changed.as_deref().unwrap_or_default().to_owned();
        return Some(ResourceEvent::Updated { uri });
    }
    if now.refusals > seen.refusals {
        seen.refusals = now.refusals;
        return Some(ResourceEvent::Refused(
            now.refusal_reason.as_deref().unwrap_or_default().to_owned(),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_comes_before_the_answer_is_news_after_it() {
        let mut seen = ResourceActivity::default();
        let early = ResourceActivity {
            updates: 1,
            last_changed: Some("a".into()),
            ..ResourceActivity::default()
        };
        assert_eq!(next_event(&mut seen, &early), Some(ResourceEvent::Subscribed));
        assert_eq!(
            next_event(&mut seen, &early),
            Some(ResourceEvent::Updated { uri: "a".to_owned() })
        );
        let answered = ResourceActivity { subscribed: 1, ..early };
        assert_eq!(next_event(&mut seen, &answered), None);
    }

    #[test]
    fn many_updates_that_nobody_read_are_one() {
        let mut seen = ResourceActivity::default();
        let now = ResourceActivity {
            subscribed: 2,
            updates: 9,
            last_changed: Some("a".into()),
            ..ResourceActivity::default()
        };
        assert_eq!(next_event(&mut seen, &now), Some(ResourceEvent::Subscribed));
        assert_eq!(
            next_event(&mut seen, &now),
            Some(ResourceEvent::Updated { uri: "a".to_owned() })
        );
        assert_eq!(next_event(&mut seen, &now), None);
        let later = ResourceActivity {
            subscribed: 3,
            refusals: 1,
            refusal_reason: Some("no".into()),
            ..now
        };
        assert_eq!(next_event(&mut seen, &later), Some(ResourceEvent::Resubscribed));
        assert_eq!(next_event(&mut seen, &later), Some(ResourceEvent::Refused("no".to_owned())));
        assert_eq!(next_event(&mut seen, &later), None);
    }
}
