//! The actor of a connection: routes events to the parts of the connection, lets the state machine decide, and performs
//! what it decides.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use switchboard_wire::connect::Connection;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{CallError, CallOwner, PeerEvent};
use switchboard_wire::process::child::DescendantSearch;
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use switchboard_wire::transport::CloseReason;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::catalogue::lists::{FetchedList, ListKind};
use crate::connection::catalogue_sync::{CatalogueSync, ListFetcher, SyncEvent, SyncOutcome};
use crate::connection::change_stream::{ChangeStream, ChangeStreamEvent};
use crate::connection::context::ConnectionContext;
use crate::connection::handle::{Closing, ConnectionCommand, ConnectionHandle};
use crate::connection::incoming_requests::IncomingRequests;
use crate::connection::open::{OpenRequest, explain_auth_failure, open_with_login};
use crate::connection::optional_wait::{wait_for, wait_until};
use crate::connection::resource_revision::ResourceRevision;
use crate::connection::resource_subscriptions::{
    RESOURCE_UPDATED, ResourceSubscriptions, ResourceWatch, WatchEvent,
};
use crate::connection::retry_class;
use crate::connection::state::{Action, Event, MAX_ATTEMPTS, State};
use crate::connection::status::{ActiveConnection, ServerView, Status};
use crate::connection::suspend_detector::SuspendDetector;
use crate::failure;
use crate::failure::{ConnectionFailure, FailureKind};
use crate::login::server_login::LoginSlot;
use crate::sources::desired_server::DesiredServer;

/// The capacity of the actor's command queue.
const QUEUE_CAPACITY: usize = 64;
/// This many transport failures in a row close the connection.
const MAX_CONSECUTIVE_FAILURES: u32 = 3;
/// How often suspension and unused subscriptions are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The timeout of the ping after a suspension.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const CANCELLED: &str = "notifications/cancelled";
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

type ConnectFuture = Pin<Box<dyn Future<Output = Result<Connection, ConnectionFailure>> + Send>>;
type PingFuture = Pin<Box<dyn Future<Output = Result<Duration, CallError>> + Send>>;

/// What differs between the connections to one server.
#[derive(Debug, Default)]
pub(crate) struct ConnectionOptions {
    /// The connection that must be closed first.
    pub(crate) predecessor: Option<Closing>,
    /// The capabilities that the server is told of, instead of the host's.
    pub(crate) client_capabilities: Option<Vec<ClientCapability>>,
    /// Answers requests that belong to no call, instead of the host's default handler.
    pub(crate) default_handler: Option<Arc<dyn CallOwner>>,
}

/// Starts the actor of a connection. It publishes its views to the handle and to `reports`.
pub(crate) fn spawn(
    desired: DesiredServer,
    context: Arc<ConnectionContext>,
    reports: mpsc::Sender<Arc<ServerView>>,
    options: ConnectionOptions,
) -> (ConnectionHandle, JoinHandle<()>) {
    let (commands, command_receiver) = mpsc::channel(QUEUE_CAPACITY);
    let actor = ConnectionActor::new(desired.clone(), context, reports, options);
    let (view, login_slot) = (actor.view_sender.subscribe(), actor.login_slot.clone());
    let task = tokio::spawn(actor.run(command_receiver));
    (ConnectionHandle::new(commands, view, desired, login_slot), task)
}

struct ConnectionActor {
    desired: DesiredServer,
    context: Arc<ConnectionContext>,
    reports: mpsc::Sender<Arc<ServerView>>,
    predecessor: Option<Closing>,
    client_info: ClientDescription,
    default_handler: Option<Arc<dyn CallOwner>>,
    view_sender: watch::Sender<Arc<ServerView>>,
    state: State,
    login_slot: LoginSlot,
    /// Whether the next attempt connects even where the cache says that the server requires a login.
    ignore_auth_cache: bool,
    connecting: Option<ConnectFuture>,
    backoff_until: Option<Instant>,
    open_connection: Option<OpenConnection>,
    generation: u64,
    attempt_started: Instant,
    incoming: IncomingRequests,
    subscriptions: ResourceSubscriptions,
    suspend_detector: SuspendDetector,
}

/// An open connection and everything that ends with it.
struct OpenConnection {
    connection: Connection,
    opened: Instant,
    consecutive_failures: Arc<AtomicU32>,
    resource_revision: ResourceRevision,
    lists: CatalogueSync,
    changes: ChangeStream,
    resources: ResourceWatch,
    ping: Option<PingFuture>,
    time_to_ready: Option<Duration>,
}

/// The events of an actor.
enum ActorEvent {
    Command(Option<ConnectionCommand>),
    Connected(Result<Box<Connection>, ConnectionFailure>),
    BackoffElapsed,
    Message(PeerEvent),
    Closed(CloseReason),
    ChangeStream(ChangeStreamEvent),
    Lists(SyncEvent),
    PingFinished(Result<Duration, CallError>),
    Resources(WatchEvent),
    Tick,
}

impl ConnectionActor {
    fn new(
        desired: DesiredServer,
        context: Arc<ConnectionContext>,
        reports: mpsc::Sender<Arc<ServerView>>,
        options: ConnectionOptions,
    ) -> ConnectionActor {
        let mut client_info = context.client_info.clone();
        client_info.capabilities = options.client_capabilities.unwrap_or(client_info.capabilities);
        let first = ServerView {
            name: desired.name().to_owned(),
            scope: desired.scope,
            fingerprint: desired.fingerprint.clone(),
            transport: desired.spec.transport.kind(),
            status: Status::Pending { attempt: 1, max_attempts: MAX_ATTEMPTS, cause: None },
            server_info: None,
            catalogue: Arc::default(),
            time_to_ready: None,
            pid: None,
            fallback: None,
            active: None,
        };
        ConnectionActor {
            desired,
            context,
            reports,
            predecessor: options.predecessor,
            client_info,
            default_handler: options.default_handler,
            view_sender: watch::Sender::new(Arc::new(first)),
            state: State::Idle,
            login_slot: LoginSlot::default(),
            ignore_auth_cache: false,
            connecting: None,
            backoff_until: None,
            open_connection: None,
            generation: 0,
            attempt_started: Instant::now(),
            incoming: IncomingRequests::default(),
            subscriptions: ResourceSubscriptions::default(),
            suspend_detector: SuspendDetector::new(),
        }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<ConnectionCommand>) {
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.transition(Event::Start, DescendantSearch::Now).await;
        self.publish().await;
        loop {
            match self.next_event(&mut commands, &mut ticks).await {
                ActorEvent::Command(Some(ConnectionCommand::Stop { search, done })) => {
                    return self.shut_down(search, Some(done)).await;
                }
                ActorEvent::Command(None) => {
                    return self.shut_down(DescendantSearch::Now, None).await;
                }
                ActorEvent::Command(Some(command)) => self.run_command(command).await,
                ActorEvent::Connected(result) => self.connected(result).await,
                ActorEvent::BackoffElapsed => {
                    self.transition(Event::BackoffElapsed, DescendantSearch::Now).await;
                }
                ActorEvent::Message(PeerEvent::Request(request)) => {
                    let (server, handler) = (self.desired.name(), self.default_handler.as_ref());
                    self.incoming.accept(request, server, &self.context, handler);
                }
                ActorEvent::Message(PeerEvent::Notification { method, params }) => {
                    self.on_notification(&method, params.as_ref());
                }
                ActorEvent::Closed(reason) => {
                    self.connection_lost(ConnectionFailure::from(&reason)).await;
                }
                ActorEvent::ChangeStream(event) => self.on_change_stream(event),
                ActorEvent::Lists(SyncEvent::Fetched(lists)) => self.lists_fetched(lists).await,
                ActorEvent::Lists(SyncEvent::RefreshDue) => self.mark_dirty(&ListKind::ALL),
                ActorEvent::PingFinished(Ok(_)) => {}
                ActorEvent::PingFinished(Err(error)) => {
                    self.connection_lost(ConnectionFailure::from(&error)).await;
                }
                ActorEvent::Resources(event) => {
                    if let Some(open) = &mut self.open_connection {
                        self.subscriptions.on_event(event, &mut open.resources);
                    }
                }
                ActorEvent::Tick => {
                    self.ping_after_suspend();
                    self.drop_unused_subscriptions(None);
                }
            }
        }
    }

    async fn next_event(
        &mut self,
        commands: &mut mpsc::Receiver<ConnectionCommand>,
        ticks: &mut Interval,
    ) -> ActorEvent {
        self.incoming.reap();
        let Some(open) = &mut self.open_connection else {
            return tokio::select! {
                biased;
                command = commands.recv() => ActorEvent::Command(command),
                result = wait_for(&mut self.connecting) => {
                    self.connecting = None;
                    ActorEvent::Connected(result.map(Box::new))
                }
                () = wait_until(self.backoff_until) => ActorEvent::BackoffElapsed,
            };
        };
        let client = open.connection.client.clone();
        tokio::select! {
            biased;
            command = commands.recv() => ActorEvent::Command(command),
            message = open.connection.next_event() => ActorEvent::Message(message),
            // Before the lists, which look empty when the connection has ended.
            reason = client.closed() => ActorEvent::Closed(reason),
            // Before the lists, so that the stream is requested first and no change is lost between the two.
            event = open.changes.next() => ActorEvent::ChangeStream(event),
            event = open.lists.next() => ActorEvent::Lists(event),
            result = wait_for(&mut open.ping) => {
                open.ping = None;
                ActorEvent::PingFinished(result)
            }
            event = open.resources.next() => ActorEvent::Resources(event),
            _ = ticks.tick() => ActorEvent::Tick,
        }
    }

    /// Lets the state machine decide about an event, and performs its action.
    async fn transition(&mut self, event: Event, search: DescendantSearch) {
        let before = std::mem::replace(&mut self.state, State::Idle);
        let (state, action) = before.on(event, self.context.retry_policy);
        self.state = state;
        match action {
            Action::Nothing => {}
            Action::Open => self.start_connecting(),
            Action::BackOff(pause) => self.backoff_until = Some(Instant::now() + pause),
            Action::Close => self.close(search).await,
            Action::CloseAndOpen => {
                self.close(search).await;
                self.start_connecting();
            }
        }
    }

    fn start_connecting(&mut self) {
        self.backoff_until = None;
        self.attempt_started = Instant::now();
        let request = OpenRequest {
            desired: self.desired.clone(),
            client_info: self.client_info.clone(),
            context: self.context.clone(),
            login_slot: self.login_slot.clone(),
            ignore_auth_cache: std::mem::take(&mut self.ignore_auth_cache),
        };
        let predecessor = self.predecessor.clone();
        self.connecting = Some(Box::pin(async move {
            wait_until_closed(predecessor).await;
            open_with_login(request).await
        }));
    }

    async fn close(&mut self, search: DescendantSearch) {
        self.connecting = None;
        self.incoming.abort_all().await;
        if let Some(open) = self.open_connection.take() {
            let OpenConnection { connection, lists, changes, ping, resources, .. } = open;
            drop((lists, changes, ping, resources));
            connection.close(search).await;
        }
    }

    async fn run_command(&mut self, command: ConnectionCommand) {
        match command {
            ConnectionCommand::Connect => {
                self.transition(Event::Requested, DescendantSearch::Now).await;
            }
            ConnectionCommand::Reconnect => {
                self.ignore_auth_cache = true;
                self.transition(Event::Reconnect, DescendantSearch::Now).await;
            }
            ConnectionCommand::CallFailed { generation, error } => {
                self.call_failed(generation, &error).await;
            }
            ConnectionCommand::Subscribe { uri, reply } => {
                let watch = self.open_connection.as_mut().map(|open| &mut open.resources);
                let _caller_gone = reply.send(self.subscriptions.subscribe(uri, watch));
            }
            ConnectionCommand::Unsubscribe { done } => self.drop_unused_subscriptions(done),
            // `run` handles it before it gets here.
            ConnectionCommand::Stop { .. } => {}
        }
        self.publish().await;
    }

    /// Decides what a failed call means: an expired session is opened again at once; a rejection, a closed transport
    /// or repeated transport failures end the connection.
    async fn call_failed(&mut self, generation: u64, error: &CallError) {
        if generation != self.generation {
            return;
        }
        let Some(open) = &self.open_connection else { return };
        if retry_class::is_session_expired(error) {
            self.context.stderr_log.note(self.desired.name(), "the server forgot the session");
            self.transition(Event::Reconnect, DescendantSearch::Now).await;
        } else if retry_class::is_unauthorized(error) || matches!(error, CallError::Closed { .. }) {
            // The next caller need not wait until the actor notices by itself.
            self.connection_lost(ConnectionFailure::from(error)).await;
        } else if retry_class::is_transport_failure(error)
            && open.consecutive_failures.fetch_add(1, Ordering::Relaxed) + 1
                >= MAX_CONSECUTIVE_FAILURES
        {
            self.connection_lost(ConnectionFailure::from(error)).await;
        }
    }

    async fn connected(&mut self, result: Result<Box<Connection>, ConnectionFailure>) {
        let connection = match result {
            Ok(connection) => *connection,
            Err(cause) => {
                self.log_failure(&cause);
                self.transition(Event::OpenFailed(Arc::new(cause)), DescendantSearch::Now).await;
                self.publish().await;
                return;
            }
        };
        self.generation += 1;
        self.suspend_detector = SuspendDetector::new();
        let client = connection.client.clone();
        let fetcher = ListFetcher {
            client: client.clone(),
            desired: self.desired.clone(),
            login_slot: self.login_slot.clone(),
            context: self.context.clone(),
        };
        let mut resources = ResourceWatch::new(client.clone());
        self.subscriptions.resubscribe_all(&mut resources);
        self.open_connection = Some(OpenConnection {
            connection,
            opened: Instant::now(),
            consecutive_failures: Arc::default(),
            resource_revision: ResourceRevision::default(),
            lists: CatalogueSync::start(fetcher),
            changes: ChangeStream::start(client),
            resources,
            ping: None,
            time_to_ready: None,
        });
    }

    async fn lists_fetched(&mut self, lists: Vec<(ListKind, FetchedList)>) {
        let Some(open) = &mut self.open_connection else { return };
        match open.lists.on_fetched(lists) {
            SyncOutcome::AuthRejected => {
                let cause = ConnectionFailure::new(FailureKind::AuthRequired);
                return self.connection_lost(cause).await;
            }
            SyncOutcome::Updated => {}
        }
        let is_first = open.time_to_ready.is_none();
        if is_first {
            let elapsed = self.attempt_started.elapsed();
            open.time_to_ready = Some(elapsed);
            open.changes.on_first_lists();
            let text = format!("connected after {} ms", elapsed.as_millis());
            self.context.stderr_log.note(self.desired.name(), &text);
        }
        open.lists.save_completion_cache();
        open.lists.fetch_dirty();
        if is_first {
            self.transition(Event::Opened, DescendantSearch::Now).await;
        }
        self.publish().await;
    }

    fn mark_dirty(&mut self, lists: &[ListKind]) {
        if let Some(open) = &mut self.open_connection {
            open.lists.mark_dirty(lists);
        }
    }

    fn on_change_stream(&mut self, event: ChangeStreamEvent) {
        let Some(open) = &mut self.open_connection else { return };
        match event {
            ChangeStreamEvent::Ended(result) => {
                if open.changes.on_ended(&result) {
                    open.lists.mark_dirty(&ListKind::ALL);
                }
            }
            ChangeStreamEvent::RetryDue => open.changes.open(),
        }
    }

    fn on_notification(&mut self, method: &str, params: Option<&Payload>) {
        let Some(open) = &mut self.open_connection else { return };
        if may_change_resources(method) {
            open.resource_revision.bump();
        }
        match method {
            RESOURCE_UPDATED => self.subscriptions.resource_updated(params),
            SUBSCRIPTIONS_ACKNOWLEDGED if open.resources.is_acknowledgement(params) => {
                self.subscriptions.stream_acknowledged(params, &mut open.resources);
            }
            SUBSCRIPTIONS_ACKNOWLEDGED => {
                if open.changes.on_acknowledged() {
                    open.lists.mark_dirty(&ListKind::ALL);
                }
            }
            CANCELLED => self.incoming.cancel(params),
            ELICITATION_COMPLETE => self.elicitation_completed(params),
            _ => open.lists.mark_dirty(ListKind::changed_by(method)),
        }
    }

    fn elicitation_completed(&self, params: Option<&Payload>) {
        let params: Option<Json> = params.and_then(|it| it.decode().ok());
        if let Some(id) = params.as_ref().and_then(|it| it["elicitationId"].as_str()) {
            let completed = (self.desired.name().to_owned(), id.to_owned());
            let _no_receiver = self.context.completed_elicitations.send(completed);
        }
    }

    fn drop_unused_subscriptions(&mut self, done: Option<oneshot::Sender<()>>) {
        let watch = self.open_connection.as_mut().map(|open| &mut open.resources);
        self.subscriptions.drop_unused(watch, done);
    }

    /// Pings the server after the machine was suspended.
    fn ping_after_suspend(&mut self) {
        if self.suspend_detector.has_suspended()
            && let Some(open) = &mut self.open_connection
            && open.ping.is_none()
        {
            let client = open.connection.client.clone();
            open.ping = Some(Box::pin(async move { client.ping(PING_TIMEOUT).await }));
        }
    }

    /// Closes a connection that has ended or no longer works.
    async fn connection_lost(&mut self, cause: ConnectionFailure) {
        let Some(open) = &mut self.open_connection else { return };
        let lived = open.opened.elapsed();
        let was_ready = open.time_to_ready.is_some();
        let exit = open.connection.exit_status().await;
        let stderr = open.connection.stderr_tail().await;
        let cause = match (exit, &cause.kind) {
            (Some(status), FailureKind::Closed) => {
                ConnectionFailure::new(failure::exit_failure(status))
            }
            (Some(_) | None, _) => cause,
        };
        let cause =
            explain_auth_failure(cause, &self.login_slot, &self.desired, &self.context).await;
        let cause = cause.with_evidence(failure::stderr_evidence(&stderr));
        self.log_failure(&cause);
        let cause = Arc::new(cause);
        self.close(DescendantSearch::Now).await;
        let event = match was_ready {
            true => Event::Lost { cause, lived },
            false => Event::OpenFailed(cause),
        };
        self.transition(event, DescendantSearch::Now).await;
        self.publish().await;
    }

    fn log_failure(&self, cause: &ConnectionFailure) {
        self.context.stderr_log.note(self.desired.name(), &cause.to_string());
    }

    async fn shut_down(mut self, search: DescendantSearch, done: Option<oneshot::Sender<()>>) {
        self.transition(Event::Stop, search).await;
        self.login_slot.flush().await;
        wait_until_closed(self.predecessor.take()).await;
        self.publish().await;
        if let Some(done) = done {
            let _caller_gone = done.send(());
        }
    }

    fn status(&self) -> Status {
        let max_attempts = MAX_ATTEMPTS;
        match &self.state {
            State::Idle => Status::Pending { attempt: 1, max_attempts, cause: None },
            State::Opening { attempt } => {
                Status::Pending { attempt: *attempt, max_attempts, cause: None }
            }
            State::BackingOff { attempts, cause } => {
                let attempt = (*attempts + 1).min(max_attempts);
                Status::Pending { attempt, max_attempts, cause: Some(cause.clone()) }
            }
            State::Open { .. } => Status::Connected,
            State::AuthRequired { cause } => Status::NeedsAuth(cause.clone()),
            State::Failed { cause } => Status::Failed(cause.clone()),
            State::Closed => Status::Disabled,
        }
    }

    async fn publish(&mut self) {
        let status = self.status();
        let is_connected = status == Status::Connected;
        let open = self.open_connection.as_ref().filter(|_| is_connected);
        let view = Arc::new(ServerView {
            name: self.desired.name().to_owned(),
            scope: self.desired.scope,
            fingerprint: self.desired.fingerprint.clone(),
            transport: self.desired.spec.transport.kind(),
            status,
            server_info: open.map(|open| open.connection.client.server().clone()),
            catalogue: open.map(|open| open.lists.catalogue().clone()).unwrap_or_default(),
            time_to_ready: open.and_then(|open| open.time_to_ready),
            pid: self.open_connection.as_ref().and_then(|open| open.connection.pid()),
            fallback: open.and_then(|open| open.connection.fallback),
            active: open.map(|open| ActiveConnection {
                client: open.connection.client.clone(),
                generation: self.generation,
                resource_revision: open.resource_revision.clone(),
                consecutive_failures: open.consecutive_failures.clone(),
            }),
        });
        self.view_sender.send_replace(view.clone());
        let _engine_gone = self.reports.send(view).await;
    }
}

/// Whether a notification says that the content of resources may have changed.
fn may_change_resources(notification: &str) -> bool {
    notification == RESOURCE_UPDATED
        || ListKind::changed_by(notification).contains(&ListKind::Resources)
}

async fn wait_until_closed(predecessor: Option<Closing>) {
    if let Some(predecessor) = predecessor {
        predecessor.closed().await;
    }
}
