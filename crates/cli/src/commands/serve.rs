//! `swb serve`: is a server itself, for any client that starts it, over standard input and output.
//! Nothing but the protocol goes to standard output.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use switchboard::config::permission::{Mode, ToolRule};
use switchboard::wire::process;
use switchboard_builtin::workspace::{self, ClientRoots};
use switchboard_gateway::{
    MetricsReaders, Names, Serving, Sharing, ToolsShown, WaitingRoom, exposing,
};

use crate::exit::Exit;
use crate::live::{self, Interrupts};
use crate::outcome::{Done, Failure};
use crate::pool_service::{self, Admission, HttpService, Service, What};
use crate::report;
use crate::session::Session;
use crate::standard_streams;
use crate::workbench;

/// No call waits longer for an answer, in seconds.
const LONGEST_WAIT: u64 = 24 * 3600;

/// Arguments of `swb serve`.
#[derive(Debug, Args)]
pub struct Serve {
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
    pub names: Names,
    /// Serve only what these rules name, such as github or github__list_*; may be repeated
    #[arg(long, value_name = "RULE", requires = "pool", value_delimiter = ',', value_parser = parse_rule)]
    pub expose: Vec<ToolRule>,
    /// How tools are shown: all of them, or by search (`search_tools` and `call_tool` stand for all)
    #[arg(long, value_name = "HOW", default_value = "all", requires = "pool", value_parser = parse_shown)]
    pub tools: ToolsShown,
    /// Who shares a server's connection or process: everybody, the clients of one principal, or nobody (session).
    /// Principal where clients show who they are, else everybody
    #[arg(long, value_name = "WHO", requires = "pool", value_parser = parse_sharing)]
    pub sharing: Option<Sharing>,
    /// How much is asked: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long, value_name = "MODE", requires = "pool", value_parser = super::permissions::parse_mode)]
    pub mode: Option<Mode>,
    /// How long a call waits for `swb approvals`, in seconds, where its client can ask nobody; 0: nobody is asked
    #[arg(long, value_name = "SECONDS", default_value_t = WaitingRoom::USUAL.as_secs(), requires = "pool")]
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

fn parse_names(text: &str) -> Result<Names, String> {
    match text {
        "prefixed" => Ok(Names::Prefixed),
        "plain" => Ok(Names::Plain),
        "on-collision" => Ok(Names::OnCollision),
        _ => Err("it is `prefixed`, `plain` or `on-collision`".to_owned()),
    }
}

fn parse_sharing(text: &str) -> Result<Sharing, String> {
    match text {
        "everybody" => Ok(Sharing::Everybody),
        "principal" => Ok(Sharing::Principal),
        "session" => Ok(Sharing::Session),
        _ => Err("it is `everybody`, `principal` or `session`".to_owned()),
    }
}

fn parse_shown(text: &str) -> Result<ToolsShown, String> {
    match text {
        "all" => Ok(ToolsShown::All),
        "search" => Ok(ToolsShown::Search),
        _ => Err("it is `all` or `search`".to_owned()),
    }
}

fn parse_rule(text: &str) -> Result<ToolRule, String> {
    exposing(text).map_err(|error| error.kind.to_string())
}

/// Runs the command. Its end, however it comes about, is a good one: that is how clients end their servers.
pub fn run(arguments: &Serve, session: &Session) -> Result<Done, Failure> {
    if arguments.pool {
        return pool_service::run(session, service(arguments, session)?);
    }
    let (roots, client_roots) = folders(arguments, session)?;
    if arguments.http.is_some() {
        let mut service = service(arguments, session)?;
        service.what = What::Workspace(Box::new(workbench::settings(session, roots, client_roots)));
        // Every client has a place of its own.
        service.serving.sharing = Sharing::Session;
        service.serving.names = Names::Plain;
        return pool_service::run(session, service);
    }
    let settings = workbench::settings(session, roots, client_roots);
    process::raise_file_limit();
    if session.machine.terminal.can_ask {
        report::aside("this is a server: it waits for a client on standard input\n");
    }
    let runtime = live::runtime()?;
    let outcome = runtime.block_on(async {
        // What a killed predecessor may have left behind; nobody waits for it but the end.
        let reaping = tokio::task::spawn_blocking(process::reap);
        let mut interrupts = Interrupts::hear();
        let (link, written) = standard_streams::link().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").because(error)
        })?;
        workspace::serve_until(settings, link, interrupts.next()).await;
        written.wait().await;
        let _panicked = reaping.await;
        Ok(Done::default())
    });
    // A thread may still wait for standard input, which nobody closes.
    runtime.shutdown_background();
    outcome
}

fn service(arguments: &Serve, session: &Session) -> Result<Service, Failure> {
    let http = match arguments.http {
        None => None,
        Some(address) => Some(HttpService {
            address,
            admission: admission(arguments, session, address)?,
            hosts: arguments.allow_host.clone(),
            origins: arguments.allow_origin.clone(),
            url: arguments.url.clone(),
            metrics: match arguments.metrics_open {
                true => MetricsReaders::Everybody,
                false => MetricsReaders::Admitted,
            },
        }),
    };
    // Who can be told apart is kept apart.
    let is_told_apart = arguments.token_file.is_some() || arguments.oauth.is_some();
    let usual = if is_told_apart { Sharing::Principal } else { Sharing::Everybody };
    let sharing = arguments.sharing.unwrap_or(usual);
    let serving = Serving {
        names: arguments.names,
        exposed: arguments.expose.clone(),
        tools: arguments.tools,
        sharing,
    };
    let approval = Duration::from_secs(arguments.approval_timeout.min(LONGEST_WAIT));
    Ok(Service { what: What::Configured, serving, mode: arguments.mode, approval, http })
}

/// Nobody is let in by omission.
fn admission(
    arguments: &Serve,
    session: &Session,
    address: SocketAddr,
) -> Result<Admission, Failure> {
    if let Some(file) = &arguments.token_file {
        return pool_service::token_file(&session.machine.working_folder.join(file));
    }
    if let Some(issuer) = &arguments.oauth {
        return Ok(Admission::Issued(issuer.clone()));
    }
    match (arguments.no_auth, address.ip().is_loopback()) {
        (true, true) => Ok(Admission::Everybody),
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

fn folders(arguments: &Serve, session: &Session) -> Result<(Vec<PathBuf>, ClientRoots), Failure> {
    let here = &session.machine.working_folder;
    if arguments.roots.is_empty() {
        return Ok((vec![here.clone()], ClientRoots::Followed));
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
