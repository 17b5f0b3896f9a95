//! The task behind a connection: performs what the state decides, answers the server, keeps the catalogue fresh.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard_auth::scopes::StepUpLimit;
use switchboard_config::entry::server::TransportKind;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::client::{Client, RequestHandler};
use switchboard_wire::connect;
use switchboard_wire::connect::{Address, ConnectError, ConnectOptions, Connection};
use switchboard_wire::http::client::HttpClient;
use switchboard_wire::jsonrpc::message::{Payload, RequestId, RpcError};
use switchboard_wire::peer::{
    Attribution, CallError, CallOwner, IncomingRequest, PeerEvent as Said,
};
use switchboard_wire::process::child::{DescendantSearch, ProcessOptions};
use switchboard_wire::protocol::capabilities::ClientDescription;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::transport::CloseReason;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::credentials::Credentials;
use super::state::{Action, Event, MAX_ATTEMPTS, State};
use super::{
    ActiveConnection, Closing, ConnectionCommand, DesiredServer, MAX_CONSECUTIVE_FAILURES,
    ServerView, Status,
};
use crate::catalogue::completion_cache;
use crate::catalogue::completion_cache::CompletionCache;
use crate::catalogue::fetch;
use crate::catalogue::fetch::{Catalogue, FetchedList, ListKind};
use crate::connection::resolve;
use crate::connection::retry_class;
use crate::connection::server_requests::ServerResponder;
use crate::failure;
use crate::failure::{ConnectionFailure, Evidence, FailureClass, FailureKind};
use crate::host::ConnectionContext;
use crate::login::headers_helper;
use crate::login::server_login;
use crate::login::server_login::{LoginRequest, LoginSlot, ServerLogin};
use crate::resources::cache::ResourceRevision;
use crate::resources::subscription::ResourceActivity;
use crate::storage::ttl_cache::CacheEdit;

/// Changes that come this close together are fetched together.
const COALESCE_WINDOW: Duration = Duration::from_millis(50);
/// Lists are not fetched more often than this, however often the server says that they changed.
const MIN_FETCH_INTERVAL: Duration = Duration::from_millis(500);
/// A list whose time is shorter than this is not fetched anew all the time.
const MIN_TTL: Duration = Duration::from_secs(30);
/// How long we wait before we listen again after the stream of changes ended; twice as long each time.
pub(crate) const LISTEN_INITIAL_BACKOFF: Duration = Duration::from_secs(2);
/// The longest such wait. A stream that lasted this long was a good one, and the waits begin anew.
pub(crate) const LISTEN_MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Lists that no answer came for are asked for again after a pause, which doubles from the first to the second.
const LIST_RETRY_BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// What a server says when it has begun to tell us of changes.
const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// What a server says when it does not want to know any more.
const CANCELLED: &str = "notifications/cancelled";
/// What a server says when it is done with what it sent somebody to a page for.
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
/// How often we look whether the machine slept.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// A clock that went on this much further than we did means that the machine slept.
const SUSPEND_THRESHOLD: Duration = Duration::from_secs(10);
/// How long a server may take to say that it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may hold its turn. One that takes longer goes on without it.
const SLOT_TIMEOUT: Duration = Duration::from_secs(1);
/// How many questions of a server are answered at once.
const MAX_CONCURRENT_REQUESTS: usize = 32;
/// How many, where each belongs to a call of somebody: they wait for as many people as there are.
const MAX_CONCURRENT_ATTRIBUTED_REQUESTS: usize = 4096;

type ConnectFuture = Pin<Box<dyn Future<Output = Result<Connection, ConnectionFailure>> + Send>>;
type FetchFuture = Pin<Box<dyn Future<Output = Vec<(ListKind, FetchedList)>> + Send>>;
pub(crate) type ListenFuture = Pin<Box<dyn Future<Output = Result<Payload, CallError>> + Send>>;
type PingFuture = Pin<Box<dyn Future<Output = Result<Duration, CallError>> + Send>>;

pub(super) struct ConnectionActor {
    desired: DesiredServer,
    context: Arc<ConnectionContext>,
    reports: mpsc::Sender<Arc<ServerView>>,
    predecessor: Option<Closing>,
    /// What we say of ourselves there.
    offer: ClientDescription,
    /// Who answers what belongs to no call.
    default_handler: Option<Arc<dyn CallOwner>>,
    view_sender: watch::Sender<Arc<ServerView>>,
    state: State,
    login_slot: LoginSlot,
    /// Does the next attempt ignore what is remembered of a wall?
    ignore_auth_cache: bool,
    connecting: Option<ConnectFuture>,
    backoff_until: Option<Instant>,
    pub(crate) open_connection: Option<OpenConnection>,
    generation: u64,
    attempt_started: Instant,
    answering: JoinSet<()>,
    /// Which question each of them answers.
    pending_requests: Vec<(RequestId, AbortHandle)>,
    /// The resources that somebody wants to hear of; they outlive the line.
    pub(crate) subscriptions: BTreeMap<String, watch::Sender<ResourceActivity>>,
    clock: (Instant, SystemTime),
}

/// A line and everything that goes with it.
pub(crate) struct OpenConnection {
    pub(crate) connection: Connection,
    opened: Instant,
    consecutive_failures: Arc<AtomicU32>,
    resource_revision: ResourceRevision,
    catalogue: Arc<Catalogue>,
    dirty_lists: BTreeSet<ListKind>,
    fetching: Option<FetchFuture>,
    last_fetch: Instant,
    change_stream: Option<ListenFuture>,
    listen_again_at: Option<Instant>,
    /// The wait before we listen again, and since when we listen.
    listen_backoff: (Duration, Instant),
    /// Has the server said that it tells us of changes?
    is_acknowledged: bool,
    /// May a change have been missed because it had not?
    may_have_missed: bool,
    refresh_at: Option<Instant>,
    /// The wait before lists that no answer came for are asked for again.
    list_backoff: Duration,
    ping: Option<PingFuture>,
    time_to_ready: Option<Duration>,
    pub(crate) resource_watch: crate::connection::resource_subscriptions::ResourceWatch,
}

/// What happened next.
enum ActorEvent {
    Command(Option<ConnectionCommand>),
    Connected(Result<Box<Connection>, ConnectionFailure>),
    BackoffElapsed,
    Closed(CloseReason),
    Message(Said),
    ListsFetched(Vec<(ListKind, FetchedList)>),
    ChangeStreamEnded(Result<Payload, CallError>),
    ChangeStreamRetry,
    ListsExpired,
    PingFinished(Result<Duration, CallError>),
    SubscribeFinished(crate::connection::resource_subscriptions::SubscribeResult),
    ResourceStreamEnded(Result<Payload, CallError>),
    ResourceStreamRetry,
    Tick,
}

impl ConnectionActor {
    pub(super) fn new(
        desired: DesiredServer,
        context: Arc<ConnectionContext>,
        reports: mpsc::Sender<Arc<ServerView>>,
        options: super::ConnectionOptions,
    ) -> ConnectionActor {
        let mut offer = context.client_info.clone();
        offer.capabilities = options.client_capabilities.unwrap_or(offer.capabilities);
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
            default_handler: options.default_handler,
            offer,
            view_sender: watch::Sender::new(Arc::new(first)),
            state: State::Idle,
            login_slot: LoginSlot::default(),
            ignore_auth_cache: false,
            connecting: None,
            backoff_until: None,
            open_connection: None,
            generation: 0,
            attempt_started: Instant::now(),
            answering: JoinSet::new(),
            pending_requests: Vec::new(),
            subscriptions: BTreeMap::new(),
            clock: (Instant::now(), SystemTime::now()),
        }
    }

    pub(super) fn view_receiver(&self) -> watch::Receiver<Arc<ServerView>> {
        self.view_sender.subscribe()
    }

    pub(super) fn login_slot(&self) -> LoginSlot {
        self.login_slot.clone()
    }

    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<ConnectionCommand>) {
        let mut ticks = interval(CLOCK_CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.transition(Event::Start, DescendantSearch::Now).await;
        self.publish().await;
        loop {
            match self.next_event(&mut commands, &mut ticks).await {
                ActorEvent::Command(Some(ConnectionCommand::Stop { search, done })) => {
                    self.shut_down(search, Some(done)).await;
                    return;
                }
                ActorEvent::Command(None) => {
                    self.shut_down(DescendantSearch::Now, None).await;
                    return;
                }
                ActorEvent::Command(Some(command)) => self.run_command(command).await,
                ActorEvent::Connected(result) => self.connected(result).await,
                ActorEvent::BackoffElapsed => {
                    self.transition(Event::BackoffElapsed, DescendantSearch::Now).await
                }
                ActorEvent::Closed(result) => {
                    self.connection_lost(ConnectionFailure::from(&result)).await
                }
                ActorEvent::Message(said) => self.on_message(said),
                ActorEvent::ListsFetched(fetched) => self.lists_fetched(fetched).await,
                ActorEvent::ChangeStreamEnded(result) => self.change_stream_ended(&result),
                ActorEvent::ChangeStreamRetry => self.open_change_stream(),
                ActorEvent::ListsExpired => self.mark_dirty(&ListKind::ALL),
                ActorEvent::PingFinished(result) => self.ping_finished(result).await,
                ActorEvent::SubscribeFinished(told) => self.subscribe_finished(told),
                ActorEvent::ResourceStreamEnded(result) => self.resource_stream_ended(&result),
                ActorEvent::ResourceStreamRetry => self.open_resource_stream(),
                ActorEvent::Tick => {
                    self.detect_suspend();
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
        while self.answering.try_join_next().is_some() {}
        let dialling = &mut self.connecting;
        let rest = self.backoff_until;
        let Some(open) = &mut self.open_connection else {
            return tokio::select! {
                biased;
                command = commands.recv() => ActorEvent::Command(command),
                result = wait_for(dialling) => {
                    *dialling = None;
                    ActorEvent::Connected(result.map(Box::new))
                }
                () = wait_until(rest) => ActorEvent::BackoffElapsed,
            };
        };
        let client = open.connection.client.clone();
        tokio::select! {
            biased;
            command = commands.recv() => ActorEvent::Command(command),
            said = open.connection.next_event() => ActorEvent::Message(said),
            // Before the lists, which a connection that ended makes look empty.
            result = client.closed() => ActorEvent::Closed(result),
            // Asked before the lists are, so that no change falls between the two.
            result = wait_for(&mut open.change_stream) => {
                open.change_stream = None;
                ActorEvent::ChangeStreamEnded(result)
            }
            fetched = wait_for(&mut open.fetching) => {
                open.fetching = None;
                ActorEvent::ListsFetched(fetched)
            }
            result = wait_for(&mut open.ping) => {
                open.ping = None;
                ActorEvent::PingFinished(result)
            }
            told = open.resource_watch.legacy_requests.join_next(), if !open.resource_watch.legacy_requests.is_empty() => {
                ActorEvent::SubscribeFinished(told.and_then(Result::ok).flatten())
            }
            result = wait_for(&mut open.resource_watch.stream) => {
                open.resource_watch.stream = None;
                ActorEvent::ResourceStreamEnded(result)
            }
            () = wait_until(open.resource_watch.retry_at) => {
                open.resource_watch.retry_at = None;
                ActorEvent::ResourceStreamRetry
            }
            () = wait_until(open.listen_again_at) => {
                open.listen_again_at = None;
                ActorEvent::ChangeStreamRetry
            }
            () = wait_until(open.refresh_at) => {
                open.refresh_at = None;
                ActorEvent::ListsExpired
            }
            _ = ticks.tick() => ActorEvent::Tick,
        }
    }

    /// Lets the state decide, and does what it says.
    async fn transition(&mut self, event: Event, search: DescendantSearch) {
        let policy = self.context.retry_policy;
        let before = std::mem::replace(&mut self.state, State::Idle);
        let (state, act) = before.on(event, policy);
        self.state = state;
        match act {
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
        let ignore_auth_cache = std::mem::take(&mut self.ignore_auth_cache);
        let (desired, context) = (self.desired.clone(), self.context.clone());
        let predecessor = self.predecessor.clone();
        let (login_slot, offer) = (self.login_slot.clone(), self.offer.clone());
        self.connecting = Some(Box::pin(async move {
            wait_until_closed(predecessor).await;
            let login = login_slot.login(&desired, &context).await?;
            open_with_login((desired, offer), context, login, ignore_auth_cache).await
        }));
    }

    async fn close(&mut self, search: DescendantSearch) {
        self.connecting = None;
        self.answering.abort_all();
        while self.answering.join_next().await.is_some() {}
        if let Some(open) = self.open_connection.take() {
            let OpenConnection {
                connection: line,
                fetching,
                change_stream: listening,
                ping: checking,
                resource_watch: watching,
                ..
            } = open;
            drop((fetching, listening, checking, watching));
            line.close(search).await;
        }
    }

    async fn run_command(&mut self, command: ConnectionCommand) {
        match command {
            ConnectionCommand::Connect => {
                self.transition(Event::Requested, DescendantSearch::Now).await
            }
            ConnectionCommand::Reconnect => {
                self.ignore_auth_cache = true;
                self.transition(Event::Reconnect, DescendantSearch::Now).await;
            }
            ConnectionCommand::CallFailed { generation, error } => {
                self.call_failed(generation, &error).await
            }
            ConnectionCommand::Subscribe { uri, reply } => {
                let _nobody_waits = reply.send(self.subscribe_resource(uri));
            }
            ConnectionCommand::Unsubscribe { done } => self.drop_unused_subscriptions(done),
            // Obeyed before it gets here.
            ConnectionCommand::Stop { .. } => {}
        }
        self.publish().await;
    }

    /// A call failed. A forgotten session is made anew at once; a network that fails again and again ends the
    /// connection, and the state decides when to try again.
    async fn call_failed(&mut self, generation: u64, error: &CallError) {
        if generation != self.generation {
            return;
        }
        let Some(open) = &self.open_connection else { return };
        if retry_class::is_session_expired(error) {
            self.context.stderr_log.note(self.desired.name(), "the server forgot the session");
            self.transition(Event::Reconnect, DescendantSearch::Now).await;
        } else if retry_class::is_unauthorized(error) || matches!(error, CallError::Closed { .. }) {
            // Whoever asks next need not wait until we notice by ourselves.
            self.connection_lost(ConnectionFailure::from(error)).await;
        } else if retry_class::is_transport_failure(error)
            && open.consecutive_failures.fetch_add(1, Ordering::Relaxed) + 1
                >= MAX_CONSECUTIVE_FAILURES
        {
            self.connection_lost(ConnectionFailure::from(error)).await;
        }
    }

    async fn connected(&mut self, result: Result<Box<Connection>, ConnectionFailure>) {
        let line = match result {
            Ok(line) => *line,
            Err(cause) => {
                self.log_failure(&cause);
                self.transition(Event::OpenFailed(Arc::new(cause)), DescendantSearch::Now).await;
                self.publish().await;
                return;
            }
        };
        self.generation += 1;
        let now = Instant::now();
        self.clock = (now, SystemTime::now());
        let client = line.client.clone();
        let fetching = self.fetch_lists(client, ListKind::ALL.to_vec());
        self.open_connection = Some(OpenConnection {
            connection: line,
            opened: now,
            consecutive_failures: Arc::default(),
            resource_revision: ResourceRevision::default(),
            catalogue: Arc::default(),
            dirty_lists: BTreeSet::new(),
            fetching: Some(fetching),
            last_fetch: now,
            change_stream: None,
            listen_again_at: None,
            listen_backoff: (LISTEN_INITIAL_BACKOFF, now),
            is_acknowledged: false,
            may_have_missed: false,
            refresh_at: None,
            list_backoff: LIST_RETRY_BACKOFF[0],
            ping: None,
            time_to_ready: None,
            resource_watch: crate::connection::resource_subscriptions::ResourceWatch::default(),
        });
        self.open_change_stream();
        self.resubscribe_all();
    }

    async fn lists_fetched(&mut self, fetched: Vec<(ListKind, FetchedList)>) {
        if fetched.iter().any(|(_, it)| it.auth_status == Some(401)) {
            return self.connection_lost(ConnectionFailure::new(FailureKind::AuthRequired)).await;
        }
        let Some(open) = &mut self.open_connection else { return };
        open.last_fetch = Instant::now();
        open.catalogue = Arc::new(open.catalogue.updated_with(fetched));
        open.refresh_at = None;
        let announces = {
            let it = &open.connection.client.server().capabilities;
            let lists = [it.tools, it.resources, it.prompts];
            lists.iter().flatten().any(|listing| listing.list_changed)
        };
        if let (Some(fresh), false) = (open.catalogue.ttl(), announces) {
            open.refresh_at = Some(Instant::now() + fresh.max(MIN_TTL));
        }
        if open.catalogue.has_stale_list() {
            open.refresh_at = Some(Instant::now() + open.list_backoff);
            open.list_backoff = open.list_backoff.saturating_mul(2).min(LIST_RETRY_BACKOFF[1]);
        } else {
            open.list_backoff = LIST_RETRY_BACKOFF[0];
        }
        if open.time_to_ready.is_none() {
            open.time_to_ready = Some(self.attempt_started.elapsed());
            open.may_have_missed = open.change_stream.is_some() && !open.is_acknowledged;
            let text = format!("connected after {} ms", self.attempt_started.elapsed().as_millis());
            self.context.stderr_log.note(self.desired.name(), &text);
            self.transition(Event::Opened, DescendantSearch::Now).await;
        }
        self.save_completion_cache();
        self.fetch_dirty();
        self.publish().await;
    }

    /// Notes the names of what the server has, for those who complete what somebody types.
    fn save_completion_cache(&self) {
        let known = self
            .open_connection
            .as_ref()
            .and_then(|open| CompletionCache::from_catalogue(&open.catalogue));
        if let Some(known) = known {
            let folder = &self.context.completion_cache_folder;
            let path = completion_cache::cache_path(
                folder,
                self.desired.name(),
                &self.desired.fingerprint,
            );
            self.context.state_writer.write_file(path, known.to_json());
        }
    }

    /// How long the server may take for one answer while we get to know it.
    fn response_timeout(&self) -> Duration {
        self.desired.spec.common.timeout.unwrap_or(self.context.connect_timeout)
    }

    fn mark_dirty(&mut self, lists: &[ListKind]) {
        if let Some(open) = &mut self.open_connection {
            open.dirty_lists.extend(lists);
        }
        self.fetch_dirty();
    }

    /// Fetches what changed, once a fetch under way is done, and not too often.
    fn fetch_dirty(&mut self) {
        let Some(open) = &mut self.open_connection else { return };
        if open.fetching.is_some() || open.dirty_lists.is_empty() {
            return;
        }
        let lists: Vec<ListKind> = std::mem::take(&mut open.dirty_lists).into_iter().collect();
        let client = open.connection.client.clone();
        let since = open.last_fetch.elapsed();
        let pause = MIN_FETCH_INTERVAL.saturating_sub(since).max(COALESCE_WINDOW);
        let fetching = self.fetch_lists(client, lists);
        if let Some(open) = &mut self.open_connection {
            open.fetching = Some(Box::pin(async move {
                sleep(pause).await;
                fetching.await
            }));
        }
    }

    /// Fetches lists; where we are turned away and somebody is there to sign in, once more after that.
    fn fetch_lists(&self, client: Client, lists: Vec<ListKind>) -> FetchFuture {
        let (limit, context) = (self.response_timeout(), self.context.clone());
        let (login_slot, desired) = (self.login_slot.clone(), self.desired.clone());
        Box::pin(async move {
            let fetched = fetch::fetch(client.clone(), lists.clone(), limit).await;
            let is_auth_rejected = fetched.iter().any(|(_, it)| it.auth_status.is_some());
            match is_auth_rejected && login_slot.sign_in_if_required(&desired, &context).await {
                true => fetch::fetch(client, lists, limit).await,
                false => fetched,
            }
        })
    }

    fn on_message(&mut self, said: Said) {
        match said {
            Said::Request(request) => self.on_request(request),
            Said::Notification { method, params } => self.on_notification(&method, params.as_ref()),
        }
    }

    fn on_notification(&mut self, method: &str, params: Option<&Payload>) {
        if let (Some(open), true) = (&self.open_connection, concerns_resources(method)) {
            open.resource_revision.bump();
        }
        match method {
            crate::connection::resource_subscriptions::RESOURCE_UPDATED => {
                self.resource_updated(params)
            }
            SUBSCRIPTIONS_ACKNOWLEDGED if self.is_resource_acknowledgement(params) => {
                self.resource_stream_acknowledged(params)
            }
            SUBSCRIPTIONS_ACKNOWLEDGED => self.change_stream_acknowledged(),
            CANCELLED => self.cancel_request(params),
            ELICITATION_COMPLETE => self.elicitation_completed(params),
            _ => self.mark_dirty(ListKind::changed_by(method)),
        }
    }

    /// What changed before somebody heard us may have been missed.
    fn change_stream_acknowledged(&mut self) {
        let Some(open) = &mut self.open_connection else { return };
        open.is_acknowledged = true;
        if std::mem::take(&mut open.may_have_missed) {
            self.mark_dirty(&ListKind::ALL);
        }
    }

    fn on_request(&mut self, request: IncomingRequest) {
        let most = match &request.attribution {
            Attribution::Owner(_) => MAX_CONCURRENT_ATTRIBUTED_REQUESTS,
            Attribution::None | Attribution::Ambiguous => MAX_CONCURRENT_REQUESTS,
        };
        if self.answering.len() >= most {
            self.answering.spawn(request.reject(RpcError {
                code: -32603,
                message: "too many questions at once".to_owned(),
                data: None,
            }));
            return;
        }
        let counsel = self.context.client_features.clone();
        let responder: Arc<dyn RequestHandler> = match &request.attribution {
            Attribution::None => {
                match self.default_handler.clone().or_else(|| counsel.default_handler()) {
                    Some(owner) => owner,
                    None => Arc::new(ServerResponder {
                        server: self.desired.name().to_owned(),
                        features: counsel,
                    }),
                }
            }
            Attribution::Owner(attendant) => attendant.clone(),
            // To ask the wrong one would show one client what another does.
            Attribution::Ambiguous => {
                let text = "a question was not answered: it does not say which client's call it belongs to";
                self.context.stderr_log.note(self.desired.name(), text);
                self.answering.spawn(request.reject(RpcError {
                    code: -32603,
                    message: "several clients are being served, and the question does not say whose call it belongs to".to_owned(),
                    data: None,
                }));
                return;
            }
        };
        let id = request.id.clone();
        let answering = self.answering.spawn(async move {
            let method = request.method.clone();
            let params = request.params.clone();
            match responder.respond(&method, params).await {
                Ok(answer) => request.respond(answer).await,
                Err(error) => request.reject(error).await,
            }
        });
        self.pending_requests.retain(|(_, answering)| !answering.is_finished());
        self.pending_requests.push((id, answering));
    }

    /// The server does not want to know any more: whoever is being asked is left in peace.
    fn cancel_request(&mut self, params: Option<&Payload>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: Json,
        }
        let Some(cancelled) = params.and_then(|it| it.decode::<Cancelled>().ok()) else { return };
        let cancelled = RequestId::from_json(&cancelled.request_id);
        self.pending_requests.retain(|(id, answering)| {
            let is_meant = *id == cancelled;
            if is_meant {
                answering.abort();
            }
            !is_meant
        });
    }

    /// The server is done with what it sent somebody to a page for.
    fn elicitation_completed(&self, params: Option<&Payload>) {
        let params: Option<Json> = params.and_then(|it| it.decode().ok());
        if let Some(id) = params.as_ref().and_then(|it| it["elicitationId"].as_str()) {
            let news = (self.desired.name().to_owned(), id.to_owned());
            let _nobody_waits = self.context.completed_elicitations.send(news);
        }
    }

    /// Modern servers say what changed only to those who listen.
    fn open_change_stream(&mut self) {
        let Some(open) = &mut self.open_connection else { return };
        let introduction = open.connection.client.server();
        if introduction.era != Era::Modern {
            return;
        }
        let mut filter = serde_json::Map::new();
        let capabilities = &introduction.capabilities;
        for (listing, name) in [
            (capabilities.tools, "toolsListChanged"),
            (capabilities.resources, "resourcesListChanged"),
            (capabilities.prompts, "promptsListChanged"),
        ] {
            if listing.is_some_and(|it| it.list_changed) {
                filter.insert(name.to_owned(), true.into());
            }
        }
        if filter.is_empty() {
            return;
        }
        let params = Payload::from_json(json!({"notifications": filter}).to_string().into());
        let request = open.connection.client.request("subscriptions/listen").params(params);
        open.change_stream = Some(Box::pin(request.send()));
        open.listen_backoff.1 = Instant::now();
    }

    /// A stream that ended is opened again, and what may have been missed is fetched, now and when somebody hears
    /// us again. A server that refuses has none.
    fn change_stream_ended(&mut self, result: &Result<Payload, CallError>) {
        match result {
            Err(CallError::Remote(_)) => {}
            Ok(_)
            | Err(CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }) => {
                if let Some(open) = &mut self.open_connection {
                    let (pause, since) = open.listen_backoff;
                    let pause = if since.elapsed() < LISTEN_MAX_BACKOFF {
                        pause
                    } else {
                        LISTEN_INITIAL_BACKOFF
                    };
                    open.listen_again_at = Some(Instant::now() + pause);
                    open.may_have_missed = true;
                    open.listen_backoff.0 = pause.saturating_mul(2).min(LISTEN_MAX_BACKOFF);
                }
                self.mark_dirty(&ListKind::ALL);
            }
        }
    }

    /// After the machine slept, a connection may be dead without knowing.
    fn detect_suspend(&mut self) {
        let (then, then_by_clock) = self.clock;
        let now = (Instant::now(), SystemTime::now());
        let by_clock = now.1.duration_since(then_by_clock).unwrap_or_default();
        let by_us = now.0.saturating_duration_since(then);
        self.clock = now;
        if by_clock > by_us + SUSPEND_THRESHOLD
            && let Some(open) = &mut self.open_connection
            && open.ping.is_none()
        {
            let client = open.connection.client.clone();
            open.ping = Some(Box::pin(async move { client.ping(PING_TIMEOUT).await }));
        }
    }

    async fn ping_finished(&mut self, result: Result<Duration, CallError>) {
        if let Err(error) = result {
            self.connection_lost(ConnectionFailure::from(&error)).await;
        }
    }

    /// The line is gone, or as good as gone.
    async fn connection_lost(&mut self, cause: ConnectionFailure) {
        let Some(open) = &mut self.open_connection else { return };
        let lived = open.opened.elapsed();
        let was_ready = open.time_to_ready.is_some();
        let exit = open.connection.exit_status().await;
        let said = open.connection.stderr_tail().await;
        let cause = match (exit, &cause.kind) {
            (Some(status), FailureKind::Closed) => {
                ConnectionFailure::new(failure::exit_failure(status))
            }
            (Some(_) | None, _) => cause,
        };
        let (login_slot, context) = (self.login_slot.clone(), self.context.clone());
        let cause = explain_auth_failure(cause, login_slot, &self.desired.clone(), context).await;
        let cause = cause.with_evidence(failure::stderr_evidence(&said));
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
            let _nobody_waits = done.send(());
        }
    }

    fn status(&self) -> Status {
        let most = MAX_ATTEMPTS;
        match &self.state {
            State::Idle => Status::Pending { attempt: 1, max_attempts: most, cause: None },
            State::Opening { attempt } => {
                Status::Pending { attempt: *attempt, max_attempts: most, cause: None }
            }
            State::BackingOff { attempts, cause } => {
                let attempt = (*attempts + 1).min(most);
                Status::Pending { attempt, max_attempts: most, cause: Some(cause.clone()) }
            }
            State::Open { .. } => Status::Connected,
            State::AuthRequired { cause } => Status::NeedsAuth(cause.clone()),
            State::Failed { cause } => Status::Failed(cause.clone()),
            State::Closed => Status::Disabled,
        }
    }

    async fn publish(&mut self) {
        let status = self.status();
        let stands = status == Status::Connected;
        let open = self.open_connection.as_ref().filter(|_| stands);
        let view = Arc::new(ServerView {
            name: self.desired.name().to_owned(),
            scope: self.desired.scope,
            fingerprint: self.desired.fingerprint.clone(),
            transport: self.desired.spec.transport.kind(),
            status,
            server_info: open.map(|open| open.connection.client.server().clone()),
            catalogue: open.map(|open| open.catalogue.clone()).unwrap_or_default(),
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

/// May what resources hold have changed?
fn concerns_resources(notification: &str) -> bool {
    notification == "notifications/resources/updated"
        || ListKind::changed_by(notification).contains(&ListKind::Resources)
}

/// What a future in waiting comes to; waits for ever where there is none. The caller takes it away afterwards.
async fn wait_for<T>(waiting: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match waiting {
        Some(future) => future.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn wait_until_closed(predecessor: Option<Closing>) {
    if let Some(predecessor) = predecessor {
        predecessor.closed().await;
    }
}

async fn wait_until(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// From a definition to a line, with somebody signing in on the way where the server wants that and somebody is
/// there. The person's time is nobody's turn.
async fn open_with_login(
    (desired, offer): (DesiredServer, ClientDescription),
    context: Arc<ConnectionContext>,
    login: Option<Arc<ServerLogin>>,
    ignore_auth_cache: bool,
) -> Result<Connection, ConnectionFailure> {
    let Some(login) = login else {
        // What a helper prints may be another thing by now, whatever was said of the last.
        let ignore_auth_cache =
            ignore_auth_cache || headers_helper::command(&desired.spec).is_some();
        return open((desired, offer), context, None, ignore_auth_cache).await;
    };
    let mut step_ups = StepUpLimit::default();
    let mut ignore_auth_cache = ignore_auth_cache || login.has_login().await;
    loop {
        let called = (desired.clone(), offer.clone());
        let opened = open(called, context.clone(), Some(&login), ignore_auth_cache).await;
        let cause = match opened {
            Ok(line) => return Ok(line),
            Err(cause) => cause,
        };
        let is_about_login =
            matches!(cause.kind, FailureKind::AuthRequired | FailureKind::Forbidden);
        let guide = context.login_options.guide.as_deref();
        let (Some(guide), true) = (guide.filter(|_| is_about_login), step_ups.try_acquire()) else {
            return Err(with_login_error(cause, &login));
        };
        if let Err(error) = login.sign_in(guide, &LoginRequest::default()).await {
            return Err(cause.with_evidence(Evidence::Detail(server_login::error_chain(&error))));
        }
        ignore_auth_cache = true;
    }
}

/// A server that turns us away while there is a login that only an outage kept from being renewed does not want another.
async fn explain_auth_failure(
    cause: ConnectionFailure,
    login_slot: LoginSlot,
    desired: &DesiredServer,
    context: Arc<ConnectionContext>,
) -> ConnectionFailure {
    if cause.kind != FailureKind::AuthRequired {
        return cause;
    }
    match login_slot.login(desired, &context).await {
        Ok(Some(login)) => with_login_error(cause, &login),
        Ok(None) | Err(_) => cause,
    }
}

/// A failure with what stood in the way of signing in, where something did.
fn with_login_error(cause: ConnectionFailure, login: &ServerLogin) -> ConnectionFailure {
    match (&cause.kind, login.last_error()) {
        (FailureKind::AuthRequired, Some(trouble)) => {
            let kind = match login.may_refresh_later() {
                true => FailureKind::LoginNotRefreshed,
                false => FailureKind::AuthRequired,
            };
            ConnectionFailure { kind, ..cause }.with_evidence(Evidence::Detail(trouble))
        }
        (_, _) => cause,
    }
}

/// From a definition to a line: waits for its turn, fetches secrets, dials, and remembers what it learnt.
async fn open(
    (desired, offer): (DesiredServer, ClientDescription),
    context: Arc<ConnectionContext>,
    login: Option<&Arc<ServerLogin>>,
    ignore_auth_cache: bool,
) -> Result<Connection, ConnectionFailure> {
    let window = match desired.spec.transport.kind() {
        TransportKind::Stdio => &context.local_slots,
        TransportKind::Sse
        | TransportKind::Http
        | TransportKind::Ws
        | TransportKind::SseIde
        | TransportKind::WsIde
        | TransportKind::Sdk
        | TransportKind::ConnectorProxy => &context.remote_slots,
    };
    let slot = window.acquire().await;
    let key = format!("{}/{}", desired.name(), desired.fingerprint);
    let prepared = {
        let _slot = context.blocking_slots.acquire().await;
        let (desired, context, key) = (desired.clone(), context.clone(), key.clone());
        tokio::task::spawn_blocking(move || prepare(&desired, &context, &key, ignore_auth_cache))
            .await
    };
    let (address, hint, network) =
        prepared.unwrap_or_else(|_| Err(ConnectionFailure::new(FailureKind::InvalidConfig)))?;
    let credentials = Credentials::of(&desired, &address, login, &context).await?;
    // A helper may have been slow, and is not to hold up those who wait for their turn.
    let slot = slot.ok().filter(|_| !credentials.took_long());
    let address = credentials.on(address);
    let (said, log_task) = context.stderr_log.sender(desired.name());
    let terms = ConnectOptions {
        client: offer,
        era_hint: hint,
        timeout: desired.spec.common.timeout.unwrap_or(context.connect_timeout),
        process_options: ProcessOptions {
            watchdog: context.watchdog(),
            process_set: context.descendants,
            stderr: Some(said),
            ..ProcessOptions::default()
        },
        http_client: network,
    };
    let dialled = {
        let dialling = connect::connect(&address, &terms);
        tokio::pin!(dialling);
        match timeout(SLOT_TIMEOUT, &mut dialling).await {
            Ok(dialled) => {
                drop(slot);
                dialled
            }
            // Whoever is this slow no longer holds up those who wait for their turn.
            Err(_) => {
                drop(slot);
                dialling.await
            }
        }
    };
    // Ends with the program whose words it carries.
    drop((terms, log_task));
    let outcome = match &dialled {
        Ok(line) => AttemptOutcome::Era(line.client.server().era),
        Err(error) => match ConnectionFailure::from(error).class() {
            FailureClass::AuthRequired => AttemptOutcome::AuthRequired,
            FailureClass::Transient | FailureClass::Permanent => AttemptOutcome::Nothing,
        },
    };
    outcome.save(&context, key);
    match dialled {
        Ok(line) => Ok(line),
        Err(error) => Err(credentials.explain(connect_failure(&error, &address)).await),
    }
}

/// What there is to remember of an attempt.
enum AttemptOutcome {
    Era(Era),
    AuthRequired,
    Nothing,
}

impl AttemptOutcome {
    fn save(self, context: &ConnectionContext, key: String) {
        let scribe = &context.state_writer;
        match self {
            AttemptOutcome::Era(era) => {
                // A legacy verdict is renewed only when it has run out: a server may learn.
                let value = era.as_str().to_owned();
                scribe
                    .edit(&context.era_cache, CacheEdit::PutIfChanged { key: key.clone(), value });
                scribe.edit(&context.auth_required_cache, CacheEdit::Remove { key });
            }
            AttemptOutcome::AuthRequired => {
                scribe.edit(
                    &context.auth_required_cache,
                    CacheEdit::Put { key, value: "401".to_owned() },
                );
            }
            AttemptOutcome::Nothing => {}
        }
    }
}

/// What blocks: what is remembered, and the secrets.
fn prepare(
    desired: &DesiredServer,
    context: &ConnectionContext,
    key: &str,
    ignore_auth_cache: bool,
) -> Result<(Address, EraHint, Option<HttpClient>), ConnectionFailure> {
    if !ignore_auth_cache && context.auth_required_cache.get(key).is_some() {
        let detail = "it said so less than 15 minutes ago; `swb reconnect` asks again".to_owned();
        return Err(ConnectionFailure::new(FailureKind::AuthRequired)
            .with_evidence(Evidence::Detail(detail)));
    }
    let hint = match context.era_cache.get(key).as_deref().and_then(Era::parse) {
        Some(Era::Legacy) => EraHint::Legacy,
        Some(Era::Modern) | None => EraHint::Unknown,
    };
    let address = resolve::server_address(&desired.spec, &context.env, &context.in_process)?;
    let network = match &address {
        Address::Http(_) | Address::Sse(_) | Address::WebSocket(_) => {
            let own = resolve::load_certificates(&desired.spec, &context.env)?;
            Some(context.network(own)?)
        }
        Address::Stdio(_) | Address::InProcess(_) => None,
    };
    Ok((address, hint, network))
}

/// A failure, with what only we know of it.
fn connect_failure(error: &ConnectError, address: &Address) -> ConnectionFailure {
    let cause = ConnectionFailure::from(error);
    match (&cause.kind, address) {
        (FailureKind::CommandNotFound { .. }, Address::Stdio(program)) => {
            let path = program.env.iter().find(|(name, _)| name == "PATH");
            let searched = path.map(|(_, value)| value.to_string_lossy().into_owned());
            cause.with_evidence(Evidence::SearchedPath(searched.unwrap_or_default()))
        }
        (_, _) => cause,
    }
}
