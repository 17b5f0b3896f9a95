//! `swb serve`: an MCP server over stdio or HTTP, with the workspace tools or with the pool of all configured
//! servers.
//! Over stdio only protocol messages go to standard output.

mod check;
mod replica_args;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use switchboard::config::permission::{PermissionMode, ToolRule};
use switchboard::wire::process::child;
use switchboard_builtin::workspace::{self, ClientRoots};
use switchboard_gateway::{
    ApprovalQueue, ClientCertificates, ConnectionSharing, DrainOptions, ExposeOptions,
    InteractiveSessions, MetricsAccess, NameStyle, ServedRoutes, SessionPolicy, TlsFiles,
    TlsServer, ToolExposure, parse_expose_rule,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::options::parse_mode;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;
use crate::prompt::login_prompt::BrowserMode;
use crate::runtime::gateway;
use crate::runtime::gateway::client_auth::{self, ClientAuth};
use crate::runtime::gateway::replica::ReplicaOptions;
use crate::runtime::gateway::{
    DashboardOptions, GatewayHttpOptions, GatewayOptions, ListenMode, ToolSource,
};
use crate::runtime::in_process;
use crate::runtime::interrupts::{self, Interrupts};
use crate::runtime::stdio;
use replica_args::ReplicaArgs;

/// The longest approval timeout, in seconds.
const MAX_APPROVAL_TIMEOUT: u64 = 24 * 3600;
/// The longest delay and the longest timeout of a drain, in seconds.
const MAX_DRAIN: u64 = 24 * 3600;

/// Arguments of `swb serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Take the options from a file in JSON with comments, whose keys are their names; options of the command line take
    /// precedence
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the options, the files that they name and the configuration, and end without serving
    #[arg(long)]
    pub check: bool,
    /// A folder the tools may access, whatever the client says; may be repeated [default: the client's roots, or the
    /// working folder]. With --pool: a root for servers whose client has none [default: none]
    #[arg(long = "root", value_name = "FOLDER")]
    pub roots: Vec<PathBuf>,
    /// Serve the pool: all configured servers as one
    #[arg(long)]
    pub pool: bool,
    /// Serve over HTTP at this address, for example 127.0.0.1:8808, instead of stdio
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// How tools and prompts are named: prefixed with the server's name, plain, or prefixed on-collision
    #[arg(long, value_name = "NAMES", default_value = "prefixed", requires = "pool", value_parser = parse_names)]
    pub names: NameStyle,
    /// Expose only what these rules match, for example github or github__list_*; may be repeated
    #[arg(long, value_name = "RULE", requires = "pool", value_delimiter = ',', value_parser = parse_rule)]
    pub expose: Vec<ToolRule>,
    /// How tools are exposed: all, or search (only `search_tools` and `call_tool`)
    #[arg(long, value_name = "HOW", default_value = "all", requires = "pool", value_parser = parse_tools_shown)]
    pub tools: ToolExposure,
    /// Which clients share a server's connection: everybody, the clients of one principal, or none (session)
    /// [default: principal if clients authenticate, otherwise everybody; sessions that servers can ask share no older
    /// server over stdio]
    #[arg(long, value_name = "WHO", requires = "pool", value_parser = parse_sharing)]
    pub sharing: Option<ConnectionSharing>,
    /// The permission mode: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long = "permission-mode", visible_alias = "mode", value_name = "MODE", requires = "pool", value_parser = parse_mode)]
    pub mode: Option<PermissionMode>,
    /// How long a call waits for `swb approvals`, in seconds, if its client cannot ask its user; 0 denies it at once
    #[arg(long, value_name = "SECONDS", default_value_t = ApprovalQueue::DEFAULT_TIMEOUT.as_secs(), requires = "pool")]
    pub approval_timeout: u64,
    /// Authenticate clients by a token file with one `name: token` per line
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Authenticate clients by OAuth access tokens of this issuer
    #[arg(long, value_name = "ISSUER", requires = "http", conflicts_with = "token_file")]
    pub oauth: Option<String>,
    /// Do not authenticate clients; only for loopback addresses
    #[arg(long, requires = "http", conflicts_with_all = ["token_file", "oauth"])]
    pub no_auth: bool,
    /// Serve HTTPS with this certificate and those of its issuers, in PEM; the file is read again when it changes
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"])]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Authenticate clients by certificates of these authorities, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", conflicts_with = "no_auth")]
    pub tls_client_ca: Option<PathBuf>,
    /// Must clients have a certificate? required, or optional where they may have a token instead
    #[arg(long, value_name = "WHETHER", default_value = "required", requires = "tls_client_ca", value_parser = parse_client_certificates)]
    pub tls_client_auth: ClientCertificates,
    /// The URL that clients use, if it differs from the address; it is the audience of OAuth tokens
    #[arg(long, value_name = "URL", requires = "http")]
    pub url: Option<String>,
    /// Allow this `Host` name besides the address; may be repeated
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// The most requests of one principal per second; 0 for no limit [default: `gatewayLimits` of the settings, or 500]
    #[arg(long, value_name = "NUMBER", requires = "http")]
    pub max_requests_per_second: Option<u32>,
    /// At a stop, serve new requests for this time, in seconds, while /readyz reports draining
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "http")]
    pub drain_delay: u64,
    /// At a stop, give running requests this time to finish, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DrainOptions::default().timeout.as_secs(), requires = "http")]
    pub drain_timeout: u64,
    /// Take the address over from a gateway of this user that serves it: it finishes its requests and ends, and no
    /// connection is refused meanwhile
    #[arg(long, requires = "http")]
    pub takeover: bool,
    /// Serve /metrics without authentication
    #[arg(long, requires = "http")]
    pub metrics_open: bool,
    /// Serve a dashboard for the operator at /ui/, and print a login link for it; only for loopback addresses
    #[arg(long, requires = "http", requires = "pool")]
    pub ui: bool,
    /// Serve the dashboard also at an address that is not loopback. Put TLS in front of it
    #[arg(long, requires = "ui")]
    pub ui_remote: bool,
    /// Allow requests from this web origin; may be repeated
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,
    /// Options for replicas.
    #[command(flatten)]
    pub replica: ReplicaArgs,
}

fn parse_names(text: &str) -> Result<NameStyle, String> {
    match text {
        "prefixed" => Ok(NameStyle::Prefixed),
        "plain" => Ok(NameStyle::Plain),
        "on-collision" => Ok(NameStyle::PrefixedOnCollision),
        _ => Err("expected `prefixed`, `plain` or `on-collision`".to_owned()),
    }
}

fn parse_sharing(text: &str) -> Result<ConnectionSharing, String> {
    match text {
        "everybody" => Ok(ConnectionSharing::Shared),
        "principal" => Ok(ConnectionSharing::PerPrincipal),
        "session" => Ok(ConnectionSharing::PerSession),
        _ => Err("expected `everybody`, `principal` or `session`".to_owned()),
    }
}

fn parse_client_certificates(text: &str) -> Result<ClientCertificates, String> {
    match text {
        "required" => Ok(ClientCertificates::Required),
        "optional" => Ok(ClientCertificates::Optional),
        _ => Err("expected `required` or `optional`".to_owned()),
    }
}

fn parse_tools_shown(text: &str) -> Result<ToolExposure, String> {
    match text {
        "all" => Ok(ToolExposure::All),
        "search" => Ok(ToolExposure::Search),
        _ => Err("expected `all` or `search`".to_owned()),
    }
}

fn parse_rule(text: &str) -> Result<ToolRule, String> {
    parse_expose_rule(text).map_err(|error| error.kind.to_string())
}

/// Runs the command. The exit code is 0 whether the client disconnects or the process is interrupted.
pub fn run(arguments: &ServeArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    if arguments.pool {
        let mut options = gateway_options(arguments, invocation)?;
        options.source = ToolSource::Configured { roots: folders(arguments, invocation)? };
        return match arguments.check {
            true => check::run(invocation, &options),
            false => gateway::run(invocation, options),
        };
    }
    let (roots, client_roots) = workspace_roots(arguments, invocation)?;
    if arguments.check {
        return check::run(invocation, &gateway_options(arguments, invocation)?);
    }
    // The gateway serves several servers as one.
    if arguments.http.is_some() || invocation.global.browser.is_asked_for() {
        let mut options = gateway_options(arguments, invocation)?;
        options.source = ToolSource::Workspace(Box::new(in_process::workspace_settings(
            invocation,
            roots,
            client_roots,
        )));
        // Every client gets a workspace of its own.
        options.serving.sharing = ConnectionSharing::PerSession;
        options.serving.names = NameStyle::Plain;
        return gateway::run(invocation, options);
    }
    let settings = in_process::workspace_settings(invocation, roots, client_roots);
    child::raise_file_limit();
    if invocation.env.terminal.can_prompt {
        report::print_stderr("waiting for an MCP client on standard input\n");
    }
    let runtime = interrupts::tokio_runtime()?;
    let outcome = runtime.block_on(async {
        // Kills server processes that a killed run left behind; awaited at the end.
        let cleanup = tokio::task::spawn_blocking(child::kill_orphans);
        let mut interrupts = Interrupts::listen();
        let (transport, written) = stdio::transport().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").caused_by(error)
        })?;
        workspace::serve_until(settings, transport, interrupts.next()).await;
        written.wait().await;
        let _panicked = cleanup.await;
        Ok(CommandOutput::default())
    });
    // The reader thread may still wait for standard input.
    runtime.shutdown_background();
    outcome
}

fn gateway_options(
    arguments: &ServeArgs,
    invocation: &Invocation,
) -> Result<GatewayOptions, Failure> {
    let http = match arguments.http {
        None => None,
        Some(address) => Some(GatewayHttpOptions {
            address,
            client_auth: client_auth(arguments, invocation, address)?,
            hosts: arguments.allow_host.clone(),
            origins: arguments.allow_origin.clone(),
            url: arguments.url.clone(),
            metrics_access: match arguments.metrics_open {
                true => MetricsAccess::Public,
                false => MetricsAccess::Authenticated,
            },
            max_requests_per_second: arguments.max_requests_per_second,
            replica: replica_options(&arguments.replica, invocation),
            tls: tls(arguments, invocation)?,
            drain: DrainOptions {
                delay: Duration::from_secs(arguments.drain_delay.min(MAX_DRAIN)),
                timeout: Duration::from_secs(arguments.drain_timeout.min(MAX_DRAIN)),
            },
            listening: match arguments.takeover {
                true => ListenMode::Takeover,
                false => ListenMode::Open,
            },
            routes: ServedRoutes::All,
            dashboard: dashboard(arguments, address)?,
        }),
    };
    // Clients that authenticate do not share connections.
    let is_authenticated = arguments.token_file.is_some()
        || arguments.oauth.is_some()
        || arguments.tls_client_ca.is_some();
    let default_sharing =
        if is_authenticated { ConnectionSharing::PerPrincipal } else { ConnectionSharing::Shared };
    let sharing = arguments.sharing.unwrap_or(default_sharing);
    // Over stdio there is only one session.
    let interactive_sessions = match (arguments.sharing, arguments.http) {
        (None, Some(_)) => InteractiveSessions::OwnConnection,
        (Some(_), _) | (None, None) => InteractiveSessions::AsShared,
    };
    let serving = ExposeOptions {
        names: arguments.names,
        rules: arguments.expose.clone(),
        tools: arguments.tools,
        sharing,
        interactive_sessions,
    };
    let approval = Duration::from_secs(arguments.approval_timeout.min(MAX_APPROVAL_TIMEOUT));
    Ok(GatewayOptions {
        source: ToolSource::Configured { roots: Vec::new() },
        serving,
        mode: arguments.mode,
        approval_timeout: approval,
        http,
    })
}

/// The options for replicas, with the paths of files.
fn replica_options(arguments: &ReplicaArgs, invocation: &Invocation) -> ReplicaOptions {
    let here = &invocation.env.working_folder;
    ReplicaOptions {
        store: arguments.store.clone(),
        store_authorities: arguments.store_ca.as_ref().map(|it| here.join(it)),
        store_prefix: arguments.store_prefix.clone(),
        sessions_while_away: arguments.sessions_without_store,
        seal_keys: arguments.seal_key.iter().map(|it| here.join(it)).collect(),
        address: arguments.replica_address.clone(),
        listen: arguments.replica_listen,
        sessions: match arguments.stateless {
            true => SessionPolicy::NoClients,
            false => SessionPolicy::LegacyClients,
        },
    }
}

/// The dashboard, if it is wanted. Its login link is printed: a gateway may run where no user is.
fn dashboard(
    arguments: &ServeArgs,
    address: SocketAddr,
) -> Result<Option<DashboardOptions>, Failure> {
    if !arguments.ui {
        return Ok(None);
    }
    if !address.ip().is_loopback() && !arguments.ui_remote {
        let message = "--ui: that address is not loopback, so others could reach the dashboard";
        return Err(Failure::new(Exit::Usage, message).hint(
            "listen at 127.0.0.1, or add `--ui-remote` and put TLS in front of the gateway",
        ));
    }
    Ok(Some(DashboardOptions { browser_mode: BrowserMode::PrintUrl }))
}

/// The authentication of clients. There is no default: HTTP without a choice is an error.
fn client_auth(
    arguments: &ServeArgs,
    invocation: &Invocation,
    address: SocketAddr,
) -> Result<ClientAuth, Failure> {
    if let Some(file) = &arguments.token_file {
        return client_auth::read_token_file(&invocation.env.working_folder.join(file));
    }
    if let Some(issuer) = &arguments.oauth {
        return Ok(ClientAuth::OAuth(issuer.clone()));
    }
    if arguments.tls_client_ca.is_some() {
        return Ok(ClientAuth::Certificate);
    }
    match (arguments.no_auth, address.ip().is_loopback()) {
        (true, true) => Ok(ClientAuth::Anonymous),
        (true, false) => {
            let message = "--no-auth: everyone who can reach that address could use your servers";
            Err(Failure::new(Exit::Usage, message)
                .hint("listen at 127.0.0.1, or use `--token-file`"))
        }
        (false, _) => {
            let message = "--http needs an authentication option";
            Err(Failure::new(Exit::Usage, message).hint(
                "`--token-file FILE`, `--oauth ISSUER`, `--tls-client-ca FILE`, or `--no-auth` for loopback addresses",
            ))
        }
    }
}

/// The certificate, where the server speaks TLS.
fn tls(arguments: &ServeArgs, invocation: &Invocation) -> Result<Option<TlsServer>, Failure> {
    let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else {
        return Ok(None);
    };
    let here = &invocation.env.working_folder;
    let authorities = arguments.tls_client_ca.as_ref();
    let files = TlsFiles {
        certificate: here.join(certificate),
        key: here.join(key),
        client_authorities: authorities.map(|it| (here.join(it), arguments.tls_client_auth)),
    };
    let opened = TlsServer::open(files);
    opened
        .map(Some)
        .map_err(|error| Failure::new(Exit::Usage, &format!("TLS: {error}")).caused_by(error.kind))
}

fn workspace_roots(
    arguments: &ServeArgs,
    invocation: &Invocation,
) -> Result<(Vec<PathBuf>, ClientRoots), Failure> {
    let here = &invocation.env.working_folder;
    match arguments.roots.is_empty() {
        true => Ok((vec![here.clone()], ClientRoots::Used)),
        false => Ok((folders(arguments, invocation)?, ClientRoots::Ignored)),
    }
}

/// The folders of `--root`.
fn folders(arguments: &ServeArgs, invocation: &Invocation) -> Result<Vec<PathBuf>, Failure> {
    let here = &invocation.env.working_folder;
    let folder = |root: &PathBuf| {
        let path = here.join(root);
        match path.is_dir() {
            true => Ok(path),
            false => {
                let message = format!("--root: `{}` is not a folder", root.display());
                Err(Failure::new(Exit::Usage, &message))
            }
        }
    };
    arguments.roots.iter().map(folder).collect()
}
