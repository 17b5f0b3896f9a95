//! The log levels of all clients. One task owns them and publishes the lowest; another sends it to legacy servers when it
//! changes, and to servers that are new.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use serde_json::json;
use switchboard::request::ServerRequest;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::log_level::LogLevel;
use tokio::sync::{mpsc, watch};

use super::{REQUEST_TIMEOUT, Relay};
use crate::downstream::leases::ConnectionLease;
use crate::downstream::request::InboundRequest;
use crate::json::payload;
use crate::method::Method;

/// The capacity of the queue of changes. Its task never waits, so that the queue is short.
const CHANGE_CAPACITY: usize = 64;

/// The log levels of all clients.
#[derive(Debug)]
pub(crate) struct LogLevels {
    changes: mpsc::Sender<LevelChange>,
    lowest: watch::Receiver<Option<LogLevel>>,
}

#[derive(Debug)]
enum LevelChange {
    Set { client: u64, level: LogLevel },
    Remove { client: u64 },
}

impl LogLevels {
    /// No levels, and the task that owns them. The task ends when the value is dropped.
    pub(crate) fn new() -> (LogLevels, impl Future<Output = ()> + Send + 'static) {
        let (changes, receiver) = mpsc::channel(CHANGE_CAPACITY);
        let (publish, lowest) = watch::channel(None);
        (LogLevels { changes, lowest }, run(receiver, publish))
    }

    pub(super) async fn set(&self, client: u64, level: LogLevel) {
        let _task_ended = self.changes.send(LevelChange::Set { client, level }).await;
    }

    pub(super) async fn remove(&self, client: u64) {
        let _task_ended = self.changes.send(LevelChange::Remove { client }).await;
    }

    /// The lowest level of all clients, if any client set one.
    fn lowest(&self) -> Option<LogLevel> {
        *self.lowest.borrow()
    }
}

async fn run(mut changes: mpsc::Receiver<LevelChange>, lowest: watch::Sender<Option<LogLevel>>) {
    let mut levels: HashMap<u64, LogLevel> = HashMap::new();
    while let Some(change) = changes.recv().await {
        match change {
            LevelChange::Set { client, level } => {
                levels.insert(client, level);
            }
            LevelChange::Remove { client } => {
                if levels.remove(&client).is_none() {
                    continue;
                }
            }
        }
        let _no_readers = lowest.send(levels.values().min().copied());
    }
}

impl Relay {
    /// Sends the lowest level of all clients to a server. Failures are ignored: the server is told again when the
    /// level changes.
    async fn send_log_level(&self, server: &str) {
        if let Some(level) = self.log_levels.lowest() {
            let _best_effort = self.host.request(server, set_level_request(level)).await;
        }
    }

    /// A modern client sets its level in each request; sends it to a legacy server before the request.
    pub(super) async fn send_log_level_for(
        &self,
        request: &InboundRequest,
        (server, lease): (&str, Option<&ConnectionLease>),
    ) {
        let client = request.client();
        let Some(level) = client.log_level().filter(|_| client.era == Era::Modern) else { return };
        let needs_level = {
            let catalogue = self.catalogues.borrow();
            catalogue.servers.iter().any(|it| *it.server == *server && it.needs_log_level())
        };
        if !needs_level {
            return;
        }
        let lowest = self.log_levels.lowest().map_or(level, |it| it.min(level));
        let span = self.tracer.start_upstream(&request.upstream_attributes(server, None));
        let server_request = set_level_request(lowest).on_behalf_of(self.on_behalf_of(
            request,
            (server, lease),
            &span,
        ));
        let _best_effort = self.host.request(server, server_request).await;
    }
}

fn set_level_request(level: LogLevel) -> ServerRequest {
    ServerRequest {
        params: Some(payload(&json!({"level": level.as_str()}))),
        ..ServerRequest::idempotent(Method::SetLogLevel.to_name(), REQUEST_TIMEOUT)
    }
}

/// Sends the lowest level to all legacy servers when it changes, and to each server that is new. Ends with the relay.
pub(crate) async fn propagate_log_levels(relay: Weak<Relay>) {
    let Some((mut lowest, mut catalogues)) =
        relay.upgrade().map(|it| (it.log_levels.lowest.clone(), it.catalogues.clone()))
    else {
        return;
    };
    let mut notified: BTreeSet<Arc<str>> = BTreeSet::new();
    loop {
        let (changed, is_level_change) = tokio::select! {
            changed = lowest.changed() => (changed, true),
            changed = catalogues.changed() => (changed, false),
        };
        if changed.is_err() {
            return;
        }
        let Some(relay) = relay.upgrade() else { return };
        let catalogue = catalogues.borrow().clone();
        let servers: BTreeSet<Arc<str>> = catalogue
            .servers
            .iter()
            .filter(|it| it.needs_log_level())
            .map(|it| it.server.clone())
            .collect();
        for server in &servers {
            if is_level_change || !notified.contains(server) {
                relay.send_log_level(server).await;
            }
        }
        notified = servers;
    }
}
