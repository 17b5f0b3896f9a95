//! An open connection and everything that ends with it: its lists, its change stream, its resource stream and its ping.
//! Whether it is kept, and what follows when it is lost, is left to the actor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use switchboard_wire::connect::Connection;
use switchboard_wire::peer::{CallError, PeerEvent};
use switchboard_wire::process::child::DescendantSearch;
use switchboard_wire::transport::CloseReason;
use tokio::time::Instant;

use crate::catalogue::lists::ListKind;
use crate::connection::catalogue_sync::{CatalogueSync, ListFetcher, SyncEvent};
use crate::connection::change_stream::{ChangeStream, ChangeStreamEvent};
use crate::connection::optional_wait::wait_for;
use crate::connection::resource_revision::ResourceRevision;
use crate::connection::resource_subscriptions::{ResourceWatch, WatchEvent};
use crate::connection::status::ActiveConnection;
use crate::failure;
use crate::failure::{ConnectionFailure, FailureKind};

/// This many transport failures in a row close the connection.
const MAX_CONSECUTIVE_FAILURES: u32 = 3;
/// The timeout of a ping. With the interval of the checks, a server that is gone is noticed within 15 seconds.
const PING_TIMEOUT: Duration = Duration::from_secs(8);

type PingFuture = Pin<Box<dyn Future<Output = Result<Duration, CallError>> + Send>>;

/// An open connection and everything that ends with it.
pub(super) struct OpenConnection {
    pub(super) connection: Connection,
    pub(super) lists: CatalogueSync,
    pub(super) changes: ChangeStream,
    pub(super) resources: ResourceWatch,
    pub(super) resource_revision: ResourceRevision,
    /// The time from the start of the attempt to the first lists; `None` until they are there.
    pub(super) time_to_ready: Option<Duration>,
    opened: Instant,
    consecutive_failures: Arc<AtomicU32>,
    ping: Option<PingFuture>,
}

/// The events of an open connection.
pub(super) enum OpenConnectionEvent {
    Message(PeerEvent),
    Closed(CloseReason),
    ChangeStream(ChangeStreamEvent),
    Lists(SyncEvent),
    PingFinished(Result<Duration, CallError>),
    Resources(WatchEvent),
}

impl OpenConnection {
    /// Starts to fetch the lists and to listen for changes.
    pub(super) fn start(
        connection: Connection,
        fetcher: ListFetcher,
        resources: ResourceWatch,
    ) -> OpenConnection {
        let client = connection.client.clone();
        OpenConnection {
            connection,
            lists: CatalogueSync::start(fetcher),
            changes: ChangeStream::start(client),
            resources,
            resource_revision: ResourceRevision::default(),
            time_to_ready: None,
            opened: Instant::now(),
            consecutive_failures: Arc::default(),
            ping: None,
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> OpenConnectionEvent {
        let client = self.connection.client.clone();
        tokio::select! {
            biased;
            message = self.connection.next_event() => OpenConnectionEvent::Message(message),
            // Before the lists, which look empty when the connection has ended.
            reason = client.closed() => OpenConnectionEvent::Closed(reason),
            // Before the lists, so that the stream is requested first and no change is lost between the two.
            event = self.changes.next() => OpenConnectionEvent::ChangeStream(event),
            event = self.lists.next() => OpenConnectionEvent::Lists(event),
            result = wait_for(&mut self.ping) => {
                self.ping = None;
                OpenConnectionEvent::PingFinished(result)
            }
            event = self.resources.next() => OpenConnectionEvent::Resources(event),
        }
    }

    /// Fetches all lists again where the change stream may have missed a change.
    pub(super) fn on_change_stream(&mut self, event: ChangeStreamEvent) {
        match event {
            ChangeStreamEvent::Ended(result) => {
                if self.changes.on_ended(&result) {
                    self.lists.mark_dirty(&ListKind::ALL);
                }
            }
            ChangeStreamEvent::RetryDue => self.changes.open(),
        }
    }

    /// Pings the server, unless a ping is under way.
    pub(super) fn ping(&mut self) {
        if self.ping.is_none() {
            let client = self.connection.client.clone();
            self.ping = Some(Box::pin(async move { client.ping(PING_TIMEOUT).await }));
        }
    }

    /// Counts a transport failure. Returns whether there were too many in a row.
    pub(super) fn count_failure(&self) -> bool {
        self.consecutive_failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_CONSECUTIVE_FAILURES
    }

    /// How long it has been open.
    pub(super) fn lived(&self) -> Duration {
        self.opened.elapsed()
    }

    /// The failure of a lost connection, with the exit status of the program where it ended. The evidence from its
    /// output is returned separately, because other evidence comes first.
    pub(super) async fn lost_because(
        &mut self,
        cause: ConnectionFailure,
    ) -> (ConnectionFailure, failure::Evidence) {
        let exit = self.connection.exit_status().await;
        let stderr = self.connection.stderr_tail().await;
        let cause = match (exit, &cause.kind) {
            (Some(status), FailureKind::Closed) => {
                ConnectionFailure::new(failure::exit_failure(status))
            }
            (Some(_) | None, _) => cause,
        };
        (cause, failure::stderr_evidence(&stderr))
    }

    /// The part of the connection that callers use.
    pub(super) fn active(&self, generation: u64) -> ActiveConnection {
        ActiveConnection {
            client: self.connection.client.clone(),
            generation,
            resource_revision: self.resource_revision.clone(),
            consecutive_failures: self.consecutive_failures.clone(),
        }
    }

    /// Ends everything that uses the connection, then closes it.
    pub(super) async fn close(self, search: DescendantSearch) {
        let OpenConnection { connection, lists, changes, ping, resources, .. } = self;
        drop((lists, changes, ping, resources));
        connection.close(search).await;
    }
}
