//! The stream of a modern server that announces changed lists (`subscriptions/listen`), reopened with backoff.
//! Legacy servers announce changes without one.

use std::time::Duration;

use serde_json::json;
use switchboard_wire::backoff::Backoff;
use switchboard_wire::client::Client;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallError;
use switchboard_wire::protocol::era::Era;
use tokio::time::Instant;

use crate::connection::optional_wait::{wait_for, wait_until};

/// The backoff between two streams. A stream that lasted as long as the longest delay resets it.
pub(super) const LISTEN_BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(2), Duration::from_secs(60));

/// A `subscriptions/listen` request, which ends when the stream ends.
pub(super) type ListenFuture =
    std::pin::Pin<Box<dyn Future<Output = Result<Payload, CallError>> + Send>>;

/// Starts a `subscriptions/listen` request.
pub(super) fn listen(client: &Client, notifications: &serde_json::Value) -> ListenFuture {
    let params = json!({"notifications": notifications}).to_string();
    let params = Payload::from_json(params.into());
    Box::pin(client.request("subscriptions/listen").params(params).send())
}

/// The stream of one connection.
pub(super) struct ChangeStream {
    client: Client,
    stream: Option<ListenFuture>,
    opened_at: Instant,
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// Whether the server has acknowledged the stream.
    is_acknowledged: bool,
    /// Whether a change may have been missed before that.
    may_have_missed: bool,
}

/// Something that happened to a [`ChangeStream`].
pub(super) enum ChangeStreamEvent {
    /// The stream ended.
    Ended(Result<Payload, CallError>),
    /// The backoff elapsed.
    RetryDue,
}

impl ChangeStream {
    /// Opens the stream, where the server has one.
    pub(super) fn start(client: Client) -> ChangeStream {
        let mut changes = ChangeStream {
            client,
            stream: None,
            opened_at: Instant::now(),
            retry_at: None,
            backoff: LISTEN_BACKOFF,
            is_acknowledged: false,
            may_have_missed: false,
        };
        changes.open();
        changes
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> ChangeStreamEvent {
        tokio::select! {
            biased;
            result = wait_for(&mut self.stream) => {
                self.stream = None;
                ChangeStreamEvent::Ended(result)
            }
            () = wait_until(self.retry_at) => {
                self.retry_at = None;
                ChangeStreamEvent::RetryDue
            }
        }
    }

    /// Opens the stream, where the server is modern and announces changes.
    pub(super) fn open(&mut self) {
        let server = self.client.server();
        if server.era != Era::Modern {
            return;
        }
        let mut filter = serde_json::Map::new();
        let capabilities = &server.capabilities;
        for (list, name) in [
            (capabilities.tools, "toolsListChanged"),
            (capabilities.resources, "resourcesListChanged"),
            (capabilities.prompts, "promptsListChanged"),
        ] {
            if list.is_some_and(|it| it.list_changed) {
                filter.insert(name.to_owned(), true.into());
            }
        }
        if filter.is_empty() {
            return;
        }
        self.stream = Some(listen(&self.client, &filter.into()));
        self.opened_at = Instant::now();
    }

    /// Plans to reopen the stream, unless the server refused it. Returns whether changes may have been missed, so that
    /// all lists must be fetched.
    pub(super) fn on_ended(&mut self, result: &Result<Payload, CallError>) -> bool {
        match result {
            Err(CallError::Remote(_)) => false,
            Ok(_)
            | Err(CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }) => {
                self.backoff.reset_if_lasted(self.opened_at.elapsed());
                self.retry_at = Some(Instant::now() + self.backoff.next_delay());
                self.may_have_missed = true;
                true
            }
        }
    }

    /// Takes note of the server's acknowledgement. Returns whether changes may have been missed before it.
    pub(super) fn on_acknowledged(&mut self) -> bool {
        self.is_acknowledged = true;
        std::mem::take(&mut self.may_have_missed)
    }

    /// Takes note that the first lists were fetched. What changes from now until the acknowledgement may be missed.
    pub(super) fn on_first_lists(&mut self) {
        self.may_have_missed = self.stream.is_some() && !self.is_acknowledged;
    }
}
