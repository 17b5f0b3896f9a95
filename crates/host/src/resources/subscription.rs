//! Subscriptions to resources, as their holders see them.
//! Telling servers, also after a reconnect, is left to the connection's actor.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::protocol::era::Era;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::connection::dedicated::DedicatedConnection;
use crate::connection::handle::{ConnectionHandle, ConnectionUse};
use crate::connection::resource_subscriptions::ResourceActivity;
use crate::connection::status::ServerView;
use crate::engine::handle::EngineHandle;

/// How long [`Subscription::unsubscribe`] waits for the server.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// An event of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceEvent {
    /// The server confirmed the subscription.
    Subscribed,
    /// The server confirmed it again, on another connection or stream. Changes in between were missed.
    Resubscribed,
    /// The resource changed, once or more since the last event. A change may be reported twice, but never be missed.
    Updated {
        /// The resource, or the part of it that changed last.
        uri: String,
    },
    /// The server refused the subscription, for this reason.
    Refused(String),
}

/// Why a subscription failed.
#[derive(Debug, Error)]
pub enum SubscribeError {
    /// There is no such server.
    #[error("there is no server `{0}`")]
    UnknownServer(String),
    /// The server is not connected; the view says why.
    #[error("`{}` is not connected", .0.name)]
    NotConnected(Arc<ServerView>),
    /// The server does not support subscriptions.
    #[error("`{0}` does not announce changes of its resources")]
    Unsupported(String),
    /// There are too many subscriptions at the server.
    #[error("there are too many subscriptions to resources of `{0}`")]
    TooMany(String),
}

/// A subscription to a resource. All subscriptions to one resource share one at the server, which ends when the last of
/// them is dropped.
#[derive(Debug)]
pub struct Subscription {
    uri: String,
    handle: ConnectionHandle,
    /// `None` after the end.
    activity: Option<watch::Receiver<ResourceActivity>>,
    seen: ResourceActivity,
    _use: ConnectionUse,
}

/// Subscribes to a resource, across reconnects. Connects to the server where it is not connected.
pub(crate) async fn subscribe(
    engine: &EngineHandle,
    server: &str,
    uri: &str,
    dedicated: Option<&DedicatedConnection>,
) -> Result<Subscription, SubscribeError> {
    let unknown_server = || SubscribeError::UnknownServer(server.to_owned());
    let handle = engine.connection_for(server, dedicated).await.ok_or_else(unknown_server)?;
    handle.ensure_active(None).await.map_err(SubscribeError::NotConnected)?;
    let view = handle.view();
    let is_supported = view.server_info.as_ref().is_some_and(|it| match it.era {
        Era::Legacy => it.capabilities.resources.is_some_and(|it| it.subscribe),
        // A modern server confirms or refuses each resource.
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

impl Subscription {
    /// The resource's URI.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits for the next event; `None` when the server was removed. Cancel-safe.
    pub async fn next(&mut self) -> Option<ResourceEvent> {
        let activity = self.activity.as_mut()?;
        loop {
            let now = activity.borrow_and_update().clone();
            if let Some(event) = next_event(&mut self.seen, &now) {
                return Some(event);
            }
            activity.changed().await.ok()?;
        }
    }

    /// Ends the subscription. Returns when the server has been told, or after a timeout.
    pub async fn unsubscribe(mut self) {
        drop(self.activity.take());
        let _took_too_long = timeout(UNSUBSCRIBE_TIMEOUT, self.handle.unsubscribe()).await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The actor counts receivers, so this one is dropped first.
        if let Some(activity) = self.activity.take() {
            drop(activity);
            self.handle.unsubscribe_soon();
        }
    }
}

/// The first event in `now` that is not in `seen`.
fn next_event(seen: &mut ResourceActivity, now: &ResourceActivity) -> Option<ResourceEvent> {
    // A server that announces a change has confirmed the subscription, even where its response comes later.
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
    fn a_change_before_the_confirmation_is_reported_after_it() {
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
    fn unread_updates_are_reported_as_one() {
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
