//! The options of the HTTP server.

use std::sync::Arc;
use std::time::Duration;

use switchboard_auth::resource_server::Authenticator;
use tokio::net::TcpListener;

use crate::dashboard::Dashboard;
use crate::http::host_origin_check::HostOriginCheck;
use crate::http::limits::Limits;
use crate::http::shutdown::DrainOptions;
use crate::http::tls::TlsServer;

/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";

/// The options of an HTTP server.
#[derive(Debug)]
pub struct HttpOptions {
    /// Checks the `Host` and `Origin` headers of each request.
    pub host_origin_check: HostOriginCheck,
    /// Authenticates each request.
    pub authenticator: Arc<Authenticator>,
    /// The largest request body, in bytes.
    pub max_request_bytes: usize,
    /// How long an idle session lives.
    pub session_idle_timeout: Duration,
    /// How long a client may not read while it is sent a response.
    pub write_timeout: Duration,
    /// What one principal, and all together, may use.
    pub limits: Limits,
    /// Who may read the metrics.
    pub metrics_access: MetricsAccess,
    /// Which clients have sessions.
    pub sessions: SessionPolicy,
    /// Where other replicas of the gateway send requests, for [`crate::Gateway::open_replica`].
    pub replica_listener: Option<ReplicaListener>,
    /// The certificate; plain HTTP if `None`.
    pub tls: Option<Arc<TlsServer>>,
    /// How the server stops.
    pub drain: DrainOptions,
    /// What is served.
    pub routes: ServedRoutes,
    /// The dashboard, if there is one.
    pub dashboard: Option<Dashboard>,
    /// The number of worker threads that serve clients. With 0, the runtime of [`crate::Gateway::serve_http`] does.
    pub worker_threads: usize,
}

/// Where other replicas connect.
#[derive(Debug)]
pub struct ReplicaListener {
    /// The socket.
    pub listener: TcpListener,
    /// Does another process accept connections at the same socket?
    pub sharing: SocketSharing,
}

/// Does another process accept connections at the same socket?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketSharing {
    /// No.
    Alone,
    /// The process that this one replaces does, until it has finished its requests.
    WithPredecessor,
}

/// Which clients have sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionPolicy {
    /// Every client of an older protocol version.
    #[default]
    LegacyClients,
    /// None. Any replica serves any request, but servers cannot ask the clients of older versions anything.
    NoClients,
}

/// What an HTTP server serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServedRoutes {
    /// The MCP endpoint, health, metrics, and the dashboard if there is one.
    #[default]
    All,
    /// The dashboard and health only.
    DashboardOnly,
}

/// Who may read the metrics. They name every server and show how much it is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Clients with a valid token, as for all other routes.
    #[default]
    Authenticated,
    /// All clients whose `Host` and `Origin` headers are allowed.
    Public,
}

impl HttpOptions {
    /// The default of [`HttpOptions::max_request_bytes`].
    pub const DEFAULT_MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;
    /// The default of [`HttpOptions::write_timeout`].
    pub const DEFAULT_WRITE_TIMEOUT: Duration = Duration::from_secs(30);
    /// The default of [`HttpOptions::session_idle_timeout`].
    pub const DEFAULT_SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
}
