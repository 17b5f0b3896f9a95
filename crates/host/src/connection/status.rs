//! The published view of a server and its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use switchboard_config::entry::server::{Fingerprint, TransportKind};
use switchboard_config::scope::Scope;
use switchboard_wire::client::Client;
use switchboard_wire::connect::Fallback;
use switchboard_wire::protocol::capabilities::ServerDescription;

use crate::catalogue::lists::Catalogue;
use crate::catalogue::remembered::RememberedServer;
use crate::channel::ChannelView;
use crate::connection::in_process::ClientIsolation;
use crate::connection::resource_revision::ResourceRevision;
use crate::failure::ConnectionFailure;
use crate::ide::{IDE_SERVER, is_ide};

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
    /// The session that it shares with other servers is refused; no login at this server helps.
    SessionRefused(Arc<ConnectionFailure>),
    /// It was stopped.
    Disabled,
}

impl Status {
    /// The status for people: `needs login`, `connecting (attempt 1 of 5)`.
    pub fn label(&self) -> String {
        match self {
            Status::Pending { attempt, max_attempts, .. } => {
                format!("connecting (attempt {attempt} of {max_attempts})")
            }
            Status::NeedsAuth(_) => "needs login".to_owned(),
            Status::SessionRefused(_) => "session refused".to_owned(),
            Status::Connected | Status::Failed(_) | Status::Disabled => self.id().to_owned(),
        }
    }

    /// The status in JSON and metrics.
    pub fn id(&self) -> &'static str {
        match self {
            Status::Pending { .. } => "pending",
            Status::Connected => "connected",
            Status::Failed(_) => "failed",
            Status::NeedsAuth(_) => "needs-auth",
            Status::SessionRefused(_) => "session-refused",
            Status::Disabled => "disabled",
        }
    }

    /// Why the server is not connected, where that is known.
    pub fn cause(&self) -> Option<&Arc<ConnectionFailure>> {
        match self {
            Status::Pending { cause, .. } => cause.as_ref(),
            Status::Failed(cause) | Status::NeedsAuth(cause) | Status::SessionRefused(cause) => {
                Some(cause)
            }
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
    /// Whether clients of a gateway may share a connection to it.
    pub isolation: ClientIsolation,
    /// The status of the connection.
    pub status: Status,
    /// The server's description of itself, while it is connected.
    pub server_info: Option<ServerDescription>,
    /// Its lists, while it is connected.
    pub catalogue: Arc<Catalogue>,
    /// What is remembered of its last connection, while it connects for the first time. Only where the host's options say so.
    pub remembered: Option<Arc<RememberedServer>>,
    /// The time from the start of the attempt until all lists were fetched.
    pub time_to_ready: Option<Duration>,
    /// The process id of a local server.
    pub pid: Option<u32>,
    /// Whether the shared host runs its program, for other sessions as well.
    pub is_shared: bool,
    /// The fallback that the connection needed, where it needed one.
    pub fallback: Option<Fallback>,
    /// The start of the first output that is not a message, while it is connected. Untrusted and not escaped.
    pub malformed_output: Option<String>,
    /// The server as a channel, if it is one or sends messages as one does.
    pub channel: Option<ChannelView>,
    /// The open connection, while the server is connected.
    pub(crate) active: Option<ActiveConnection>,
}

impl ServerView {
    /// Whether this is the IDE that the host found, which lists of servers leave out.
    pub fn is_connected_ide(&self) -> bool {
        self.name == IDE_SERVER && is_ide(self.transport)
    }
}

impl ServerView {
    /// What the definitions of its tools are pinned under; `None` for a server in this process, or in the program that runs
    /// it: its definitions change only with that program, and its entry is the same in every program.
    pub(crate) fn pin_fingerprint(&self) -> Option<&Fingerprint> {
        (self.transport != TransportKind::Sdk).then_some(&self.fingerprint)
    }

    /// Its lists: those of the connection, or the remembered ones while it is connecting.
    pub fn listed(&self) -> &Arc<Catalogue> {
        match (&self.remembered, &self.status) {
            (Some(remembered), Status::Pending { .. }) => &remembered.catalogue,
            (Some(_) | None, _) => &self.catalogue,
        }
    }

    /// The first output that is not a message, if there was any. Not escaped.
    pub fn malformed_note(&self) -> Option<String> {
        self.malformed_output.as_deref().map(malformed_note)
    }

    /// What is wrong with the server although it is connected. Not escaped.
    pub fn notes(&self) -> Vec<String> {
        self.catalogue.issues().map(ToString::to_string).chain(self.malformed_note()).collect()
    }

    /// Whether the server declares resources; `false` while it is not connected.
    pub fn has_resources(&self) -> bool {
        self.server_info.as_ref().is_some_and(|it| it.capabilities.resources.is_some())
    }
}

/// What is said about output that is not a message.
pub(super) fn malformed_note(start: &str) -> String {
    format!("it prints text that is not a message where messages are expected: {start}")
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
