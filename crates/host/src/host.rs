//! The host at work: keeps a connection to every server that a configuration wants, and hands out snapshots.
//! One task owns which servers there are; each connection has a task of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use switchboard_config::entry::server::{Fingerprint, ToolFilter, TransportKind};
use switchboard_config::merge::EffectiveConfig;
use switchboard_config::permission;
use switchboard_config::settings::hooks::ElicitationHook;
use switchboard_wire::http::client;
use switchboard_wire::http::client::HttpClient;
use switchboard_wire::peer::CallOwner;
use switchboard_wire::process::child::{DescendantSearch, ProcessSet, Watchdog, WatchdogProgram};
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use switchboard_wire::protocol::era::Era;
use tokio::sync::{OnceCell, Semaphore, broadcast, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::interval;

use crate::call::pipeline::MAX_CONCURRENT_IMAGE_DECODES;
use crate::connection::dedicated;
use crate::connection::dedicated::{DedicatedConnection, DedicatedConnections};
use crate::connection::in_process::InProcessServer;
use crate::connection::resolve::{Certificates, HostEnv};
use crate::connection::server_requests::{ClientFeatures, SamplingModel, ServerResponder};
use crate::connection::state::RetryPolicy;
use crate::connection::{self, Closing, ConnectionHandle, DesiredServer, ServerView};
use crate::elicitation::elicitor::{DeclineAll, Elicitor};
use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::login::connectors::AccountToken;
use crate::login::pending::{LoginProgress, PendingLogins};
use crate::login::server_login::{LoginOptions, LoginServices};
use crate::pool::updater;
use crate::pool::updater::PoolReceiver;
use crate::resources::cache;
use crate::resources::cache::ResourceCacheHandle;
use crate::sources::paths::Paths;
use crate::storage::stderr_log::StderrLog;
use crate::storage::ttl_cache::{StateWriter, TtlCache};

/// How many programs are started at once, unless told otherwise.
pub const DEFAULT_MAX_CONCURRENT_LOCAL: usize = 3;
/// How many remote servers are reached at once, unless told otherwise.
pub const DEFAULT_MAX_CONCURRENT_REMOTE: usize = 20;
/// How long a connection may take to stand, unless told otherwise.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a legacy server is believed to be one.
const ERA_TTL: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a server that wants a login is left alone.
const AUTH_REQUIRED_TTL: Duration = Duration::from_secs(15 * 60);
/// How many requests and reports may wait for the engine.
const QUEUE_CAPACITY: usize = 256;
/// How often it is looked whether lanes are still used.
const DEDICATED_SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// How many threads read memories and fetch secrets at once.
const MAX_BLOCKING_TASKS: usize = 24;

/// What a caller decides.
#[derive(Clone)]
pub struct HostOptions {
    /// Where our things are.
    pub paths: Paths,
    /// Home, working folder, variables.
    pub env: HostEnv,
    /// How many programs are started at once.
    pub max_concurrent_local: usize,
    /// How many remote servers are reached at once.
    pub max_concurrent_remote: usize,
    /// How long a connection may take to stand, where its entry does not say.
    pub connect_timeout: Duration,
    /// How much is tried.
    pub retry_policy: RetryPolicy,
    /// How remote servers are reached.
    pub network: client::HttpSettings,
    /// How to start the process that cleans up after us when we are killed.
    pub watchdog: Option<WatchdogProgram>,
    /// Servers in this process, by the name that a definition of type `sdk` gives.
    pub in_process: BTreeMap<String, InProcessServer>,
    /// Who answers servers' questions.
    pub elicitor: Arc<dyn Elicitor>,
    /// The model that servers may ask, where there is one.
    pub model: Option<Arc<dyn SamplingModel>>,
    /// What is offered to servers because clients of ours may be able to do it.
    pub lent_capabilities: Vec<ClientCapability>,
    /// How one signs in to servers.
    pub login: LoginOptions,
}

impl HostOptions {
    /// What is usual: patient, with a direct way out, no guard, no servers in this process, and nobody who answers
    /// questions.
    pub fn new(paths: Paths, env: HostEnv) -> HostOptions {
        HostOptions {
            paths,
            env,
            max_concurrent_local: DEFAULT_MAX_CONCURRENT_LOCAL,
            max_concurrent_remote: DEFAULT_MAX_CONCURRENT_REMOTE,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            retry_policy: RetryPolicy::RetryWithBackoff,
            network: client::HttpSettings {
                user_agent: concat!("switchboard/", env!("CARGO_PKG_VERSION")).to_owned(),
                proxies: client::ProxySettings::default(),
                extra_ca: Vec::new(),
                identity: None,
                connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            },
            watchdog: None,
            in_process: BTreeMap::new(),
            elicitor: Arc::new(DeclineAll::default()),
            model: None,
            lent_capabilities: Vec::new(),
            login: LoginOptions::default(),
        }
    }
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("around", &self.env).finish_non_exhaustive()
    }
}

/// What every connection shares.
pub struct ConnectionContext {
    pub(crate) env: HostEnv,
    pub(crate) in_process: BTreeMap<String, InProcessServer>,
    pub(crate) local_slots: Semaphore,
    pub(crate) remote_slots: Semaphore,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) client_info: ClientDescription,
    pub(crate) client_features: Arc<ClientFeatures>,
    /// Which questions that sent people somewhere are done: server and id.
    pub(crate) completed_elicitations: broadcast::Sender<(String, String)>,
    pub(crate) stderr_log: StderrLog,
    pub(crate) era_cache: TtlCache,
    pub(crate) auth_required_cache: TtlCache,
    pub(crate) state_writer: StateWriter,
    /// Where it is remembered what servers have.
    pub(crate) completion_cache_folder: PathBuf,
    pub(crate) descendants: ProcessSet,
    /// A place for work that blocks a thread.
    pub(crate) blocking_slots: Semaphore,
    /// A place for answers with pictures, which take much memory.
    pub(crate) image_slots: Arc<Semaphore>,
    pub(crate) login_options: LoginOptions,
    pub(crate) logins_folder: PathBuf,
    pub(crate) paths: Paths,
    login_services: OnceCell<Arc<LoginServices>>,
    account_token: OnceCell<Option<Arc<AccountToken>>>,
    network: (client::HttpSettings, OnceLock<Result<HttpClient, String>>),
    watchdog: (Option<WatchdogProgram>, OnceLock<Option<Watchdog>>),
}

impl fmt::Debug for ConnectionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("around", &self.env).finish_non_exhaustive()
    }
}

impl ConnectionContext {
    fn new(options: HostOptions) -> io::Result<ConnectionContext> {
        let stderr_log = StderrLog::open(&options.paths.logs())?;
        let mut capabilities = vec![ClientCapability::Roots, ClientCapability::Elicitation];
        let sampling = options.model.as_ref().map(|_| ClientCapability::Sampling);
        for ability in sampling.into_iter().chain(options.lent_capabilities) {
            if !capabilities.contains(&ability) {
                capabilities.push(ability);
            }
        }
        let folder = options.env.working_folder.clone();
        let features =
            ClientFeatures::new(folder, options.elicitor, options.model, stderr_log.clone());
        Ok(ConnectionContext {
            local_slots: Semaphore::new(options.max_concurrent_local.max(1)),
            remote_slots: Semaphore::new(options.max_concurrent_remote.max(1)),
            connect_timeout: options.connect_timeout,
            retry_policy: options.retry_policy,
            client_info: ClientDescription {
                name: "switchboard".to_owned(),
                title: "Switchboard".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                capabilities,
            },
            client_features: Arc::new(features),
            completed_elicitations: broadcast::Sender::new(QUEUE_CAPACITY),
            stderr_log,
            era_cache: TtlCache::new(&options.paths.era_cache(), ERA_TTL),
            auth_required_cache: TtlCache::new(
                &options.paths.auth_required_cache(),
                AUTH_REQUIRED_TTL,
            ),
            state_writer: StateWriter::start()?,
            completion_cache_folder: options.paths.completion_cache(),
            descendants: ProcessSet::new(),
            blocking_slots: Semaphore::new(MAX_BLOCKING_TASKS),
            image_slots: Arc::new(Semaphore::new(MAX_CONCURRENT_IMAGE_DECODES)),
            env: options.env,
            in_process: options.in_process,
            login_options: options.login,
            logins_folder: options.paths.logins(),
            paths: options.paths,
            login_services: OnceCell::new(),
            account_token: OnceCell::new(),
            network: (options.network, OnceLock::new()),
            watchdog: (options.watchdog, OnceLock::new()),
        })
    }

    /// The way out, made when the first remote server is reached: certificates take time and room. A server with
    /// certificates of its own has a way of its own.
    pub(crate) fn network(
        &self,
        server_certificates: Option<Certificates>,
    ) -> Result<HttpClient, ConnectionFailure> {
        let (context, made) = &self.network;
        let Some(server_certificates) = server_certificates else {
            return made.get_or_init(|| build_network(context)).clone().map_err(invalid_config);
        };
        let mut context = context.clone();
        context.extra_ca.extend(server_certificates.authorities);
        context.identity = server_certificates.identity.or(context.identity);
        build_network(&context).map_err(invalid_config)
    }

    /// What every login shares, opened when the first one is needed.
    pub(crate) async fn login_services(&self) -> Result<Arc<LoginServices>, ConnectionFailure> {
        let opened = self
            .login_services
            .get_or_try_init(|| async { LoginServices::open(self).await.map(Arc::new) });
        opened.await.cloned()
    }

    /// The token of the connector account, where there is one.
    pub(crate) async fn account_token(
        &self,
    ) -> Result<Option<Arc<AccountToken>>, ConnectionFailure> {
        self.account_token.get_or_try_init(|| AccountToken::open(self)).await.cloned()
    }

    /// The guard, started with the first program. Without one, programs are still stopped whenever we can.
    pub(crate) fn watchdog(&self) -> Option<Watchdog> {
        let (program, started) = &self.watchdog;
        started.get_or_init(|| program.as_ref().and_then(|it| Watchdog::start(it).ok())).clone()
    }
}

fn build_network(context: &client::HttpSettings) -> Result<HttpClient, String> {
    HttpClient::new(context).map_err(|error| {
        let source = std::error::Error::source(&error);
        source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    })
}

fn invalid_config(detail: String) -> ConnectionFailure {
    ConnectionFailure::new(FailureKind::InvalidConfig).with_evidence(Evidence::Detail(detail))
}

/// All servers at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// One more with every change.
    pub revision: u64,
    /// Every server that is wanted, by name.
    pub servers: BTreeMap<String, Arc<ServerView>>,
    pub(crate) connections: Arc<BTreeMap<String, ConnectionHandle>>,
    pub(crate) dedicated: Arc<dedicated::DedicatedHandles>,
    /// Which tools of each server are wanted.
    pub(crate) tool_filters: Arc<BTreeMap<String, ToolFilter>>,
    /// Which tools are hidden.
    pub(crate) rules: Arc<permission::PermissionRules>,
}

impl Snapshot {
    /// Is there nothing left to wait for?
    pub fn is_settled(&self) -> bool {
        self.servers.values().all(|view| view.status.is_settled())
    }
}

/// A running host. Clones share it. Call [`Host::stop`] at the end: dropping it ends servers by force.
#[derive(Debug, Clone)]
pub struct Host {
    commands: mpsc::Sender<EngineCommand>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    context: Arc<ConnectionContext>,
    pools: PoolReceiver,
    resource_cache: ResourceCacheHandle,
}

#[derive(Debug)]
enum EngineCommand {
    Apply {
        servers: Vec<DesiredServer>,
        done: oneshot::Sender<()>,
    },
    SetRules {
        rules: Arc<permission::PermissionRules>,
        done: oneshot::Sender<()>,
    },
    OpenDedicated {
        server: String,
        dedicated: DedicatedConnection,
        reply: oneshot::Sender<Option<ConnectionHandle>>,
    },
    CloseDedicated {
        key: String,
    },
    Login {
        server: String,
        pasted: Option<String>,
        reply: oneshot::Sender<LoginProgress>,
    },
    Shutdown {
        done: oneshot::Sender<()>,
    },
}

impl Host {
    /// Starts a host that knows no server yet. Must be called inside a runtime.
    pub fn start(options: HostOptions) -> io::Result<(Host, JoinHandle<()>)> {
        let context = Arc::new(ConnectionContext::new(options)?);
        let (commands, from_callers) = mpsc::channel(QUEUE_CAPACITY);
        let (reports, from_connections) = mpsc::channel(QUEUE_CAPACITY);
        let (snapshot_sender, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let (pools, pool_updater) = updater::new(snapshots.clone(), context.retry_policy);
        let (resource_cache, resource_cache_worker) = cache::new(snapshots.clone());
        let mut workers = JoinSet::new();
        workers.spawn(pool_updater);
        workers.spawn(resource_cache_worker);
        let engine = Engine {
            context: context.clone(),
            reports,
            snapshots: snapshot_sender,
            servers: BTreeMap::new(),
            closing_tasks: JoinSet::new(),
            workers,
            rules: Arc::default(),
            closing: BTreeMap::new(),
            dedicated: DedicatedConnections::default(),
            pending_logins: PendingLogins::default(),
        };
        let task = tokio::spawn(engine.run(from_callers, from_connections));
        Ok((Host { commands, snapshots, context, pools, resource_cache }, task))
    }

    /// Makes the servers that run those that a configuration wants; what did not change is not touched.
    pub async fn apply(&self, effective: &EffectiveConfig) {
        self.apply_servers(desired_servers(effective)).await;
    }

    /// The same for a list of servers.
    pub async fn apply_servers(&self, desired: Vec<DesiredServer>) {
        let (done, applied) = oneshot::channel();
        if self.commands.send(EngineCommand::Apply { servers: desired, done }).await.is_ok() {
            let _over = applied.await;
        }
    }

    /// Makes these the rules by which tools are hidden. Set before [`Host::apply`], no tool is seen that they hide.
    pub async fn set_rules(&self, rules: permission::PermissionRules) {
        let (done, set) = oneshot::channel();
        let command = EngineCommand::SetRules { rules: Arc::new(rules), done };
        if self.commands.send(command).await.is_ok() {
            let _over = set.await;
        }
    }

    /// The login at a server, begun where none is under way; nothing where there is no such server any more.
    pub(crate) async fn begin_login(&self, server: &str) -> Option<LoginProgress> {
        self.login_progress(server, None).await
    }

    /// Hands what somebody pasted to the login at a server; nothing where none waits for it.
    pub(crate) async fn submit_to_login(
        &self,
        server: &str,
        pasted: String,
    ) -> Option<LoginProgress> {
        self.login_progress(server, Some(pasted)).await
    }

    async fn login_progress(&self, server: &str, pasted: Option<String>) -> Option<LoginProgress> {
        let (reply, progress) = oneshot::channel();
        let command = EngineCommand::Login { server: server.to_owned(), pasted, reply };
        self.commands.send(command).await.ok()?;
        progress.await.ok()
    }

    /// All servers now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// All servers now and later.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// All servers and their tools, once nothing changes by itself any more.
    pub async fn settled(&self) -> Arc<Snapshot> {
        let mut watch = self.watch();
        let snapshot = match watch.wait_for(|it| it.is_settled()).await {
            Ok(snapshot) => snapshot.clone(),
            // The host is gone, and with it whatever could change.
            Err(_) => self.snapshot(),
        };
        self.settled_pool().await;
        snapshot
    }

    /// Has one server's connection made anew; `None` where there is no such server.
    pub async fn reconnect(&self, name: &str) -> Option<()> {
        let handle = self.connection(name)?;
        handle.reconnect().await;
        Some(())
    }

    /// Where what servers say on standard error is kept.
    pub fn stderr_log(&self) -> &StderrLog {
        &self.context.stderr_log
    }

    /// The commands that answer servers' questions before anybody else, from now on.
    pub fn set_hooks(&self, hooks: &[ElicitationHook]) {
        self.context.client_features.set_hooks(hooks);
    }

    /// Who answers what servers ask outside of any call, from now on: a client that has the host to itself. Servers
    /// that asked before are told to ask again which folders they may use.
    pub async fn set_default_handler(&self, default_handler: Option<Arc<dyn CallOwner>>) {
        self.context.client_features.set_default_handler(default_handler);
        self.notify_roots_changed(None).await;
    }

    /// Says that the folders changed: to the servers of one lane, or on the connections for everybody.
    pub async fn notify_roots_changed(&self, dedicated: Option<&str>) {
        let snapshot = self.snapshot();
        let of_lane =
            snapshot.dedicated.iter().filter(|it| Some(&*it.0.1) == dedicated).map(|it| it.1);
        let of_all = snapshot.connections.values().filter(|_| dedicated.is_none());
        for handle in of_lane.chain(of_all) {
            let view = handle.view();
            if view.server_info.as_ref().is_some_and(|it| it.era == Era::Legacy) {
                handle.notify("notifications/roots/list_changed").await;
            }
        }
    }

    pub(crate) fn context(&self) -> &ConnectionContext {
        &self.context
    }

    pub(crate) fn shared_context(&self) -> &Arc<ConnectionContext> {
        &self.context
    }

    pub(crate) fn responder(&self, server: &str) -> Arc<ServerResponder> {
        let features = self.context.client_features.clone();
        Arc::new(ServerResponder { server: server.to_owned(), features })
    }

    pub(crate) fn image_slots(&self) -> &Arc<Semaphore> {
        &self.context.image_slots
    }

    pub(crate) fn pools(&self) -> &PoolReceiver {
        &self.pools
    }

    pub(crate) fn resource_cache(&self) -> &ResourceCacheHandle {
        &self.resource_cache
    }

    pub(crate) fn connections(&self) -> Arc<BTreeMap<String, ConnectionHandle>> {
        self.snapshots.borrow().connections.clone()
    }

    /// Ends the connections of a lane: whoever used them is gone.
    pub async fn close_dedicated(&self, key: &str) {
        let _over = self.commands.send(EngineCommand::CloseDedicated { key: key.to_owned() }).await;
    }

    /// The connection that somebody uses: their lane, made now where there is none, or the one for everybody.
    pub(crate) async fn connection_for(
        &self,
        name: &str,
        dedicated: Option<&DedicatedConnection>,
    ) -> Option<ConnectionHandle> {
        let Some(dedicated) = dedicated else { return self.connection(name) };
        let key = (name.to_owned(), dedicated.key.clone());
        if let Some(handle) = self.snapshots.borrow().dedicated.get(&key) {
            return Some(handle.clone());
        }
        let (reply, opened) = oneshot::channel();
        let command = EngineCommand::OpenDedicated {
            server: name.to_owned(),
            dedicated: dedicated.clone(),
            reply,
        };
        self.commands.send(command).await.ok()?;
        opened.await.ok()?
    }

    pub(crate) fn connection(&self, name: &str) -> Option<ConnectionHandle> {
        self.connections().get(name).cloned()
    }

    /// Ends every server in order, and whatever they started. Comes back when all is gone.
    pub async fn shutdown(&self) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(EngineCommand::Shutdown { done }).await.is_ok() {
            let _over = stopped.await;
        }
    }
}

/// The servers of a configuration that may start.
pub fn desired_servers(effective: &EffectiveConfig) -> Vec<DesiredServer> {
    let ready = effective.servers.iter().filter(|server| server.is_ready());
    ready
        .filter_map(|server| {
            Some(DesiredServer {
                spec: server.spec.clone()?,
                scope: server.scope(),
                fingerprint: server.fingerprint.clone()?,
            })
        })
        .collect()
}

struct Engine {
    context: Arc<ConnectionContext>,
    reports: mpsc::Sender<Arc<ServerView>>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    servers: BTreeMap<String, ManagedServer>,
    closing_tasks: JoinSet<()>,
    /// Those that keep the pool and the shelf. They hold nothing that has to be ended in order.
    workers: JoinSet<()>,
    rules: Arc<permission::PermissionRules>,
    /// Those that are ending. A successor waits for them: two at once might fight over a file or a port.
    closing: BTreeMap<String, Closing>,
    /// The connections beside the main ones.
    dedicated: DedicatedConnections,
    /// The logins that tools began.
    pending_logins: PendingLogins,
}

struct ManagedServer {
    fingerprint: Fingerprint,
    handle: ConnectionHandle,
    task: JoinHandle<()>,
    view: Arc<ServerView>,
    tool_filter: ToolFilter,
}

impl Engine {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<EngineCommand>,
        mut reports: mpsc::Receiver<Arc<ServerView>>,
    ) {
        let mut sweep = interval(DEDICATED_SWEEP_INTERVAL);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(EngineCommand::Apply { servers, done }) => {
                        self.apply(servers);
                        let _nobody_waits = done.send(());
                    }
                    Some(EngineCommand::SetRules { rules, done }) => {
                        self.rules = rules;
                        self.publish(ConnectionSet::Unchanged);
                        let _nobody_waits = done.send(());
                    }
                    Some(EngineCommand::OpenDedicated { server, dedicated, reply }) => {
                        let _nobody_waits = reply.send(self.open_dedicated(&server, dedicated));
                    }
                    Some(EngineCommand::CloseDedicated { key }) => {
                        if self.dedicated.close_key(&key, &mut self.closing_tasks) {
                            self.publish(ConnectionSet::Changed);
                        }
                    }
                    Some(EngineCommand::Login { server, pasted, reply }) => {
                        if let Some(progress) = self.login(&server, pasted) {
                            let _nobody_waits = reply.send(progress);
                        }
                    }
                    Some(EngineCommand::Shutdown { done }) => {
                        self.shut_down(&mut reports).await;
                        let _nobody_waits = done.send(());
                        return;
                    }
                    None => return self.shut_down(&mut reports).await,
                },
                Some(view) = reports.recv() => {
                    self.update_view(view);
                    while let Ok(view) = reports.try_recv() {
                        self.update_view(view);
                    }
                    self.publish(ConnectionSet::Unchanged);
                }
                Some(_) = self.closing_tasks.join_next() => self.closing.retain(|_, it| !it.is_closed()),
                Some(()) = self.pending_logins.next_finished() => {}
                _ = sweep.tick() => if self.dedicated.close_idle(&mut self.closing_tasks) {
                    self.publish(ConnectionSet::Changed);
                },
            }
        }
    }

    fn open_dedicated(
        &mut self,
        server: &str,
        dedicated: DedicatedConnection,
    ) -> Option<ConnectionHandle> {
        let main = &self.servers.get(server)?.handle;
        let handle = self.dedicated.open(main, dedicated, &self.context, &self.reports);
        self.publish(ConnectionSet::Changed);
        handle
    }

    fn login(&mut self, server: &str, pasted: Option<String>) -> Option<LoginProgress> {
        let handle = &self.servers.get(server)?.handle;
        match pasted {
            None => Some(self.pending_logins.begin(handle, &self.context)),
            Some(text) => self.pending_logins.submit(server, text),
        }
    }

    /// Reports of a connection that was replaced meanwhile do not count.
    fn update_view(&mut self, view: Arc<ServerView>) {
        if let Some(managed) = self.servers.get_mut(&view.name) {
            managed.view = managed.handle.view();
        }
    }

    fn apply(&mut self, desired: Vec<DesiredServer>) {
        let mut desired: BTreeMap<String, DesiredServer> =
            desired.into_iter().map(|it| (it.name().to_owned(), it)).collect();
        let names: Vec<String> = self.servers.keys().cloned().collect();
        for name in names {
            let stays = match (desired.get(&name), self.servers.get(&name)) {
                (Some(new), Some(old)) => new.fingerprint == old.fingerprint,
                (Some(_) | None, Some(_) | None) => false,
            };
            if stays {
                desired.remove(&name);
            } else {
                self.stop_server(&name);
            }
        }
        for new in desired.into_values() {
            self.start_server(new);
        }
        self.publish(ConnectionSet::Changed);
    }

    fn start_server(&mut self, desired: DesiredServer) {
        let name = desired.name().to_owned();
        let (fingerprint, filter) =
            (desired.fingerprint.clone(), desired.spec.common.tools.clone());
        let predecessor = self.closing.get(&name).cloned();
        let (context, reports) = (self.context.clone(), self.reports.clone());
        let options = connection::ConnectionOptions {
            predecessor,
            client_capabilities: None,
            default_handler: None,
        };
        let (handle, task) = connection::spawn(desired, context, reports, options);
        let view = handle.view();
        self.servers
            .insert(name, ManagedServer { fingerprint, handle, task, view, tool_filter: filter });
    }

    fn stop_server(&mut self, name: &str) {
        let Some(managed) = self.servers.remove(name) else { return };
        self.pending_logins.cancel(name);
        self.dedicated.close_server(name, &mut self.closing_tasks);
        self.closing.insert(name.to_owned(), managed.handle.closing());
        self.closing_tasks.spawn(async move {
            managed.handle.stop(DescendantSearch::Now).await;
            let _panicked = managed.task.await;
        });
    }

    fn publish(&mut self, handles: ConnectionSet) {
        let (managed, rules, lanes) = (&self.servers, &self.rules, &self.dedicated);
        self.snapshots.send_modify(|snapshot| {
            let (handles, filters, lanes) = match handles {
                ConnectionSet::Unchanged => (
                    snapshot.connections.clone(),
                    snapshot.tool_filters.clone(),
                    snapshot.dedicated.clone(),
                ),
                ConnectionSet::Changed => (
                    Arc::new(
                        managed.iter().map(|(k, it)| (k.clone(), it.handle.clone())).collect(),
                    ),
                    Arc::new(
                        managed.iter().map(|(k, it)| (k.clone(), it.tool_filter.clone())).collect(),
                    ),
                    Arc::new(lanes.handles()),
                ),
            };
            let servers =
                managed.iter().map(|(name, it)| (name.clone(), it.view.clone())).collect();
            let (revision, rules) = (snapshot.revision + 1, rules.clone());
            *snapshot = Arc::new(Snapshot {
                revision,
                servers,
                connections: handles,
                dedicated: lanes,
                tool_filters: filters,
                rules,
            });
        });
    }

    /// Ends all at once; then looks once for whoever left their groups.
    async fn shut_down(&mut self, reports: &mut mpsc::Receiver<Arc<ServerView>>) {
        self.pending_logins.shut_down().await;
        self.dedicated.close_all(&mut self.closing_tasks);
        let mut had_processes = false;
        for managed in std::mem::take(&mut self.servers).into_values() {
            had_processes |= managed.view.transport == TransportKind::Stdio;
            self.closing_tasks.spawn(async move {
                managed.handle.stop(DescendantSearch::Deferred).await;
                let _panicked = managed.task.await;
            });
        }
        loop {
            tokio::select! {
                ended = self.closing_tasks.join_next() => if ended.is_none() { break },
                // Those who end still report.
                _ = reports.recv() => {}
            }
        }
        if had_processes {
            let flock = self.context.descendants;
            let _found = tokio::task::spawn_blocking(move || flock.kill_descendants()).await;
        }
        self.publish(ConnectionSet::Changed);
        self.workers.shutdown().await;
        self.context.stderr_log.flush().await;
        self.context.state_writer.flush().await;
    }
}

/// Did connections come or go?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionSet {
    Unchanged,
    Changed,
}
