//! The actor of a connection: routes events to the parts of the connection, lets the state machine decide, and performs
//! what it decides.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use switchboard_config::entry::server::TransportConfig;
use switchboard_share::protocol::Reuse;
use switchboard_wire::connect::Connection;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{CallError, CallOwner, PeerEvent};
use switchboard_wire::process::child::DescendantSearch;
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tracing::{Instrument, info, info_span, warn};

use crate::catalogue::lists::{FetchedList, ListKind};
use crate::catalogue::remembered::RememberedServer;
use crate::channel::{ChannelIntake, IntakeChange, IntakeContext, is_channel_method};
use crate::connection::announcement;
use crate::connection::catalogue_sync::{ListFetcher, SyncEvent, SyncOutcome};
use crate::connection::context::ConnectionContext;
use crate::connection::handle::{ClosingConnection, ConnectionCommand, ConnectionHandle, UseCount};
use crate::connection::in_process::ClientIsolation;
use crate::connection::incoming_requests::IncomingRequests;
use crate::connection::liveness::ConnectionUsage;
use crate::connection::open::{OpenRequest, explain_auth_failure, open_with_login};
use crate::connection::open_connection::{OpenConnection, OpenConnectionEvent};
use crate::connection::optional_wait::{wait_for, wait_until};
use crate::connection::resource_subscriptions::{
    RESOURCE_UPDATED, ResourceSubscriptions, ResourceWatch,
};
use crate::connection::retry_class;
use crate::connection::state::{Action, Event, MAX_ATTEMPTS, RememberedLists, State};
use crate::connection::status::{ServerView, Status, malformed_note};
use crate::connection::suspend_detector::SuspendDetector;
use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::login::server_login::LoginSlot;
use crate::sources::desired_server::DesiredServer;
use crate::storage::ttl_cache::CacheEdit;

/// The capacity of the actor's command queue.
const QUEUE_CAPACITY: usize = 64;
/// How often suspension and unused subscriptions are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const CANCELLED: &str = "notifications/cancelled";
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

type ConnectFuture = Pin<Box<dyn Future<Output = Result<Connection, ConnectionFailure>> + Send>>;

/// The options that differ between the connections to one server.
#[derive(Debug, Default)]
pub(crate) struct ConnectionOptions {
    /// The connection that must be closed first.
    pub(crate) predecessor: Option<ClosingConnection>,
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
    let use_count = actor.use_count.clone();
    // Names the server in the events of everything that the actor runs.
    let span = info_span!("connection", server = desired.name());
    let task = tokio::spawn(actor.run(command_receiver).instrument(span));
    (ConnectionHandle::new(commands, view, desired, (login_slot, use_count)), task)
}

struct ConnectionActor {
    desired: DesiredServer,
    context: Arc<ConnectionContext>,
    reports: mpsc::Sender<Arc<ServerView>>,
    predecessor: Option<ClosingConnection>,
    client_info: ClientDescription,
    default_handler: Option<Arc<dyn CallOwner>>,
    view_sender: watch::Sender<Arc<ServerView>>,
    state: State,
    login_slot: LoginSlot,
    /// Whether the next attempt connects even where the cache says that the server requires a login.
    ignore_auth_cache: bool,
    /// Whether the next attempt takes a copy of the program that other sessions use.
    reuse: Reuse,
    connecting: Option<ConnectFuture>,
    backoff_until: Option<Instant>,
    /// Tells the attempt under way that a caller waits for it.
    expedited: Arc<Notify>,
    open_connection: Option<OpenConnection>,
    generation: u64,
    attempt_started: Instant,
    incoming: IncomingRequests,
    subscriptions: ResourceSubscriptions,
    suspend_detector: SuspendDetector,
    /// Whether its lists are stored for later runs: not those of a client with other capabilities.
    saves_lists: bool,
    use_count: Arc<UseCount>,
    /// What is remembered of the last connection, until the first attempts are over.
    remembered: Option<Arc<RememberedServer>>,
    /// Takes messages for a conversation.
    channel: ChannelIntake,
}

/// The events of an actor.
enum ActorEvent {
    Command(Option<ConnectionCommand>),
    Connected(Result<Box<Connection>, ConnectionFailure>),
    BackoffElapsed,
    Open(OpenConnectionEvent),
    Tick,
}

impl ConnectionActor {
    fn new(
        desired: DesiredServer,
        context: Arc<ConnectionContext>,
        reports: mpsc::Sender<Arc<ServerView>>,
        options: ConnectionOptions,
    ) -> ConnectionActor {
        let saves_lists = options.client_capabilities.is_none();
        let mut client_info = context.client_info.clone();
        client_info.capabilities = options.client_capabilities.unwrap_or(client_info.capabilities);
        let mut isolation = ClientIsolation::default();
        if let TransportConfig::Sdk { name } = &desired.spec.transport
            && let Some(server) = context.in_process.of_definition(desired.name()).find(name)
        {
            isolation = server.isolation();
            if let Some(capabilities) = server.client_capabilities() {
                client_info.capabilities.clone_from(capabilities);
                client_info.legacy_capabilities = None;
            }
        }
        let first = ServerView {
            name: desired.name().to_owned(),
            scope: desired.scope,
            fingerprint: desired.fingerprint.clone(),
            transport: desired.spec.transport.kind(),
            isolation,
            status: Status::Pending { attempt: 1, max_attempts: MAX_ATTEMPTS, cause: None },
            server_info: None,
            catalogue: Arc::default(),
            remembered: None,
            time_to_ready: None,
            pid: None,
            is_shared: false,
            fallback: None,
            malformed_output: None,
            channel: None,
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
            reuse: Reuse::Running,
            connecting: None,
            backoff_until: None,
            expedited: Arc::default(),
            open_connection: None,
            generation: 0,
            attempt_started: Instant::now(),
            incoming: IncomingRequests::default(),
            subscriptions: ResourceSubscriptions::default(),
            suspend_detector: SuspendDetector::new(),
            saves_lists,
            use_count: Arc::default(),
            remembered: None,
            channel: ChannelIntake::default(),
        }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<ConnectionCommand>) {
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.transition(Event::Start, DescendantSearch::Now).await;
        self.load_remembered().await;
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
                ActorEvent::Open(event) => self.on_open_connection(event).await,
                ActorEvent::Tick => {
                    self.check_liveness();
                    self.drop_unused_subscriptions(None);
                    self.check_channel().await;
                }
            }
        }
    }

    /// Loads the lists of the last connection, where the host shows them.
    async fn load_remembered(&mut self) {
        match self.context.remembered_lists {
            RememberedLists::Unused => {}
            RememberedLists::WhileConnecting => {
                let (context, desired) = (self.context.clone(), self.desired.clone());
                let loaded = tokio::task::spawn_blocking(move || {
                    let folder = &context.remembered_folder;
                    RememberedServer::load(folder, desired.name(), &desired.fingerprint)
                });
                self.remembered = loaded.await.ok().flatten().map(Arc::new);
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
        tokio::select! {
            biased;
            command = commands.recv() => ActorEvent::Command(command),
            event = open.next() => ActorEvent::Open(event),
            _ = ticks.tick() => ActorEvent::Tick,
        }
    }

    async fn on_open_connection(&mut self, event: OpenConnectionEvent) {
        match event {
            OpenConnectionEvent::Message(PeerEvent::Request(request)) => {
                let (server, handler) = (self.desired.name(), self.default_handler.as_ref());
                self.incoming.accept(request, server, &self.context, handler);
            }
            OpenConnectionEvent::Message(PeerEvent::Notification { method, params }) => {
                if is_channel_method(&method) {
                    self.on_channel_message(&method, params.as_ref()).await;
                } else {
                    self.on_notification(&method, params.as_ref());
                }
            }
            OpenConnectionEvent::Closed(reason) => {
                self.connection_lost(ConnectionFailure::from(&reason)).await;
            }
            OpenConnectionEvent::ChangeStream(event) => {
                if let Some(open) = &mut self.open_connection {
                    open.on_change_stream(event);
                }
            }
            OpenConnectionEvent::Lists(SyncEvent::Fetched(lists)) => {
                self.lists_fetched(lists).await;
            }
            OpenConnectionEvent::Lists(SyncEvent::RefreshDue) => {
                if let Some(open) = &mut self.open_connection {
                    open.lists.mark_dirty(&ListKind::ALL);
                }
            }
            OpenConnectionEvent::PingFinished(Ok(_)) => {}
            OpenConnectionEvent::PingFinished(Err(error)) => {
                if self.usage().is_lost(&error) {
                    self.connection_lost(ConnectionFailure::from(&error)).await;
                }
            }
            OpenConnectionEvent::Resources(event) => {
                if let Some(open) = &mut self.open_connection {
                    self.subscriptions.on_event(event, &mut open.resources);
                }
            }
        }
    }

    /// Lets the state machine decide about an event, and performs its action.
    async fn transition(&mut self, event: Event, search: DescendantSearch) {
        let before = std::mem::replace(&mut self.state, State::Idle);
        let before_kind = std::mem::discriminant(&before);
        let (state, action) = before.on(event, self.context.retry_policy);
        self.state = state;
        if std::mem::discriminant(&self.state) != before_kind {
            self.log_state(action);
        }
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

    /// Logs a new state. A failure is named by its kind, because its text may quote the server.
    fn log_state(&self, action: Action) {
        let server = self.desired.name();
        match &self.state {
            State::Idle => {}
            State::Opening { attempts } => {
                let transport = self.desired.spec.transport.kind().id();
                info!(server, transport, attempt = attempts.count(), "connecting");
            }
            State::Open { attempts } => {
                let elapsed_ms = self.attempt_started.elapsed().as_millis();
                info!(server, attempt = attempts.count(), elapsed_ms, "connected");
            }
            State::BackingOff { attempts, cause } if attempts.count() == MAX_ATTEMPTS => {
                warn_not_connected(server, cause);
            }
            State::BackingOff { attempts, cause } => {
                let delay = match action {
                    Action::BackOff(delay) => delay,
                    Action::Nothing | Action::Open | Action::Close | Action::CloseAndOpen => {
                        Duration::ZERO
                    }
                };
                let (failure, class) = (cause.id(), cause.class());
                let attempts = attempts.count();
                info!(server, failure, ?class, attempts, ?delay, "not connected, retrying");
            }
            State::AuthRequired { cause } => {
                warn!(server, failure = cause.id(), "not connected: the server needs a login");
            }
            State::Failed { cause } => warn_not_connected(server, cause),
            State::Closed => info!(server, "connection stopped"),
        }
    }

    fn start_connecting(&mut self) {
        self.backoff_until = None;
        self.expedited = Arc::default();
        self.attempt_started = Instant::now();
        let request = OpenRequest {
            desired: self.desired.clone(),
            client_info: self.client_info.clone(),
            context: self.context.clone(),
            login_slot: self.login_slot.clone(),
            expedited: self.expedited.clone(),
            ignore_auth_cache: std::mem::take(&mut self.ignore_auth_cache),
            reuse: std::mem::replace(&mut self.reuse, Reuse::Running),
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
        self.count_unread_messages();
        if let Some(open) = self.open_connection.take() {
            open.close(search).await;
        }
    }

    async fn run_command(&mut self, command: ConnectionCommand) {
        match command {
            ConnectionCommand::Connect => {
                self.transition(Event::Requested, DescendantSearch::Now).await;
                self.expedited.notify_one();
            }
            ConnectionCommand::Reconnect => {
                self.ignore_auth_cache = true;
                self.reuse = Reuse::Fresh;
                self.transition(Event::Reconnect, DescendantSearch::Now).await;
            }
            ConnectionCommand::RefreshLists => {
                if let Some(open) = &mut self.open_connection {
                    open.lists.mark_dirty(&ListKind::ALL);
                }
            }
            ConnectionCommand::CallFailed { generation, error } => {
                self.call_failed(generation, &error).await;
            }
            ConnectionCommand::Subscribe { uri, reply } => {
                let watch = self.open_connection.as_mut().map(|open| &mut open.resources);
                let _caller_gone = reply.send(self.subscriptions.subscribe(uri, watch));
            }
            ConnectionCommand::Unsubscribe { done } => self.drop_unused_subscriptions(done),
            // A view is published after every command.
            ConnectionCommand::Publish => self.count_unread_messages(),
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
            info!(server = self.desired.name(), "session expired, opening a new one");
            self.transition(Event::Reconnect, DescendantSearch::Now).await;
        } else if retry_class::is_unauthorized(error) || matches!(error, CallError::Closed { .. }) {
            // The next caller need not wait until the actor notices by itself.
            self.connection_lost(ConnectionFailure::from(error)).await;
        } else if retry_class::is_transport_failure(error) {
            if open.count_failure() {
                self.connection_lost(ConnectionFailure::from(error)).await;
            } else if self.usage().needs_ping_after_failure()
                && let Some(open) = &mut self.open_connection
            {
                open.ping();
            }
        }
    }

    fn usage(&self) -> ConnectionUsage {
        ConnectionUsage {
            transport: self.desired.spec.transport.kind(),
            is_watched: self.context.is_watched(),
            is_in_use: self.use_count.is_in_use(),
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
        announcement::send(&connection.client, &self.desired).await;
        self.channel.connected(connection.client.server());
        self.generation += 1;
        self.suspend_detector = SuspendDetector::new();
        let client = connection.client.clone();
        let mut resources = ResourceWatch::new(client.clone());
        self.subscriptions.resubscribe_all(&mut resources);
        let fetcher = ListFetcher {
            client,
            desired: self.desired.clone(),
            login_slot: self.login_slot.clone(),
            context: self.context.clone(),
        };
        self.open_connection = Some(OpenConnection::start(connection, fetcher, resources));
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
        if self.saves_lists {
            open.lists.save();
        }
        open.lists.fetch_dirty();
        if is_first {
            self.transition(Event::Opened, DescendantSearch::Now).await;
        }
        self.publish().await;
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
            _ if announcement::is_expected(&self.desired)
                && ListKind::changed_by(method).is_empty() =>
            {
                announcement::receive(&self.context, method, params);
            }
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

    /// Pings the server after the machine was suspended, and while it matters whether the server is there.
    fn check_liveness(&mut self) {
        let has_suspended = self.suspend_detector.has_suspended();
        if (has_suspended || self.usage().needs_ping())
            && let Some(open) = &mut self.open_connection
        {
            open.ping();
        }
    }

    /// Takes a message for a conversation. The first of a kind is published at once, the numbers with the next check.
    async fn on_channel_message(&mut self, method: &str, params: Option<&Payload>) {
        let context = intake_context(&self.context, &self.desired);
        let change = self.channel.receive(method, params, context);
        match change {
            IntakeChange::First => self.publish().await,
            IntakeChange::MoreOfTheSame => {}
        }
    }

    /// Publishes the channel's numbers, or its state after settings have changed.
    async fn check_channel(&mut self) {
        self.count_unread_messages();
        if self.channel.has_changed(intake_context(&self.context, &self.desired)) {
            self.publish().await;
        }
    }

    fn count_unread_messages(&mut self) {
        let Some(open) = &self.open_connection else { return };
        let dropped = open.connection.client.dropped_notifications();
        self.channel.note_unread(dropped, intake_context(&self.context, &self.desired));
    }

    /// Writes what became of the messages, for commands in other processes.
    fn save_channel_record(&mut self) {
        let record = self.channel.published(intake_context(&self.context, &self.desired));
        if let Some(value) = record {
            let edit = CacheEdit::Put { key: self.desired.name().to_owned(), value };
            self.context.state_writer.edit(&self.context.channel_records, edit);
        }
    }

    /// Closes a connection that has ended or no longer works.
    async fn connection_lost(&mut self, cause: ConnectionFailure) {
        let Some(open) = &mut self.open_connection else { return };
        let (lived, was_ready) = (open.lived(), open.time_to_ready.is_some());
        let (cause, stderr) = open.lost_because(cause).await;
        let cause =
            explain_auth_failure(cause, &self.login_slot, &self.desired, &self.context).await;
        let cause = cause.with_evidence(stderr);
        self.log_failure(&cause);
        info!(server = self.desired.name(), failure = cause.id(), ?lived, "connection lost");
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
        for evidence in &cause.evidence {
            if let Evidence::NotAMessage(start) = evidence {
                let note = malformed_note(&start.escape_debug().to_string());
                self.context.stderr_log.note(self.desired.name(), &note);
            }
        }
    }

    async fn shut_down(mut self, search: DescendantSearch, done: Option<oneshot::Sender<()>>) {
        self.transition(Event::Stop, search).await;
        if let Some(summary) = self.channel.summary() {
            self.context.stderr_log.note(self.desired.name(), &summary);
        }
        self.login_slot.flush().await;
        wait_until_closed(self.predecessor.take()).await;
        self.publish().await;
        if let Some(done) = done {
            let _caller_gone = done.send(());
        }
    }

    async fn publish(&mut self) {
        let status = self.state.status();
        if status.is_settled() {
            self.remembered = None;
        }
        self.save_channel_record();
        let is_connected = status == Status::Connected;
        let open = self.open_connection.as_ref().filter(|_| is_connected);
        let malformed_output =
            open.and_then(|open| open.connection.client.first_malformed()).map(str::to_owned);
        if let Some(start) = &malformed_output
            && self.view_sender.borrow().malformed_output.is_none()
        {
            let note = malformed_note(&start.escape_debug().to_string());
            self.context.stderr_log.note(self.desired.name(), &note);
        }
        let view = Arc::new(ServerView {
            name: self.desired.name().to_owned(),
            scope: self.desired.scope,
            fingerprint: self.desired.fingerprint.clone(),
            transport: self.desired.spec.transport.kind(),
            isolation: self.view_sender.borrow().isolation,
            status,
            server_info: open.map(|open| open.connection.client.server().clone()),
            catalogue: open.map(|open| open.lists.catalogue().clone()).unwrap_or_default(),
            remembered: self.remembered.clone(),
            time_to_ready: open.and_then(|open| open.time_to_ready),
            pid: self.open_connection.as_ref().and_then(|open| open.connection.pid()),
            is_shared: open.is_some_and(|open| open.connection.is_shared()),
            fallback: open.and_then(|open| open.connection.fallback),
            malformed_output,
            channel: self.channel.view(intake_context(&self.context, &self.desired)),
            active: open.map(|open| open.active(self.generation)),
        });
        self.view_sender.send_replace(view.clone());
        let _engine_gone = self.reports.send(view).await;
    }
}

fn intake_context<'a>(
    context: &'a ConnectionContext,
    desired: &'a DesiredServer,
) -> IntakeContext<'a> {
    IntakeContext { hub: &context.channels, desired, log: &context.stderr_log }
}

fn warn_not_connected(server: &str, cause: &ConnectionFailure) {
    let (failure, class) = (cause.id(), cause.class());
    warn!(server, failure, ?class, "not connected; `swb doctor` shows the cause");
}

/// Whether a notification says that the content of resources may have changed.
fn may_change_resources(notification: &str) -> bool {
    notification == RESOURCE_UPDATED
        || ListKind::changed_by(notification).contains(&ListKind::Resources)
}

async fn wait_until_closed(predecessor: Option<ClosingConnection>) {
    if let Some(predecessor) = predecessor {
        predecessor.closed().await;
    }
}
