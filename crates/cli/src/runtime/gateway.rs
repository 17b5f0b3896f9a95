//! Runs a gateway: a host, the gateway over it, and its stdio or HTTP server.

pub mod client_auth;
pub mod dashboard_link;
pub mod listening;
mod operator;
pub mod replica;
pub mod tls_reload;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::permission::PermissionMode;
use switchboard::config::problem::Severity;
use switchboard::config::settings::gateway_limits::GatewayLimits;
use switchboard::connection::{InProcessServer, RememberedLists, RetryPolicy, Status};
use switchboard::elicitation::DeclineAll;
use switchboard::sources::loader::Configuration;
use switchboard::sources::{ConfigWatcher, loader};
use switchboard::wire::protocol::capabilities::ClientCapability;
use switchboard::{Host, HostOptions};
use switchboard_builtin::workspace;
use switchboard_gateway::http::host_origin_check::{AllowError, HostOriginCheck};
use switchboard_gateway::{
    ApprovalQueue, AuditExporter, Dashboard, DrainOptions, ExposeOptions, Gateway, HttpOptions,
    Limits, LoginLocks, MCP_PATH, MetricsAccess, MissingServer, PendingApprovals, Quota,
    ReplicaListener, ServedRoutes, SharedState, StopReason, TlsServer,
};
use tokio::sync::watch;
use url::Url;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::{report, server_text};
use crate::prompt::login_prompt::BrowserMode;
use crate::runtime::audit_export;
use crate::runtime::call_context;
use crate::runtime::control;
use crate::runtime::control::handover::HandoverSlot;
use crate::runtime::host;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::servers;
use crate::runtime::service_manager;
use crate::runtime::sharing;
use crate::runtime::sharing::HostStart;
use crate::runtime::shutdown_deadline::ShutdownDeadline;
use crate::runtime::stdio;
use crate::runtime::trace_export;
use client_auth::ClientAuth;
use listening::OpenListener;
use operator::InvocationOperator;
use replica::{Replica, ReplicaOptions, ReplicaTasks};

/// How long everything may take after the client of a stdio gateway has gone. The client kills programs that stay longer.
const STDIO_SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);
/// How long a gateway that takes an address over waits for its servers.
const TAKEOVER_WAIT: Duration = Duration::from_secs(30);
/// How long the service manager waits for the servers before the gateway counts as started.
const READY_WAIT: Duration = Duration::from_secs(60);
/// The most worker threads.
const MAX_THREADS: usize = 16;

/// What a gateway serves, and how.
#[derive(Debug)]
pub struct GatewayOptions {
    /// The tools to serve.
    pub source: ToolSource,
    /// How they are exposed.
    pub serving: ExposeOptions,
    /// The permission mode.
    pub mode: Option<PermissionMode>,
    /// How long calls wait for approval; zero denies them at once.
    pub approval_timeout: Duration,
    /// The HTTP server; stdio if `None`.
    pub http: Option<GatewayHttpOptions>,
}

/// The tools that a gateway serves.
#[derive(Debug)]
pub enum ToolSource {
    /// The tools of every configured server.
    Configured {
        /// The roots of servers whose client has none.
        roots: Vec<PathBuf>,
    },
    /// The built-in workspace tools.
    Workspace(Box<workspace::WorkspaceSettings>),
}

impl ToolSource {
    /// Applies the servers and the rules to the host.
    async fn apply(&self, host: &Host, configuration: &Configuration) {
        match self {
            ToolSource::Configured { .. } => {
                servers::apply_configuration(host, configuration, &[]).await
            }
            ToolSource::Workspace(_) => {
                let entry = |name: &str| json!({"type": "sdk", "name": name});
                let mut servers = json!({workspace::NAME: entry(workspace::NAME)});
                let browser = switchboard_browser::NAME;
                let winner = configuration.effective.winner(browser);
                if winner.is_some_and(|it| matches!(it.state, ServerState::Ready)) {
                    servers[browser] = entry(browser);
                }
                let servers = json!({"mcpServers": servers});
                host.set_rules(configuration.rules.clone()).await;
                host.apply(&loader::from_program("swb", &servers.to_string())).await;
            }
        }
    }
}

/// Options of the HTTP server.
#[derive(Debug)]
pub struct GatewayHttpOptions {
    /// The address to listen at.
    pub address: SocketAddr,
    /// How clients authenticate.
    pub client_auth: ClientAuth,
    /// Allowed `Host` names, besides the address.
    pub hosts: Vec<String>,
    /// Allowed web origins.
    pub origins: Vec<String>,
    /// The URL that clients use.
    pub url: Option<String>,
    /// Who may read the metrics.
    pub metrics_access: MetricsAccess,
    /// How many requests a principal may send per second; the settings decide if `None`.
    pub max_requests_per_second: Option<u32>,
    /// What it shares with other replicas.
    pub replica: ReplicaOptions,
    /// The certificate; plain HTTP if `None`.
    pub tls: Option<TlsServer>,
    /// How the server stops.
    pub drain: DrainOptions,
    /// Where its socket comes from.
    pub listening: ListenMode,
    /// What is served.
    pub routes: ServedRoutes,
    /// The dashboard, if there is one.
    pub dashboard: Option<DashboardOptions>,
}

impl GatewayHttpOptions {
    /// The URL that clients use, if the server listens at this address.
    pub fn client_url(&self, bound: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let default = || format!("{scheme}://{bound}{MCP_PATH}");
        self.url.clone().unwrap_or_else(default)
    }
}

/// Where the socket of the HTTP server comes from, if the system manager does not pass it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenMode {
    /// It is opened.
    Open,
    /// From a running gateway, if there is one at that address.
    Takeover,
}

/// The failure for a host or an origin that cannot be allowed.
pub fn host_origin_failure(error: AllowError) -> Failure {
    Failure::new(Exit::Usage, &format!("`{}` cannot be allowed", printable(&error.text)))
        .caused_by(error.kind)
}

/// Options of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DashboardOptions {
    /// Whether its login link is opened in a browser.
    pub browser_mode: BrowserMode,
}

/// Serves until it is interrupted or the stdio client disconnects.
pub fn run(invocation: &Invocation, options: GatewayOptions) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    if let ToolSource::Configured { .. } = &options.source {
        report::print_stderr(&servers::unapproved_note(&configuration, &[]));
    }
    // Over HTTP, sessions of many clients need connections of their own, which a shared program cannot tell apart.
    let has_clients = options.http.as_ref().map(|it| it.routes == ServedRoutes::All);
    let sharing = match (&options.source, has_clients) {
        (ToolSource::Configured { .. }, None) => sharing::options(invocation, HostStart::Always)?,
        (ToolSource::Configured { .. }, Some(false)) => {
            sharing::options(invocation, HostStart::Interactive)?
        }
        (ToolSource::Configured { .. }, Some(true)) | (ToolSource::Workspace(_), _) => None,
    };
    let login_locks = LoginLocks::default();
    let customize = |mut host_options: HostOptions| {
        host_options.sharing = sharing;
        host_options.login.shared_locks = Some(Arc::new(login_locks.clone()));
        // Elicitations outside of any client's call.
        host_options.elicitor = Arc::new(DeclineAll("there is no user to ask".to_owned()));
        host_options.lent_capabilities = vec![ClientCapability::Sampling];
        host_options.remembered_lists = RememberedLists::WhileConnecting;
        match &options.source {
            // The gateway's own folder is not a root of its clients.
            ToolSource::Configured { roots } => host_options.roots.clone_from(roots),
            ToolSource::Workspace(settings) => {
                let settings = workspace::WorkspaceSettings::clone(settings);
                let server = InProcessServer::new(move |transport| {
                    workspace::serve(settings.clone(), transport)
                });
                host_options.in_process.insert(workspace::NAME.to_owned(), server);
            }
        }
        host_options
    };
    let deadline = ShutdownDeadline::default();
    host::with_deadline(
        invocation,
        (RetryPolicy::NeverGiveUp, &deadline),
        customize,
        async |host, interrupts| {
            options.source.apply(host, &configuration).await;
            let mut context =
                call_context::call_context(invocation, &configuration, host, options.mode)?;
            if let ToolSource::Workspace(_) = &options.source {
                context.trusted_servers.insert(workspace::NAME.to_owned());
            }
            let (approvals, approval_task) = ApprovalQueue::new(options.approval_timeout);
            let approval_task = tokio::spawn(approval_task);
            context.prompt = Arc::new(approvals.clone());
            let audit = context.audit.clone();
            let (tracer, exporting) = trace_export::tracer(invocation)?;
            let replica = match &options.http {
                Some(http) => {
                    let place = (http.address, http.listening);
                    Replica::open(invocation, &http.replica, place).await?
                }
                None => None,
            };
            let (shared, replica_listener, mut replica) = match replica.map(Replica::split) {
                Some((shared, listener, tasks)) => (shared, Some(listener), tasks),
                None => (SharedState::alone(), None, ReplicaTasks::default()),
            };
            login_locks.set(&shared);
            let (gateway, task) =
                Gateway::open_replica(host, context, options.serving, tracer, shared);
            let targets = audit_export::targets(invocation, configuration.audit.targets())?;
            let audit_exporter = AuditExporter::start(&audit, targets).await;
            gateway.show_audit_exports(&audit_exporter);
            gateway.set_rules(&configuration.rules, &configuration.principals);
            gateway.set_left_out(left_out(&configuration));
            gateway.set_quotas(configuration.quotas.clone());
            let handover = HandoverSlot::default();
            let (dashboard, dashboard_task) = match options.http.as_ref().map(|it| it.dashboard) {
                Some(Some(_)) => {
                    let operator = Arc::new(InvocationOperator::new(invocation, options.mode));
                    let (dashboard, task) = Dashboard::new(&gateway, approvals.clone(), operator);
                    (Some(dashboard), Some(tokio::spawn(task)))
                }
                Some(None) | None => (None, None),
            };
            let targets = control::ControlTargets {
                host: host.clone(),
                approvals: Some(approvals.clone()),
                handover: Some(handover.clone()),
                gateway: Some(gateway.clone()),
                dashboard: dashboard.clone(),
            };
            let control = control::serve(targets, &invocation.env.paths.control_sockets());
            let served = {
                let following = follow_configuration(
                    invocation,
                    host,
                    (&gateway, &options.source),
                    &configuration,
                );
                let limits = limits(&configuration.gateway_limits);
                let http = options.http.map(|it| (it, limits, replica_listener));
                let serving = serve_clients(
                    invocation,
                    (&gateway, dashboard.as_ref(), &deadline),
                    (http, handover),
                    interrupts,
                );
                let announcing = announce_approvals(approvals.watch());
                let auditing = call_context::announce_audit_failures(invocation, &audit);
                let reporting = report_missing(host, &gateway);
                let sharing = gateway.share_approvals(approvals.clone());
                let watching = replica.watch_keys();
                tokio::pin!(following, serving, announcing, auditing, reporting, sharing, watching);
                tokio::select! {
                    served = &mut serving => served,
                    Err(failure) = &mut following => Err(failure),
                    () = &mut announcing => Ok(()),
                    () = &mut auditing => Ok(()),
                    () = &mut reporting => Ok(()),
                    () = &mut sharing => Ok(()),
                    () = &mut watching => Ok(()),
                }
            };
            let end = async {
                control.close().await;
                drop((gateway, approvals, dashboard));
                let servers = async {
                    if let Some(task) = dashboard_task {
                        let _panicked = task.await;
                    }
                    host.shutdown().await;
                    let _panicked = task.await;
                    let _panicked = approval_task.await;
                    replica.finish().await;
                };
                let auditing = async {
                    audit.close().await;
                    audit_exporter.finish().await;
                };
                tokio::join!(servers, exporting.finish(), auditing);
            };
            deadline.limit(end).await;
            served.map(|()| CommandOutput::default())
        },
    )
}

/// The configured servers that are not in the pool although their definition counts: not approved, refused or invalid.
fn left_out(configuration: &Configuration) -> Vec<MissingServer> {
    let servers = configuration.effective.servers.iter();
    let reason = |server: &ResolvedServer| match &server.state {
        ServerState::Pending(_) => Some("it is not approved: `swb approve`".to_owned()),
        ServerState::Refused(_) | ServerState::Invalid => {
            Some(server_text::state_text(&server.state))
        }
        ServerState::NeedsConfig(_) => {
            Some("it needs configuration: `swb bundle configure`".to_owned())
        }
        ServerState::Ready
        | ServerState::Rejected
        | ServerState::Disabled(_)
        | ServerState::Shadowed { .. }
        | ServerState::Duplicate { .. }
        | ServerState::Excluded(_) => None,
    };
    servers
        .filter_map(|it| Some(MissingServer { name: it.name.clone(), reason: reason(it)? }))
        .collect()
}

/// Says once which servers are missing after all were tried. Runs until it is dropped.
async fn report_missing(host: &Host, gateway: &Gateway) {
    let tried = host.settled().await;
    let missing = gateway.missing_servers();
    if !missing.is_empty() {
        let connected =
            tried.servers.values().filter(|it| matches!(it.status, Status::Connected)).count();
        let list: Vec<String> = missing
            .iter()
            .map(|it| format!("{} ({})", printable(&it.name), printable(&it.reason)))
            .collect();
        report::print_stderr(&format!(
            "note: {connected} of {} servers are served; missing: {}\n",
            connected + missing.len(),
            list.join(", ")
        ));
    }
    std::future::pending().await
}

/// The limits of the settings, with the defaults of the gateway.
fn limits(settings: &GatewayLimits) -> Limits {
    const MEGABYTE: usize = 1 << 20;
    let value = |setting: Option<u64>, default: usize| {
        setting.map_or(default, |it| usize::try_from(it).unwrap_or(usize::MAX))
    };
    let quota = |own: Option<u64>, total: Option<u64>, default: Quota| Quota {
        per_principal: value(own, default.per_principal),
        total: value(total, default.total),
    };
    let defaults = Limits::default();
    let megabytes = quota(
        settings.kept_megabytes,
        settings.kept_megabytes_total,
        Quota {
            per_principal: defaults.replay_bytes.per_principal / MEGABYTE,
            total: defaults.replay_bytes.total / MEGABYTE,
        },
    );
    let connections = quota(settings.connections, settings.connections_total, defaults.connections);
    Limits {
        sessions: quota(settings.sessions, settings.sessions_total, defaults.sessions),
        requests_in_flight: quota(
            settings.requests_in_flight,
            settings.requests_in_flight_total,
            defaults.requests_in_flight,
        ),
        requests_per_second: settings
            .requests_per_second
            .map(|it| u32::try_from(it).unwrap_or(u32::MAX))
            .or(defaults.requests_per_second),
        replay_bytes: Quota {
            per_principal: megabytes.per_principal.saturating_mul(MEGABYTE),
            total: megabytes.total.saturating_mul(MEGABYTE),
        },
        connections,
        connections_per_address: value(
            settings.connections_per_address,
            defaults.connections_per_address,
        ),
        unauthenticated_connections: connections.total.div_ceil(4),
        ..defaults
    }
}

/// Tells the user about calls that wait for approval. Runs until it is dropped.
async fn announce_approvals(mut queue: watch::Receiver<PendingApprovals>) {
    let mut last = 0;
    while queue.changed().await.is_ok() {
        let now = queue.borrow_and_update().clone();
        for waiting in now.iter().filter(|it| it.id > last) {
            report::print_stderr(&format!(
                "note: `{}` of `{}` requested by {}; `swb approvals allow {number}` or `swb approvals deny {number}`\n",
                printable(&waiting.tool),
                printable(&waiting.server),
                printable(&waiting.caller),
                number = waiting.id,
            ));
        }
        last = now.last().map_or(last, |it| it.id.max(last));
    }
    std::future::pending().await
}

/// Applies configuration changes while clients are connected. Runs until it is dropped.
async fn follow_configuration(
    invocation: &Invocation,
    host: &Host,
    (gateway, source): (&Gateway, &ToolSource),
    configuration: &Configuration,
) -> Result<(), Failure> {
    let watcher = ConfigWatcher::start(invocation.load_options(), configuration);
    let Ok(mut watcher) = watcher else { return std::future::pending().await };
    // Picks up changes between the first load and the start of the watcher.
    if let Ok(configuration) = invocation.load() {
        source.apply(host, &configuration).await;
        gateway.set_rules(&configuration.rules, &configuration.principals);
    }
    let mut last_problems = String::new();
    while let Some(configuration) = watcher.next().await {
        source.apply(host, &configuration).await;
        gateway.set_rules(&configuration.rules, &configuration.principals);
        gateway.set_left_out(left_out(&configuration));
        gateway.set_quotas(configuration.quotas.clone());
        let problems = configuration.effective.problems.iter();
        let errors = problems.filter(|it| it.severity() == Severity::Error);
        let text = report::problems(&invocation.env, errors);
        if text != last_problems {
            report::print_stderr(&text);
            last_problems = text;
        }
    }
    std::future::pending().await
}

/// The origin at which browsers find the dashboard: that of the URL that clients use, or of the listener.
fn dashboard_origin(bound: SocketAddr, url: &str, scheme: &str) -> String {
    match Url::parse(url).map(|it| it.origin()) {
        Ok(origin) if origin.is_tuple() && !bound_to_all(url) => origin.ascii_serialization(),
        Ok(_) | Err(_) => format!("{scheme}://localhost:{}", bound.port()),
    }
}

/// Is this the URL of the unspecified address, which is no address to open?
fn bound_to_all(url: &str) -> bool {
    let host = Url::parse(url).ok().and_then(|it| it.host().map(|it| it.to_owned()));
    match host {
        Some(url::Host::Ipv4(address)) => address.is_unspecified(),
        Some(url::Host::Ipv6(address)) => address.is_unspecified(),
        Some(url::Host::Domain(_)) | None => false,
    }
}

async fn serve_clients(
    invocation: &Invocation,
    (gateway, dashboard, deadline): (&Gateway, Option<&Dashboard>, &ShutdownDeadline),
    (http, handover): (Option<(GatewayHttpOptions, Limits, Option<ReplicaListener>)>, HandoverSlot),
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let Some((http, mut limits, replica_listener)) = http else {
        let (transport, flushed) = stdio::transport().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").caused_by(error)
        })?;
        gateway.serve_exclusive(transport, "stdio", interrupts.next()).await;
        deadline.start(STDIO_SHUTDOWN_LIMIT);
        deadline.limit(flushed.wait()).await;
        return Ok(());
    };
    let OpenListener { listener, bound, predecessor } =
        listening::open(invocation, http.address, http.listening).await?;
    let host_origin_check =
        HostOriginCheck::new(bound, &http.hosts, &http.origins).map_err(host_origin_failure)?;
    if let Some(rate) = http.max_requests_per_second {
        limits.requests_per_second = Some(rate).filter(|it| *it > 0);
    }
    let url = http.client_url(bound);
    let scheme = if http.tls.is_some() { "https" } else { "http" };
    let tls = http.tls.map(Arc::new);
    let (authenticator, token_file) =
        client_auth::authenticator(invocation, http.client_auth, &url)?;
    let offered = replica_listener.as_ref().map(|it| &it.listener);
    let offer = HandoverSlot::prepare(&listener, offered);
    let server = HttpOptions {
        host_origin_check,
        authenticator: Arc::new(authenticator),
        max_request_bytes: HttpOptions::DEFAULT_MAX_REQUEST_BYTES,
        session_idle_timeout: HttpOptions::DEFAULT_SESSION_IDLE_TIMEOUT,
        write_timeout: HttpOptions::DEFAULT_WRITE_TIMEOUT,
        limits,
        metrics_access: http.metrics_access,
        sessions: http.replica.sessions,
        replica_listener,
        tls: tls.clone(),
        drain: http.drain,
        routes: http.routes,
        dashboard: dashboard.cloned(),
        worker_threads: thread::available_parallelism().map_or(1, |it| it.get().min(MAX_THREADS)),
    };
    if predecessor.is_some() {
        // The other gateway serves until this one can.
        gateway.wait_until_ready(TAKEOVER_WAIT).await;
    }
    match http.routes {
        ServedRoutes::All => {
            report::print_stdout(&format!("listening on {scheme}://{bound}{MCP_PATH}\n"));
        }
        ServedRoutes::DashboardOnly => {}
    }
    if let Some((dashboard, options)) = dashboard.zip(http.dashboard) {
        let origin = dashboard_origin(bound, &url, scheme);
        dashboard_link::announce(invocation, dashboard, &origin, options.browser_mode).await?;
    }
    handover.offer(offer);
    let stop = async {
        let reason = tokio::select! {
            () = interrupts.next() => StopReason::Ended,
            () = handover.handed_over() => {
                report::print_stderr("note: another process serves the address now; this one finishes its requests\n");
                StopReason::HandedOver
            }
        };
        handover.withdraw();
        reason
    };
    let serving = gateway.serve_http(listener, server, stop);
    let starting = async {
        if let Some(predecessor) = predecessor {
            listening::stop_predecessor(invocation, predecessor).await;
        }
        service_manager::notify_ready(invocation, gateway, READY_WAIT).await;
        std::future::pending().await
    };
    let served = tokio::select! {
        served = serving => served,
        () = client_auth::reload_token_file(token_file) => Ok(()),
        () = tls_reload::reload(tls) => Ok(()),
        () = starting => Ok(()),
    };
    service_manager::notify_stopping(invocation);
    served.map_err(|error| Failure::new(Exit::Failure, "the HTTP server failed").caused_by(error))
}
