//! What readers see of a server and its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use switchboard_config::entry::server::{Fingerprint, TransportKind};
use switchboard_config::scope::Scope;
use switchboard_wire::client::Client;
use switchboard_wire::connect::Fallback;
use switchboard_wire::protocol::capabilities::ServerDescription;

use crate::catalogue::lists::Catalogue;
use crate::connection::resource_revision::ResourceRevision;
use crate::failure::ConnectionFailure;

/// The status of a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// It is being opened, or waits for a slot or for the next attempt.
    Pending {
        /// The number of the current attempt, from one.
        attempt: u32,
        /// The maximum number of attempts.
        max_attempts: u32,
        /// Why the last attempt failed, where one did.
        cause: Option<Arc<ConnectionFailure>>,
    },
    /// It is open.
    Connected,
    /// It could not be opened.
    Failed(Arc<ConnectionFailure>),
    /// The server requires a login.
    NeedsAuth(Arc<ConnectionFailure>),
    /// It was stopped.
    Disabled,
}

impl Status {
    /// The status in output.
    pub fn id(&self) -> &'static str {
        match self {
            Status::Pending { .. } => "pending",
            Status::Connected => "connected",
            Status::Failed(_) => "failed",
            Status::NeedsAuth(_) => "needs-auth",
            Status::Disabled => "disabled",
        }
    }

    /// Why the server is not connected, where that is known.
    pub fn cause(&self) -> Option<&Arc<ConnectionFailure>> {
        match self {
            Status::Pending { cause, .. } => cause.as_ref(),
            Status::Failed(cause) | Status::NeedsAuth(cause) => Some(cause),
            Status::Connected | Status::Disabled => None,
        }
    }

    /// Whether the status changes only on an event from outside.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Status::Pending { .. })
    }
}

/// A server and its connection at one moment.
#[derive(Debug, Clone)]
pub struct ServerView {
    /// The server's name.
    pub name: String,
    /// The scope of its definition.
    pub scope: Scope,
    /// The hash of its definition.
    pub fingerprint: Fingerprint,
    /// Its transport.
    pub transport: TransportKind,
    /// The status of the connection.
    pub status: Status,
    /// The server's description of itself, while it is connected.
    pub server_info: Option<ServerDescription>,
    /// Its lists, while it is connected.
    pub catalogue: Arc<Catalogue>,
    /// The time from the start of the attempt until all lists were fetched.
    pub time_to_ready: Option<Duration>,
    /// The process id of a local server.
    pub pid: Option<u32>,
    /// The fallback that the connection needed, where it needed one.
    pub fallback: Option<Fallback>,
    /// The open connection, while the server is connected.
    pub(crate) active: Option<ActiveConnection>,
}

impl ServerView {
    /// Whether the server declares resources; `false` while it is not connected.
    pub fn has_resources(&self) -> bool {
        self.server_info.as_ref().is_some_and(|it| it.capabilities.resources.is_some())
    }
}

/// An open connection, for callers.
#[derive(Debug, Clone)]
pub(crate) struct ActiveConnection {
    /// Sends requests.
    pub(crate) client: Client,
    /// Incremented each time the connection is opened.
    pub(crate) generation: u64,
    /// Counts the server's announcements of changed resources.
    pub(crate) resource_revision: ResourceRevision,
    pub(super) consecutive_failures: Arc<AtomicU32>,
}

impl ActiveConnection {
    /// Records that the server answered a request.
    pub(crate) fn record_success(&self) {
        if self.consecutive_failures.load(Ordering::Relaxed) > 0 {
            self.consecutive_failures.store(0, Ordering::Relaxed);
        }
    }
}
