//! One server's connection: a task of its own owns its state, its line and its catalogue.
//! Readers see it through a [`View`], callers use its client directly, and nobody holds a lock.

mod actor;
mod credentials;
pub mod dedicated;
pub mod in_process;
pub mod resolve;
pub(crate) mod resource_subscriptions;
pub(crate) mod retry_class;
pub mod server_requests;
pub mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use switchboard_config::entry::server::{Fingerprint, ServerSpec, TransportKind};
use switchboard_config::scope::Scope;
use switchboard_wire::client::Client;
use switchboard_wire::connect::Fallback;
use switchboard_wire::peer::{CallError, CallOwner};
use switchboard_wire::process::child::DescendantSearch;
use switchboard_wire::protocol::capabilities::{ClientCapability, ServerDescription};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::catalogue::fetch::Catalogue;
use crate::failure::ConnectionFailure;
use crate::host::ConnectionContext;
use crate::login::server_login::{LoginMethod, LoginSlot};
use crate::resources::cache::ResourceRevision;
use crate::resources::subscription::ResourceActivity;

/// How many requests may wait for a connection's task.
const QUEUE_CAPACITY: usize = 64;
/// How many terminal errors in a row end a connection.
const MAX_CONSECUTIVE_FAILURES: u32 = 3;

/// A server that is to be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredServer {
    /// What to run or reach.
    pub spec: ServerSpec,
    /// Where its definition came from.
    pub scope: Scope,
    /// The hash that tells one definition from another.
    pub fingerprint: Fingerprint,
}

impl DesiredServer {
    /// Its name.
    pub fn name(&self) -> &str {
        self.spec.name.as_str()
    }
}

/// Where a connection is, for readers.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// It is being made, or waits for its turn, or for the next attempt.
    Pending {
        /// The attempt of this row, from one.
        attempt: u32,
        /// The most that are made.
        max_attempts: u32,
        /// Why the last one failed, where one did.
        cause: Option<Arc<ConnectionFailure>>,
    },
    /// It stands.
    Connected,
    /// It could not be made.
    Failed(Arc<ConnectionFailure>),
    /// The server wants a login first.
    NeedsAuth(Arc<ConnectionFailure>),
    /// It was ended.
    Disabled,
}

impl Status {
    /// The word for it in output.
    pub fn id(&self) -> &'static str {
        match self {
            Status::Pending { .. } => "pending",
            Status::Connected => "connected",
            Status::Failed(_) => "failed",
            Status::NeedsAuth(_) => "needs-auth",
            Status::Disabled => "disabled",
        }
    }

    /// Why it does not stand, where that is known.
    pub fn cause(&self) -> Option<&Arc<ConnectionFailure>> {
        match self {
            Status::Pending { cause, .. } => cause.as_ref(),
            Status::Failed(cause) | Status::NeedsAuth(cause) => Some(cause),
            Status::Connected | Status::Disabled => None,
        }
    }

    /// Will it change without anybody's doing?
    pub fn is_settled(&self) -> bool {
        !matches!(self, Status::Pending { .. })
    }
}

/// What is known of a server and its connection at one moment.
#[derive(Debug, Clone)]
pub struct ServerView {
    /// Its name.
    pub name: String,
    /// Where its definition came from.
    pub scope: Scope,
    /// The hash that tells its definition from others.
    pub fingerprint: Fingerprint,
    /// How it is reached.
    pub transport: TransportKind,
    /// Where the connection is.
    pub status: Status,
    /// What the server said of itself, while it is connected.
    pub server_info: Option<ServerDescription>,
    /// What it has, while it is connected.
    pub catalogue: Arc<Catalogue>,
    /// How long it took from the first step to the last list.
    pub time_to_ready: Option<Duration>,
    /// The program's process number, where it is one.
    pub pid: Option<u32>,
    /// What we had to do to get there.
    pub fallback: Option<Fallback>,
    /// For callers; there while it is connected.
    pub(crate) active: Option<ActiveConnection>,
}

impl ServerView {
    /// Does the server say that it has resources? Known while it is connected.
    pub fn has_resources(&self) -> bool {
        self.server_info.as_ref().is_some_and(|it| it.capabilities.resources.is_some())
    }
}

/// A connection that stands, for callers.
#[derive(Debug, Clone)]
pub(crate) struct ActiveConnection {
    /// For asking.
    pub(crate) client: Client,
    /// Which connection it is: one more each time it is made.
    pub(crate) generation: u64,
    /// What the server said about changes of its resources.
    pub(crate) resource_revision: ResourceRevision,
    consecutive_failures: Arc<AtomicU32>,
}

impl ActiveConnection {
    /// A call came back well.
    pub(crate) fn record_success(&self) {
        if self.consecutive_failures.load(Ordering::Relaxed) > 0 {
            self.consecutive_failures.store(0, Ordering::Relaxed);
        }
    }
}

/// A handle on a connection's task. Dropping it lets the task end by itself.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionHandle {
    commands: mpsc::Sender<ConnectionCommand>,
    view: watch::Receiver<Arc<ServerView>>,
    desired: Arc<DesiredServer>,
    login_slot: LoginSlot,
    /// How many questions began, and how many are under way.
    use_count: Arc<(AtomicU64, AtomicU64)>,
}

/// A use of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionUse(Arc<(AtomicU64, AtomicU64)>);

impl Drop for ConnectionUse {
    fn drop(&mut self) {
        self.0.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the task is asked to do.
#[derive(Debug)]
enum ConnectionCommand {
    /// Somebody wants to use it.
    Connect,
    /// A person wants it made anew.
    Reconnect,
    /// A call failed in a way that says something of the connection.
    CallFailed { generation: u64, error: CallError },
    /// Somebody wants to hear when a resource changes. Nothing comes back where too many are heard of already.
    Subscribe { uri: String, reply: oneshot::Sender<Option<watch::Receiver<ResourceActivity>>> },
    /// Somebody does not want to hear of a resource any more. The answer comes when the server was told.
    Unsubscribe { done: Option<oneshot::Sender<()>> },
    /// It is not wanted any more.
    Stop { search: DescendantSearch, done: oneshot::Sender<()> },
}

/// A connection on its way out.
#[derive(Debug, Clone)]
pub(crate) struct Closing(watch::Receiver<Arc<ServerView>>);

impl Closing {
    /// Is everything of it gone?
    pub(crate) fn is_closed(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Waits until everything of it is gone.
    async fn closed(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

/// What may be different about a connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionOptions {
    /// Who must be gone first.
    pub(crate) predecessor: Option<Closing>,
    /// What can be done for the server, where that is not what we can do for all.
    pub(crate) client_capabilities: Option<Vec<ClientCapability>>,
    /// Who answers what belongs to no call, where that is not whoever answers for all.
    pub(crate) default_handler: Option<Arc<dyn CallOwner>>,
}

/// Begins to keep a connection, once its predecessor is gone. Views also go to `reports`.
pub(crate) fn spawn(
    desired: DesiredServer,
    context: Arc<ConnectionContext>,
    reports: mpsc::Sender<Arc<ServerView>>,
    options: ConnectionOptions,
) -> (ConnectionHandle, JoinHandle<()>) {
    let (commands, from_callers) = mpsc::channel(QUEUE_CAPACITY);
    let task = actor::ConnectionActor::new(desired.clone(), context, reports, options);
    let view = task.view_receiver();
    let login_slot = task.login_slot();
    let joined = tokio::spawn(task.run(from_callers));
    let use_count = Arc::default();
    (ConnectionHandle { commands, view, desired: Arc::new(desired), login_slot, use_count }, joined)
}

impl ConnectionHandle {
    /// What is known now.
    pub(crate) fn view(&self) -> Arc<ServerView> {
        self.view.borrow().clone()
    }

    /// Begins to use it.
    pub(crate) fn begin_use(&self) -> ConnectionUse {
        self.use_count.0.fetch_add(1, Ordering::Relaxed);
        self.use_count.1.fetch_add(1, Ordering::Relaxed);
        ConnectionUse(self.use_count.clone())
    }

    /// How often it was used.
    pub(crate) fn total_uses(&self) -> u64 {
        self.use_count.0.load(Ordering::Relaxed)
    }

    /// Is a question under way?
    pub(crate) fn is_in_use(&self) -> bool {
        self.use_count.1.load(Ordering::Relaxed) > 0
    }

    /// What it was made from.
    pub(crate) fn desired(&self) -> &DesiredServer {
        &self.desired
    }

    /// What mends it when the server wants a login.
    pub(crate) fn login_method(&self) -> Option<LoginMethod> {
        LoginMethod::for_server(&self.desired)
    }

    /// Who signs in there.
    pub(crate) fn login_slot(&self) -> &LoginSlot {
        &self.login_slot
    }

    /// For whoever waits until it is gone.
    pub(crate) fn closing(&self) -> Closing {
        Closing(self.view.clone())
    }

    /// Says something to the server, where it is connected.
    pub(crate) async fn notify(&self, method: &'static str) {
        let active = self.view.borrow().active.clone();
        if let Some(active) = active {
            let _over = active.client.notify(method, None).await;
        }
    }

    /// Has it made anew. Comes back when that has begun.
    pub(crate) async fn reconnect(&self) {
        let _over = self.commands.send(ConnectionCommand::Reconnect).await;
    }

    /// Says that a call failed. What that means is the task's to decide.
    pub(crate) async fn report_failure(&self, active: &ActiveConnection, error: &CallError) {
        let generation = active.generation;
        let command = ConnectionCommand::CallFailed { generation, error: error.clone() };
        let _over = self.commands.send(command).await;
    }

    /// The pulse of a resource, which beats with every change; nothing where there are too many, or where the
    /// connection is over.
    pub(crate) async fn subscribe(&self, uri: &str) -> Option<watch::Receiver<ResourceActivity>> {
        let (reply, activity) = oneshot::channel();
        self.commands
            .send(ConnectionCommand::Subscribe { uri: uri.to_owned(), reply })
            .await
            .ok()?;
        activity.await.ok().flatten()
    }

    /// Says that a pulse was dropped. Where the task is too busy to hear it, it looks by itself later.
    pub(crate) fn unsubscribe_soon(&self) {
        let _looks_later = self.commands.try_send(ConnectionCommand::Unsubscribe { done: None });
    }

    /// The same, and comes back when the server was told.
    pub(crate) async fn unsubscribe(&self) {
        let (done, told) = oneshot::channel();
        if self.commands.send(ConnectionCommand::Unsubscribe { done: Some(done) }).await.is_ok() {
            let _over = told.await;
        }
    }

    /// Ends it. Comes back when everything is gone.
    pub(crate) async fn stop(&self, search: DescendantSearch) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(ConnectionCommand::Stop { search, done }).await.is_ok() {
            let _over = stopped.await;
        }
    }

    /// A connection that stands and is newer than `seen`, made now where there is none. The error is why there is none.
    pub(crate) async fn ensure_active(
        &self,
        seen: Option<u64>,
    ) -> Result<ActiveConnection, Arc<ServerView>> {
        let is_newer = |active: &ActiveConnection| seen.is_none_or(|seen| active.generation > seen);
        if let Some(active) = self.view.borrow().active.as_ref().filter(|it| is_newer(it)) {
            return Ok(active.clone());
        }
        let mut view = self.view.clone();
        let first = view.borrow_and_update().active.clone();
        if let Some(active) = first.filter(is_newer) {
            return Ok(active);
        }
        if self.commands.send(ConnectionCommand::Connect).await.is_err() {
            return Err(self.view());
        }
        // The task answers every request with a view, be it the same one.
        loop {
            if view.changed().await.is_err() {
                return Err(self.view());
            }
            let now = view.borrow_and_update().clone();
            match (now.active.clone().filter(is_newer), now.status.is_settled()) {
                (Some(active), _) => return Ok(active),
                (None, true) if now.status != Status::Connected => return Err(now),
                (None, true | false) => {}
            }
        }
    }
}
