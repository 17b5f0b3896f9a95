//! `swb ui`: opens the dashboard of a running gateway, or of the user's own servers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard_gateway::{
    ApprovalQueue, DrainOptions, ExposeOptions, MetricsAccess, ServedRoutes,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::report;
use crate::prompt::login_prompt::BrowserMode;
use crate::runtime::control;
use crate::runtime::gateway;
use crate::runtime::gateway::client_auth::ClientAuth;
use crate::runtime::gateway::dashboard_link::{BrowserLaunch, open_link};
use crate::runtime::gateway::replica::ReplicaOptions;
use crate::runtime::gateway::{
    DashboardOptions, GatewayHttpOptions, GatewayOptions, ListenMode, ToolSource,
};

/// Arguments of `swb ui`.
#[derive(Debug, Args)]
pub struct UiArgs {
    /// Only print the link; open no browser
    #[arg(long)]
    pub no_browser: bool,
    /// The process of the gateway, if several have a dashboard
    #[arg(long, value_name = "PID", conflicts_with = "own")]
    pub process: Option<u32>,
    /// Do not look for running gateways: show your own servers, in a dashboard that runs until Ctrl-C
    #[arg(long)]
    pub own: bool,
}

/// A dashboard of a running process, and a new login link.
#[derive(Debug)]
struct RunningDashboard {
    process: u32,
    link: String,
}

/// Runs the command.
pub fn run(arguments: &UiArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let browser_mode = BrowserMode::detect(&invocation.env, arguments.no_browser);
    if arguments.own {
        return serve_own(invocation, browser_mode);
    }
    let folder = invocation.env.paths.control_sockets();
    let responses = control::request_all(&folder, &control::dashboard_link_request());
    let responses = responses.map_err(|error| {
        Failure::new(Exit::Failure, "other swb processes cannot be reached").caused_by(error)
    })?;
    let running: Vec<RunningDashboard> = responses
        .iter()
        .filter(|it| arguments.process.is_none_or(|process| it.process == process))
        .filter_map(|it| {
            let link = it.body["dashboard"].as_str()?.to_owned();
            Some(RunningDashboard { process: it.process, link })
        })
        .collect();
    if invocation.wants_json() && (!running.is_empty() || arguments.process.is_some()) {
        let dashboards = running.iter().map(|it| json!({"process": it.process, "link": it.link}));
        return Ok(json_output(&json!({"dashboards": dashboards.collect::<Vec<Json>>()})));
    }
    match (&running[..], arguments.process) {
        ([one], _) => Ok(show(invocation, &one.link, browser_mode)),
        ([], Some(process)) => {
            let message = format!("the process {process} has no dashboard");
            Err(Failure::new(Exit::NotFound, &message)
                .hint("`swb serve --pool --http 127.0.0.1:8808 --ui` starts a gateway with one"))
        }
        ([], None) => serve_own(invocation, browser_mode),
        ([_, _, ..], _) => {
            let lines = running
                .iter()
                .map(|it| format!("process {}: {}\n", it.process, printable(&it.link)));
            let text = lines.collect::<String>();
            Ok(CommandOutput::text(text).note("note: `swb ui --process PID` opens one of them\n"))
        }
    }
}

fn show(invocation: &Invocation, link: &str, browser_mode: BrowserMode) -> CommandOutput {
    let done = CommandOutput::text(format!("{}\n", printable(link)));
    match open_link(invocation, link, browser_mode) {
        BrowserLaunch::Started => {
            done.note("note: opened in your browser; the link can be used once\n")
        }
        BrowserLaunch::LeftToUser => {
            done.note("note: open the link in a browser; it can be used once, within ten minutes\n")
        }
    }
}

/// Serves a dashboard of the user's own servers, and nothing else, until it is interrupted.
fn serve_own(invocation: &Invocation, browser_mode: BrowserMode) -> Result<CommandOutput, Failure> {
    report::print_stderr("This dashboard shows your own servers. Press Ctrl-C to stop.\n");
    let http = GatewayHttpOptions {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        client_auth: ClientAuth::Anonymous,
        hosts: Vec::new(),
        origins: Vec::new(),
        url: None,
        metrics_access: MetricsAccess::Authenticated,
        max_requests_per_second: None,
        replica: ReplicaOptions::default(),
        tls: None,
        drain: DrainOptions::default(),
        listening: ListenMode::Open,
        routes: ServedRoutes::DashboardOnly,
        dashboard: Some(DashboardOptions { browser_mode }),
    };
    gateway::run(
        invocation,
        GatewayOptions {
            source: ToolSource::Configured { roots: Vec::new() },
            serving: ExposeOptions::default(),
            mode: None,
            approval_timeout: ApprovalQueue::DEFAULT_TIMEOUT,
            http: Some(http),
        },
    )
}
