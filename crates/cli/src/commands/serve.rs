//! `swb serve`: is a server itself, for any client that starts it, over standard input and output.
//! Nothing but the protocol goes to standard output.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use switchboard::config::permission::{PermissionMode, ToolRule};
use switchboard::wire::process::child;
use switchboard_builtin::workspace::{self, ClientRoots};
use switchboard_gateway::{
    ApprovalQueue, ConnectionSharing, ExposeOptions, MetricsAccess, NameStyle, ToolExposure,
    parse_expose_rule,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::options::parse_mode;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;
use crate::runtime::gateway;
use crate::runtime::gateway::client_auth::{self, ClientAuth};
use crate::runtime::gateway::{GatewayHttpOptions, GatewayOptions, ToolSource};
use crate::runtime::in_process;
use crate::runtime::interrupts::{self, Interrupts};
use crate::runtime::stdio;

/// No call waits longer for an answer, in seconds.
const MAX_APPROVAL_TIMEOUT: u64 = 24 * 3600;

/// Arguments of `swb serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// A folder that files may be touched in, whatever the client says; may be repeated. Without it: the folders that
    /// the client works in, or the working folder
    #[arg(long = "root", value_name = "FOLDER")]
    pub roots: Vec<PathBuf>,
    /// Serve every server that is configured, as one
    #[arg(long, conflicts_with = "roots")]
    pub pool: bool,
    /// Listen for clients at an address, such as 127.0.0.1:8808, instead of standard input
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// How tools and prompts are called: prefixed with their server's name, plain, or prefixed on-collision
    #[arg(long, value_name = "NAMES", default_value = "prefixed", requires = "pool", value_parser = parse_names)]
    pub names: NameStyle,
    /// Serve only what these rules name, such as github or github__list_*; may be repeated
    #[arg(long, value_name = "RULE", requires = "pool", value_delimiter = ',', value_parser = parse_rule)]
    pub expose: Vec<ToolRule>,
    /// How tools are shown: all of them, or by search (`search_tools` and `call_tool` stand for all)
    #[arg(long, value_name = "HOW", default_value = "all", requires = "pool", value_parser = parse_tools_shown)]
    pub tools: ToolExposure,
    /// Who shares a server's connection or process: everybody, the clients of one principal, or nobody (session).
    /// Principal where clients show who they are, else everybody
    #[arg(long, value_name = "WHO", requires = "pool", value_parser = parse_sharing)]
    pub sharing: Option<ConnectionSharing>,
    /// How much is asked: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long, value_name = "MODE", requires = "pool", value_parser = parse_mode)]
    pub mode: Option<PermissionMode>,
    /// How long a call waits for `swb approvals`, in seconds, where its client can ask nobody; 0: nobody is asked
    #[arg(long, value_name = "SECONDS", default_value_t = ApprovalQueue::DEFAULT_TIMEOUT.as_secs(), requires = "pool")]
    pub approval_timeout: u64,
    /// Let in who has a token of this file: one `name: token` a line
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Let in who has a token of this authorization server
    #[arg(long, value_name = "ISSUER", requires = "http", conflicts_with = "token_file")]
    pub oauth: Option<String>,
    /// Let in everybody who reaches the address, which must be one of this machine alone
    #[arg(long, requires = "http", conflicts_with_all = ["token_file", "oauth"])]
    pub no_auth: bool,
    /// Our URL, as clients see it, where that is not the address; tokens must be made out to it
    #[arg(long, value_name = "URL", requires = "http")]
    pub url: Option<String>,
    /// A name that we are reached by, besides the address; may be repeated
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// Let everybody read /metrics, also those who may not come in; otherwise it wants a token as clients do
    #[arg(long, requires = "http")]
    pub metrics_open: bool,
    /// A web page's origin that may use us; may be repeated
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,
}

fn parse_names(text: &str) -> Result<NameStyle, String> {
    match text {
        "prefixed" => Ok(NameStyle::Prefixed),
        "plain" => Ok(NameStyle::Plain),
        "on-collision" => Ok(NameStyle::PrefixedOnCollision),
        _ => Err("it is `prefixed`, `plain` or `on-collision`".to_owned()),
    }
}

fn parse_sharing(text: &str) -> Result<ConnectionSharing, String> {
    match text {
        "everybody" => Ok(ConnectionSharing::Shared),
        "principal" => Ok(ConnectionSharing::PerPrincipal),
        "session" => Ok(ConnectionSharing::PerSession),
        _ => Err("it is `everybody`, `principal` or `session`".to_owned()),
    }
}

fn parse_tools_shown(text: &str) -> Result<ToolExposure, String> {
    match text {
        "all" => Ok(ToolExposure::All),
        "search" => Ok(ToolExposure::Search),
        _ => Err("it is `all` or `search`".to_owned()),
    }
}

fn parse_rule(text: &str) -> Result<ToolRule, String> {
    parse_expose_rule(text).map_err(|error| error.kind.to_string())
}

/// Runs the command. Its end, however it comes about, is a good one: that is how clients end their servers.
pub fn run(arguments: &ServeArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    if arguments.pool {
        return gateway::run(invocation, gateway_options(arguments, invocation)?);
    }
    let (roots, client_roots) = workspace_roots(arguments, invocation)?;
    if arguments.http.is_some() {
        let mut service = gateway_options(arguments, invocation)?;
        service.source = ToolSource::Workspace(Box::new(in_process::workspace_settings(
            invocation,
            roots,
            client_roots,
        )));
        // Every client has a place of its own.
        service.serving.sharing = ConnectionSharing::PerSession;
        service.serving.names = NameStyle::Plain;
        return gateway::run(invocation, service);
    }
    let settings = in_process::workspace_settings(invocation, roots, client_roots);
    child::raise_file_limit();
    if invocation.env.terminal.can_prompt {
        report::print_stderr("this is a server: it waits for a client on standard input\n");
    }
    let runtime = interrupts::tokio_runtime()?;
    let outcome = runtime.block_on(async {
        // What a killed predecessor may have left behind; nobody waits for it but the end.
        let reaping = tokio::task::spawn_blocking(child::kill_orphans);
        let mut interrupts = Interrupts::listen();
        let (link, written) = stdio::transport().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").caused_by(error)
        })?;
        workspace::serve_until(settings, link, interrupts.next()).await;
        written.wait().await;
        let _panicked = reaping.await;
        Ok(CommandOutput::default())
    });
    // A thread may still wait for standard input, which nobody closes.
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
        }),
    };
    // Who can be told apart is kept apart.
    let is_authenticated = arguments.token_file.is_some() || arguments.oauth.is_some();
    let usual =
        if is_authenticated { ConnectionSharing::PerPrincipal } else { ConnectionSharing::Shared };
    let sharing = arguments.sharing.unwrap_or(usual);
    let serving = ExposeOptions {
        names: arguments.names,
        rules: arguments.expose.clone(),
        tools: arguments.tools,
        sharing,
    };
    let approval = Duration::from_secs(arguments.approval_timeout.min(MAX_APPROVAL_TIMEOUT));
    Ok(GatewayOptions {
        source: ToolSource::Configured,
        serving,
        mode: arguments.mode,
        approval_timeout: approval,
        http,
    })
}

/// Nobody is let in by omission.
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
    match (arguments.no_auth, address.ip().is_loopback()) {
        (true, true) => Ok(ClientAuth::Anonymous),
        (true, false) => {
            let message = "--no-auth: everybody who can reach that address could use your servers";
            Err(Failure::new(Exit::Usage, message)
                .hint("listen at 127.0.0.1, or use `--token-file`"))
        }
        (false, _) => {
            let message = "--http: it must be said who may come in";
            Err(Failure::new(Exit::Usage, message).hint(
                "`--token-file FILE`, `--oauth ISSUER`, or `--no-auth` on this machine alone",
            ))
        }
    }
}

fn workspace_roots(
    arguments: &ServeArgs,
    invocation: &Invocation,
) -> Result<(Vec<PathBuf>, ClientRoots), Failure> {
    let here = &invocation.env.working_folder;
    if arguments.roots.is_empty() {
        return Ok((vec![here.clone()], ClientRoots::Used));
    }
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
    let roots = arguments.roots.iter().map(folder).collect::<Result<_, _>>()?;
    Ok((roots, ClientRoots::Ignored))
}
