//! Hearing of changes to resources: what a holder sees of a subscription that a connection keeps.
//! Asking servers, and asking again after a reconnect, is left to the connection's task.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::era::Era;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::connection::{Handle, Use, View};
use crate::engine::Host;
use crate::lane::Lane;

/// How long a server may take to be told that nobody listens any more.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often something happened to a resource. A reader that was away sees the sum: nothing queues up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse {
    /// How often the server said that it tells us.
    pub(crate) subscribed: u64,
    /// How often it said that the resource changed.
    pub(crate) updates: u64,
    /// What changed last: the resource, or a part of it.
    pub(crate) changed: Option<Arc<str>>,
    /// How often it said that it does not tell us.
    pub(crate) refusals: u64,
    /// Why, the last time.
    pub(crate) refused: Option<Arc<str>>,
}

/// What a holder hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The server tells of changes from now on.
    Subscribed,
    /// It does so again, on another connection or stream. Changes between the two were missed.
    Again,
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
    NoServer(String),
    /// The server is not connected; the view says why.
    #[error("`{}` is not connected", .0.name)]
    NotConnected(Arc<View>),
    /// The server cannot do it.
    #[error("`{0}` does not tell of changes to its resources")]
    Unable(String),
    /// Too many resources of one server are heard of already.
    #[error("`{0}` is asked about too many resources already")]
    TooMany(String),
}

/// One holder's hold on a resource's changes. Several holders share one subscription at the server, which ends when
/// the last of them is dropped.
#[derive(Debug)]
pub struct Subscription {
    uri: String,
    handle: Handle,
    /// There until the end.
    pulse: Option<watch::Receiver<Pulse>>,
    seen: Pulse,
    _use: Use,
}

impl Host {
    /// Hears of changes to a resource from now on, across reconnects. Connects where nothing is connected.
    pub async fn subscribe(&self, server: &str, uri: &str) -> Result<Subscription, SubscribeError> {
        self.subscribe_on(server, uri, None).await
    }

    /// The same on a connection that is not the one for everybody.
    pub async fn subscribe_on(
        &self,
        server: &str,
        uri: &str,
        lane: Option<&Lane>,
    ) -> Result<Subscription, SubscribeError> {
        let no_server = || SubscribeError::NoServer(server.to_owned());
        let handle = self.handle_on(server, lane).await.ok_or_else(no_server)?;
        handle.live(None).await.map_err(SubscribeError::NotConnected)?;
        let view = handle.view();
        let is_able = view.introduction.as_ref().is_some_and(|it| match it.era {
            Era::Legacy => it.capabilities.resources.is_some_and(|it| it.takes_subscriptions),
            // Such a server says of each resource whether it tells of it.
            Era::Modern => it.capabilities.resources.is_some(),
        });
        if !is_able {
            return Err(SubscribeError::Unable(server.to_owned()));
        }
        let pulse = handle.subscribe(uri).await;
        let pulse = pulse.ok_or_else(|| SubscribeError::TooMany(server.to_owned()))?;
        let seen = Pulse { updates: pulse.borrow().updates, ..Pulse::default() };
        let _use = handle.in_use();
        Ok(Subscription { uri: uri.to_owned(), handle, pulse: Some(pulse), seen, _use })
    }
}

impl Subscription {
    /// The resource.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The next news; none when the server is not wanted any more. May be dropped and asked again.
    pub async fn next(&mut self) -> Option<News> {
        let pulse = self.pulse.as_mut()?;
        loop {
            let now = pulse.borrow_and_update().clone();
            if let Some(news) = news(&mut self.seen, &now) {
                return Some(news);
            }
            pulse.changed().await.ok()?;
        }
    }

    /// Ends it, and comes back when the server was told, unless that takes too long.
    pub async fn end(mut self) {
        drop(self.pulse.take());
        let _took_too_long = timeout(FAREWELL, self.handle.unsubscribe()).await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The task counts those who listen, so this one goes first.
        if let Some(pulse) = self.pulse.take() {
            drop(pulse);
            self.handle.unsubscribe_soon();
        }
    }
}

/// The first thing in `now` that was not seen.
fn news(seen: &mut Pulse, now: &Pulse) -> Option<News> {
    // A server that tells of a change has subscribed us, whether its answer was heard already or not.
    let is_silently = seen.subscribed == 0 && now.updates > seen.updates;
    if now.subscribed > seen.subscribed || is_silently {
        let is_first = seen.subscribed == 0;
        seen.subscribed = now.subscribed.max(1);
        return Some(if is_first { News::Subscribed } else { News::Again });
    }
    if now.updates > seen.updates {
        seen.updates = now.updates;
        let uri = now.changed.as_deref().unwrap_or_default().to_owned();
        return Some(News::Updated { uri });
    }
    if now.refusals > seen.refusals {
        seen.refusals = now.refusals;
        return Some(News::Refused(now.refused.as_deref().unwrap_or_default().to_owned()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_comes_before_the_answer_is_news_after_it() {
        let mut seen = Pulse::default();
        let early = Pulse { updates: 1, changed: Some("a".into()), ..Pulse::default() };
        assert_eq!(news(&mut seen, &early), Some(News::Subscribed));
        assert_eq!(news(&mut seen, &early), Some(News::Updated { uri: "a".to_owned() }));
        let answered = Pulse { subscribed: 1, ..early };
        assert_eq!(news(&mut seen, &answered), None);
    }

    #[test]
    fn many_updates_that_nobody_read_are_one() {
        let mut seen = Pulse::default();
        let now =
            Pulse { subscribed: 2, updates: 9, changed: Some("a".into()), ..Pulse::default() };
        assert_eq!(news(&mut seen, &now), Some(News::Subscribed));
        assert_eq!(news(&mut seen, &now), Some(News::Updated { uri: "a".to_owned() }));
        assert_eq!(news(&mut seen, &now), None);
        let later = Pulse { subscribed: 3, refusals: 1, refused: Some("no".into()), ..now };
        assert_eq!(news(&mut seen, &later), Some(News::Again));
        assert_eq!(news(&mut seen, &later), Some(News::Refused("no".to_owned())));
        assert_eq!(news(&mut seen, &later), None);
    }
}
