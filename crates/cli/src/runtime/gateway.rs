//! Serves the whole pool to programs: a host, its gateway, and the door that clients come in by.

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
use switchboard::host::Host;
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

/// How long clients wait for servers that are slow to connect; those that come later are announced.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
/// More threads than this serve nobody faster.
const MAX_THREADS: usize = 16;

/// What is served, and to whom.
#[derive(Debug)]
pub struct GatewayOptions {
    /// Whose tools.
    pub source: ToolSource,
    /// What of them is served, and how.
    pub serving: ExposeOptions,
    /// How much is asked.
    pub mode: Option<PermissionMode>,
    /// How long calls wait for somebody to answer for them; nobody is asked where it is nothing.
    pub approval_timeout: Duration,
    /// Where; standard input and output where nowhere else.
    pub http: Option<GatewayHttpOptions>,
}

/// Whose tools are served.
#[derive(Debug)]
pub enum ToolSource {
    /// Those of every server that is configured.
    Configured,
    /// Our own, for files and commands.
    Workspace(Box<workspace::WorkspaceSettings>),
}

impl ToolSource {
    /// The servers that run, and the rules that hold.
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

/// A door to the network.
#[derive(Debug)]
pub struct GatewayHttpOptions {
    /// The address to listen at.
    pub address: SocketAddr,
    /// Who may come in.
    pub client_auth: ClientAuth,
    /// Names that we are reached by, besides our own.
    pub hosts: Vec<String>,
    /// Pages that may use us.
    pub origins: Vec<String>,
    /// Our address, as clients see it.
    pub url: Option<String>,
    /// Who may read the metrics.
    pub metrics_access: MetricsAccess,
}

/// Serves until whoever started us has enough.
pub fn run(invocation: &Invocation, service: GatewayOptions) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let customize = |mut options: switchboard::host::HostOptions| {
        // Questions that belong to no client's call.
        options.elicitor = Arc::new(DeclineAll("nobody is here to answer".to_owned()));
        options.lent_capabilities = vec![ClientCapability::Sampling];
        if let ToolSource::Workspace(settings) = &service.source {
            let settings = workspace::WorkspaceSettings::clone(settings);
            let server = InProcessServer::new(move |link| workspace::serve(settings.clone(), link));
            options.in_process.insert(workspace::NAME.to_owned(), server);
        }
        options
    };
    host::with_custom_host(
        invocation,
        RetryPolicy::RetryWithBackoff,
        customize,
        async |host, interrupts| {
            service.source.apply(host, &configuration).await;
            let mut context =
                call_context::call_context(invocation, &configuration, host, service.mode)?;
            if let ToolSource::Workspace(_) = &service.source {
                context.trusted_servers.insert(workspace::NAME.to_owned());
            }
            let (approvals, approval_task) = ApprovalQueue::new(service.approval_timeout);
            let approval_task = tokio::spawn(approval_task);
            context.prompt = Arc::new(approvals.clone());
            let audit = context.audit.clone();
            let (tracer, exporting) = trace_export::tracer(invocation)?;
            let (gateway, task) = Gateway::open_with_tracer(host, context, service.serving, tracer);
            gateway.set_rules(&configuration.rules, &configuration.principals);
            let subjects =
                control::ControlTargets { host: host.clone(), approvals: Some(approvals.clone()) };
            let control = control::serve(subjects, &invocation.env.paths.control_sockets());
            let served = {
                let following = follow_configuration(
                    invocation,
                    host,
                    (&gateway, &service.source),
                    &configuration,
                );
                let serving = serve_clients(invocation, &gateway, service.http, interrupts);
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

/// Says when a call waits for the person, and how to answer. Does not end by itself.
async fn announce_approvals(mut queue: watch::Receiver<PendingApprovals>) {
    let mut last = 0;
    while queue.changed().await.is_ok() {
        let now = queue.borrow_and_update().clone();
        for waiting in now.iter().filter(|it| it.id > last) {
            report::print_stderr(&format!(
                "note: {} wants `{}` to run `{}`; `swb approvals allow {number}` or `swb approvals deny {number}`\n",
                printable(&waiting.caller),
                printable(&waiting.server),
                printable(&waiting.tool),
                number = waiting.id,
            ));
        }
        last = now.last().map_or(last, |it| it.id.max(last));
    }
    std::future::pending().await
}

/// Picks up changes of the configuration while clients are there. Does not end by itself.
async fn follow_configuration(
    invocation: &Invocation,
    host: &Host,
    (gateway, what): (&Gateway, &ToolSource),
    configuration: &Configuration,
) -> Result<(), Failure> {
    let follower = ConfigWatcher::start(invocation.load_options(), configuration);
    let Ok(mut follower) = follower else { return std::future::pending().await };
    // What changed between the first look and the watch was seen by nobody.
    if let Ok(configuration) = invocation.load() {
        what.apply(host, &configuration).await;
        gateway.set_rules(&configuration.rules, &configuration.principals);
    }
    let mut last_problems = String::new();
    while let Some(configuration) = follower.next().await {
        what.apply(host, &configuration).await;
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
        let (link, flushed) = stdio::transport().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").caused_by(error)
        })?;
        gateway.wait_until_ready(SETTLE_TIMEOUT).await;
        gateway.serve_exclusive(link, "stdio", interrupts.next()).await;
        flushed.wait().await;
        return Ok(());
    };
    let cannot_listen = |error| {
        let message = format!("--http: cannot listen at {}", http.address);
        Failure::new(Exit::Failure, &message).caused_by(error)
    };
    let listener = TcpListener::bind(http.address).await.map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    let guard = HostOriginCheck::new(bound, &http.hosts, &http.origins).map_err(|error| {
        Failure::new(Exit::Usage, &format!("`{}` cannot be allowed", printable(&error.text)))
            .caused_by(error.kind)
    })?;
    let url = http.url.unwrap_or_else(|| format!("http://{bound}{MCP_PATH}"));
    let (doorkeeper, list) = client_auth::authenticator(invocation, http.client_auth, &url)?;
    let server = HttpOptions {
        host_origin_check: guard,
        authenticator: doorkeeper,
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
        () = client_auth::reload_token_file(list) => Ok(()),
    };
    served.map_err(|error| Failure::new(Exit::Failure, "cannot serve any more").caused_by(error))
}
