//! Runs a gateway: a host, the gateway over it, and its stdio or HTTP server.

pub mod client_auth;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::permission::PermissionMode;
use switchboard::config::problem::Severity;
use switchboard::connection::in_process::InProcessServer;
use switchboard::connection::state::RetryPolicy;
use switchboard::elicitation::elicitor::DeclineAll;
use switchboard::host::{Host, HostOptions};
use switchboard::sources::loader;
use switchboard::sources::loader::Configuration;
use switchboard::sources::watcher::ConfigWatcher;
use switchboard::wire::protocol::capabilities::ClientCapability;
use switchboard_builtin::workspace;
use switchboard_gateway::http::host_origin_check::HostOriginCheck;
use switchboard_gateway::{
    ApprovalQueue, ExposeOptions, Gateway, HttpOptions, MCP_PATH, MetricsAccess, PendingApprovals,
};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;
use crate::runtime::call_context;
use crate::runtime::control;
use crate::runtime::host;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::servers;
use crate::runtime::stdio;
use crate::runtime::trace_export;
use client_auth::ClientAuth;

/// How long clients wait at the start for servers to connect. Later ones are announced.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
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
    Configured,
    /// The built-in workspace tools.
    Workspace(Box<workspace::WorkspaceSettings>),
}

impl ToolSource {
    /// Applies the servers and the rules to the host.
    async fn apply(&self, host: &Host, configuration: &Configuration) {
        match self {
            ToolSource::Configured => servers::apply_configuration(host, configuration, &[]).await,
            ToolSource::Workspace(_) => {
                let entry = json!({"type": "sdk", "name": workspace::NAME});
                let servers = json!({"mcpServers": {workspace::NAME: entry}});
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
}

/// Serves until it is interrupted or the stdio client disconnects.
pub fn run(invocation: &Invocation, options: GatewayOptions) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let customize = |mut host_options: HostOptions| {
        // Elicitations outside of any client's call.
        host_options.elicitor = Arc::new(DeclineAll("there is no user to ask".to_owned()));
        host_options.lent_capabilities = vec![ClientCapability::Sampling];
        if let ToolSource::Workspace(settings) = &options.source {
            let settings = workspace::WorkspaceSettings::clone(settings);
            let server = InProcessServer::new(move |transport| {
                workspace::serve(settings.clone(), transport)
            });
            host_options.in_process.insert(workspace::NAME.to_owned(), server);
        }
        host_options
    };
    host::with_custom_host(
        invocation,
        RetryPolicy::RetryWithBackoff,
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
            let (gateway, task) = Gateway::open_with_tracer(host, context, options.serving, tracer);
            gateway.set_rules(&configuration.rules, &configuration.principals);
            let targets =
                control::ControlTargets { host: host.clone(), approvals: Some(approvals.clone()) };
            let control = control::serve(targets, &invocation.env.paths.control_sockets());
            let served = {
                let following = follow_configuration(
                    invocation,
                    host,
                    (&gateway, &options.source),
                    &configuration,
                );
                let serving = serve_clients(invocation, &gateway, options.http, interrupts);
                let announcing = announce_approvals(approvals.watch());
                tokio::pin!(following, serving, announcing);
                tokio::select! {
                    served = &mut serving => served,
                    Err(failure) = &mut following => Err(failure),
                    () = &mut announcing => Ok(()),
                }
            };
            control.close().await;
            drop((gateway, approvals));
            host.shutdown().await;
            let _panicked = task.await;
            let _panicked = approval_task.await;
            exporting.finish().await;
            audit.flush().await;
            served.map(|()| CommandOutput::default())
        },
    )
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

async fn serve_clients(
    invocation: &Invocation,
    gateway: &Gateway,
    http: Option<GatewayHttpOptions>,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let Some(http) = http else {
        let (transport, flushed) = stdio::transport().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").caused_by(error)
        })?;
        gateway.wait_until_ready(SETTLE_TIMEOUT).await;
        gateway.serve_exclusive(transport, "stdio", interrupts.next()).await;
        flushed.wait().await;
        return Ok(());
    };
    let cannot_listen = |error| {
        let message = format!("--http: cannot listen at {}", http.address);
        Failure::new(Exit::Failure, &message).caused_by(error)
    };
    let listener = TcpListener::bind(http.address).await.map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    let host_origin_check =
        HostOriginCheck::new(bound, &http.hosts, &http.origins).map_err(|error| {
            Failure::new(Exit::Usage, &format!("`{}` cannot be allowed", printable(&error.text)))
                .caused_by(error.kind)
        })?;
    let url = http.url.unwrap_or_else(|| format!("http://{bound}{MCP_PATH}"));
    let (authenticator, token_file) =
        client_auth::authenticator(invocation, http.client_auth, &url)?;
    let server = HttpOptions {
        host_origin_check,
        authenticator,
        max_request_bytes: HttpOptions::DEFAULT_MAX_REQUEST_BYTES,
        session_idle_timeout: HttpOptions::DEFAULT_SESSION_IDLE_TIMEOUT,
        metrics_access: http.metrics_access,
        worker_threads: thread::available_parallelism().map_or(1, |it| it.get().min(MAX_THREADS)),
    };
    gateway.wait_until_ready(SETTLE_TIMEOUT).await;
    report::print_stdout(&format!("listening on http://{bound}{MCP_PATH}\n"));
    let serving = gateway.serve_http(listener, server, interrupts.next());
    let served = tokio::select! {
        served = serving => served,
        () = client_auth::reload_token_file(token_file) => Ok(()),
    };
    served.map_err(|error| Failure::new(Exit::Failure, "the HTTP server failed").caused_by(error))
}
