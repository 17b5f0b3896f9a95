//! The context that all connections of a host share: environment, slots, caches, logs, logins and the HTTP client.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use switchboard_wire::process::child::{ProcessSet, Watchdog, WatchdogProgram};
use switchboard_wire::protocol::capabilities::ClientDescription;
use tokio::sync::{OnceCell, Semaphore, broadcast};

use crate::channel::ChannelHub;
use crate::connection::in_process::{EmbeddedServer, InProcessServers};
use crate::connection::server_requests::{ClientFeatures, ServerResponder};
use crate::connection::state::{RememberedLists, RetryPolicy};
use crate::failure::ConnectionFailure;
use crate::ide::IdeEvent;
use crate::login::connector_account::AccountToken;
use crate::login::context::LoginContext;
use crate::sharing::OptionalSharing;
use crate::sources::host_env::HostEnv;
use crate::sources::network::LazyNetwork;
use crate::sources::paths::Paths;
use crate::storage::stderr_log::StderrLog;
use crate::storage::ttl_cache::{StateWriter, TtlCache};

/// The shared context of connections. `engine::options` builds it.
pub(crate) struct ConnectionContext {
    pub(crate) paths: Paths,
    pub(crate) env: HostEnv,
    pub(crate) in_process: InProcessServers,
    pub(crate) embedded: BTreeMap<String, EmbeddedServer>,
    /// Limits how many local servers start at once.
    pub(crate) local_slots: Semaphore,
    /// Limits how many remote servers are connected to at once.
    pub(crate) remote_slots: Semaphore,
    /// Limits how many threads read caches and fetch secrets at once.
    pub(crate) blocking_slots: Semaphore,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) client_info: ClientDescription,
    pub(crate) client_features: Arc<ClientFeatures>,
    /// Announces completed URL elicitations: the server and the elicitation's id.
    pub(crate) completed_elicitations: broadcast::Sender<(String, String)>,
    /// What the connected IDE announces.
    pub(crate) ide_events: broadcast::Sender<IdeEvent>,
    /// The number of `log_event` notifications, whose content is dropped.
    pub(crate) ide_log_events: AtomicU64,
    /// Which servers are channels, and the queue of their messages.
    pub(crate) channels: ChannelHub,
    pub(crate) channel_records: TtlCache,
    pub(crate) stderr_log: StderrLog,
    pub(crate) era_cache: TtlCache,
    pub(crate) auth_required_cache: TtlCache,
    pub(crate) state_writer: StateWriter,
    /// Attaches to servers that other sessions use as well.
    pub(crate) sharing: OptionalSharing,
    pub(crate) completion_cache_folder: PathBuf,
    /// The folder of the servers' lists as of their last connection.
    pub(crate) remembered_folder: PathBuf,
    pub(crate) remembered_lists: RememberedLists,
    pub(crate) descendants: ProcessSet,
    pub(crate) network: Arc<LazyNetwork>,
    pub(crate) login: Arc<LoginContext>,
    pub(crate) account_token: OnceCell<Option<Arc<AccountToken>>>,
    pub(crate) watchdog: LazyWatchdog,
    /// Shared with every [`ServerWatch`], so that its count says whether there is one.
    pub(crate) watches: Arc<()>,
}

/// While it exists, a user looks at the states of servers: remote servers are pinged, so that one that is gone is noticed.
#[derive(Debug, Clone)]
pub struct ServerWatch {
    _count: Arc<()>,
}

impl fmt::Debug for ConnectionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionContext").field("env", &self.env).finish_non_exhaustive()
    }
}

impl ConnectionContext {
    /// The token of the connector account; `None` without an account.
    pub(crate) async fn account_token(
        &self,
    ) -> Result<Option<Arc<AccountToken>>, ConnectionFailure> {
        self.account_token.get_or_try_init(|| AccountToken::open(&self.login)).await.cloned()
    }

    /// Counts a user who looks at the states of servers, until the result is dropped.
    pub(crate) fn watch_servers(&self) -> ServerWatch {
        ServerWatch { _count: self.watches.clone() }
    }

    /// Whether a user looks at the states of servers.
    pub(crate) fn is_watched(&self) -> bool {
        Arc::strong_count(&self.watches) > 1
    }

    /// Answers the requests of one server.
    pub(crate) fn responder(&self, server: &str) -> Arc<ServerResponder> {
        let features = self.client_features.clone();
        Arc::new(ServerResponder { server: server.to_owned(), features })
    }
}

/// The watchdog process, started with the first local server. It stops the servers when the host is killed.
pub(crate) struct LazyWatchdog {
    program: Option<WatchdogProgram>,
    started: OnceLock<Option<Watchdog>>,
}

impl LazyWatchdog {
    pub(crate) fn new(program: Option<WatchdogProgram>) -> LazyWatchdog {
        LazyWatchdog { program, started: OnceLock::new() }
    }

    /// The watchdog; `None` where there is no program for it or it does not start.
    pub(crate) fn get(&self) -> Option<Watchdog> {
        self.started
            .get_or_init(|| self.program.as_ref().and_then(|it| Watchdog::start(it).ok()))
            .clone()
    }
}
