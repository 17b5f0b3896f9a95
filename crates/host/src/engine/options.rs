//! The options of a host, and the connection context that is built from them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use switchboard_wire::http::client::{HttpSettings, ProxySettings};
use switchboard_wire::process::child::{ProcessSet, WatchdogProgram};
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use tokio::sync::{OnceCell, Semaphore, broadcast};

use crate::channel::{CHANNEL_RECORD_TTL, ChannelHub};
use crate::connection::context::{ConnectionContext, LazyWatchdog};
use crate::connection::in_process::{
    EmbeddedServer, HostedServers, InProcessServer, InProcessServers,
};
use crate::connection::server_requests::{ClientFeatures, SamplingModel};
use crate::connection::state::{RememberedLists, RetryPolicy};
use crate::elicitation::elicitor::{DeclineAll, Elicitor};
use crate::login::context::LoginContext;
use crate::login::options::LoginOptions;
use crate::sharing::{Sharing, SharingOptions};
use crate::sources::host_env::HostEnv;
use crate::sources::network::LazyNetwork;
use crate::sources::paths::Paths;
use crate::storage::stderr_log::StderrLog;
use crate::storage::ttl_cache::{StateWriter, TtlCache};

/// The default of [`HostOptions::max_concurrent_local`].
const DEFAULT_MAX_CONCURRENT_LOCAL: usize = 3;
/// The default of [`HostOptions::max_concurrent_remote`].
const DEFAULT_MAX_CONCURRENT_REMOTE: usize = 20;
/// The default of [`HostOptions::connect_timeout`].
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the cached era of a server is valid.
const ERA_TTL: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a server that requires a login is not connected to again.
const AUTH_REQUIRED_TTL: Duration = Duration::from_secs(15 * 60);
/// The maximum number of threads that read caches and fetch secrets.
const MAX_BLOCKING_TASKS: usize = 24;
/// The capacity of the channel of completed URL elicitations.
const COMPLETED_ELICITATIONS_CAPACITY: usize = 256;
/// The capacity of the channel of an IDE's events. A receiver that is too slow misses the oldest ones.
const IDE_EVENTS_CAPACITY: usize = 64;

/// The options of a host.
#[derive(Clone)]
pub struct HostOptions {
    /// The paths of the host's files.
    pub paths: Paths,
    /// Home folder, working folder and variables.
    pub env: HostEnv,
    /// How many local servers start at once.
    pub max_concurrent_local: usize,
    /// How many remote servers are connected to at once.
    pub max_concurrent_remote: usize,
    /// The timeout of a connection attempt, where the server's entry has none.
    pub connect_timeout: Duration,
    /// Whether failed attempts are repeated.
    pub retry_policy: RetryPolicy,
    /// Whether the lists of a server's last connection are shown until it is connected.
    pub remembered_lists: RememberedLists,
    /// The settings of the HTTP client.
    pub network: HttpSettings,
    /// The watchdog program, which stops the servers when the host is killed.
    pub watchdog: Option<WatchdogProgram>,
    /// Servers in this process, by the name in a definition of type `sdk`.
    pub in_process: BTreeMap<String, InProcessServer>,
    /// Finds servers that an embedding program hosts, by the name in a definition of type `sdk` that no server in this
    /// process has.
    pub hosted_servers: Option<HostedServers>,
    /// Servers of the embedding program, whose tools have plain names, by a name for rules. A configured server of the same
    /// name does not run.
    pub embedded: BTreeMap<String, EmbeddedServer>,
    /// The folders that servers get as roots outside of calls for clients that have roots of their own. By default the
    /// working folder.
    pub roots: Vec<PathBuf>,
    /// Answers elicitations.
    pub elicitor: Arc<dyn Elicitor>,
    /// Runs sampling requests; without one, servers are not offered sampling.
    pub model: Option<Arc<dyn SamplingModel>>,
    /// Client capabilities that servers are told of besides the host's, because clients of the host may have them.
    pub lent_capabilities: Vec<ClientCapability>,
    /// The login options.
    pub login: LoginOptions,
    /// Shares servers with other sessions; without it, this host runs its own copies.
    pub sharing: Option<SharingOptions>,
}

impl HostOptions {
    /// The defaults: retries with backoff, no proxy, no watchdog, no servers in this process, and all elicitations
    /// declined.
    pub fn new(paths: Paths, env: HostEnv) -> HostOptions {
        HostOptions {
            roots: vec![env.working_folder.clone()],
            paths,
            env,
            max_concurrent_local: DEFAULT_MAX_CONCURRENT_LOCAL,
            max_concurrent_remote: DEFAULT_MAX_CONCURRENT_REMOTE,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            retry_policy: RetryPolicy::RetryWithBackoff,
            remembered_lists: RememberedLists::Unused,
            network: HttpSettings {
                user_agent: concat!("switchboard/", env!("CARGO_PKG_VERSION")).to_owned(),
                proxies: ProxySettings::default(),
                extra_ca: Vec::new(),
                identity: None,
                connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            },
            watchdog: None,
            in_process: BTreeMap::new(),
            hosted_servers: None,
            embedded: BTreeMap::new(),
            elicitor: Arc::new(DeclineAll::default()),
            model: None,
            lent_capabilities: Vec::new(),
            login: LoginOptions::default(),
            sharing: None,
        }
    }

    /// The context of the connections. Opens the log and starts the thread that writes state.
    pub(crate) fn into_context(self) -> io::Result<ConnectionContext> {
        let client_info = ClientDescription {
            legacy_capabilities: None,
            name: "switchboard".to_owned(),
            title: "Switchboard".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: self.client_capabilities(),
        };
        let stderr_log = StderrLog::open(&self.paths.logs())?;
        let network = Arc::new(LazyNetwork::new(self.network));
        let login = LoginContext::new(
            self.login,
            self.env.clone(),
            self.paths.logins(),
            network.clone(),
            stderr_log.clone(),
        );
        let client_features = ClientFeatures::new(
            (self.env.working_folder.clone(), &self.roots),
            self.elicitor,
            self.model,
            stderr_log.clone(),
        );
        let sharing = self.sharing.map(|it| Arc::new(Sharing::new(it, &self.paths)));
        Ok(ConnectionContext {
            sharing,
            env: self.env,
            in_process: InProcessServers {
                registered: self.in_process,
                hosted: self.hosted_servers,
            },
            embedded: self.embedded,
            local_slots: Semaphore::new(self.max_concurrent_local.max(1)),
            remote_slots: Semaphore::new(self.max_concurrent_remote.max(1)),
            blocking_slots: Semaphore::new(MAX_BLOCKING_TASKS),
            connect_timeout: self.connect_timeout,
            retry_policy: self.retry_policy,
            client_info,
            client_features: Arc::new(client_features),
            completed_elicitations: broadcast::Sender::new(COMPLETED_ELICITATIONS_CAPACITY),
            ide_events: broadcast::Sender::new(IDE_EVENTS_CAPACITY),
            ide_log_events: AtomicU64::default(),
            channels: ChannelHub::default(),
            channel_records: TtlCache::new(&self.paths.channel_records(), CHANNEL_RECORD_TTL),
            stderr_log,
            era_cache: TtlCache::new(&self.paths.era_cache(), ERA_TTL),
            auth_required_cache: TtlCache::new(
                &self.paths.auth_required_cache(),
                AUTH_REQUIRED_TTL,
            ),
            state_writer: StateWriter::start()?,
            completion_cache_folder: self.paths.completion_cache(),
            remembered_folder: self.paths.remembered_catalogues(),
            remembered_lists: self.remembered_lists,
            descendants: ProcessSet::new(),
            network,
            login: Arc::new(login),
            account_token: OnceCell::new(),
            watchdog: LazyWatchdog::new(self.watchdog),
            watches: Arc::default(),
            paths: self.paths,
        })
    }

    fn client_capabilities(&self) -> Vec<ClientCapability> {
        let mut capabilities = vec![ClientCapability::Roots, ClientCapability::Elicitation];
        let sampling = self.model.as_ref().map(|_| ClientCapability::Sampling);
        for capability in sampling.into_iter().chain(self.lent_capabilities.iter().copied()) {
            if !capabilities.contains(&capability) {
                capabilities.push(capability);
            }
        }
        capabilities
    }
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions").field("env", &self.env).finish_non_exhaustive()
    }
}
