//! What each session wants to hear: the resources that it subscribed to, and its log level. The server knows one
//! subscription per resource and one level.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_wire::protocol::log_level::LogLevel;

use super::SessionId;

/// The interests of all sessions.
#[derive(Debug, Default)]
pub(super) struct Interests {
    subscribers: BTreeMap<String, BTreeSet<SessionId>>,
    levels: BTreeMap<SessionId, LogLevel>,
    /// The level that the server was told.
    server_level: Option<LogLevel>,
}

/// What to do with a subscription or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionStep {
    /// The server has to know.
    Forward,
    /// Other sessions hold the same subscription.
    Respond,
}

/// What the server has to be told after a session left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EndedInterests {
    pub(super) unsubscribed: Vec<String>,
    pub(super) level: Option<LogLevel>,
}

impl Interests {
    pub(super) fn subscribe(&mut self, session: SessionId, uri: &str) -> SubscriptionStep {
        let subscribers = self.subscribers.entry(uri.to_owned()).or_default();
        let has_others = subscribers.iter().any(|it| *it != session);
        subscribers.insert(session);
        match has_others {
            true => SubscriptionStep::Respond,
            false => SubscriptionStep::Forward,
        }
    }

    pub(super) fn unsubscribe(&mut self, session: SessionId, uri: &str) -> SubscriptionStep {
        let Some(subscribers) = self.subscribers.get_mut(uri) else {
            return SubscriptionStep::Forward;
        };
        subscribers.remove(&session);
        match subscribers.is_empty() {
            true => {
                self.subscribers.remove(uri);
                SubscriptionStep::Forward
            }
            false => SubscriptionStep::Respond,
        }
    }

    /// The sessions that subscribed to a resource, or to one that contains it.
    pub(super) fn subscribers(&self, uri: &str) -> BTreeSet<SessionId> {
        let covers = |subscribed: &str| {
            uri.strip_prefix(subscribed).is_some_and(|rest| {
                rest.is_empty() || subscribed.ends_with('/') || rest.starts_with('/')
            })
        };
        let covering = self.subscribers.iter().filter(|(subscribed, _)| covers(subscribed));
        covering.flat_map(|(_, sessions)| sessions.iter().copied()).collect()
    }

    /// Sets the level of a session. Returns the level that the server has to be told, if it changes.
    pub(super) fn set_level(&mut self, session: SessionId, level: LogLevel) -> Option<LogLevel> {
        self.levels.insert(session, level);
        self.level_change()
    }

    /// Whether a session wants a log message of a level. A message without a valid level is wanted.
    pub(super) fn wants(&self, session: SessionId, level: Option<LogLevel>) -> bool {
        match (self.levels.get(&session), level) {
            (Some(lowest), Some(level)) => level >= *lowest,
            (None, _) | (_, None) => true,
        }
    }

    pub(super) fn leave(&mut self, session: SessionId) -> EndedInterests {
        let held: Vec<String> = self
            .subscribers
            .iter()
            .filter(|(_, sessions)| sessions.contains(&session))
            .map(|(uri, _)| uri.clone())
            .collect();
        let unsubscribed = held
            .into_iter()
            .filter(|uri| self.unsubscribe(session, uri) == SubscriptionStep::Forward)
            .collect();
        let had_level = self.levels.remove(&session).is_some();
        let level = if had_level { self.level_change() } else { None };
        EndedInterests { unsubscribed, level }
    }

    /// The most detailed level of all sessions, if it differs from that of the server.
    fn level_change(&mut self) -> Option<LogLevel> {
        let most_detailed = self.levels.values().min().copied()?;
        (self.server_level.replace(most_detailed) != Some(most_detailed)).then_some(most_detailed)
    }
}
