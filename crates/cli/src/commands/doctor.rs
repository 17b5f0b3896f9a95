//! `swb doctor`: what is wrong with servers, what shows it, and what mends it.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::entry::server::TransportConfig;
use switchboard::config::merge::ResolvedServer;
use switchboard::connection::ServerView;
use switchboard::connection::state::RetryPolicy;
use switchboard::failure::{ConnectionFailure, FailureKind};
use switchboard::host::Snapshot;
use switchboard::sources::child_env;
use switchboard::sources::loader::Configuration;
use switchboard::wire::connect::Fallback;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::report;
use crate::output::server_text;
use crate::output::server_text::pluralize;
use crate::output::style::{TextStyle, paint};
use crate::runtime::host;

/// Arguments of `swb doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Only this server
    pub name: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &DoctorArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = session.load()?;
    let names: Vec<String> = arguments.name.iter().cloned().collect();
    let servers = host::active_servers(session, &configuration, &names)?;
    let snapshot = host::with_host(session, RetryPolicy::NoRetry, async |host| {
        host::apply_configuration(host, &configuration, &names).await;
        Ok(host::wait_until_settled(session, host, None, Snapshot::is_settled).await)
    })?;
    Ok(diagnose(session, &configuration, &servers, &snapshot))
}

/// What is found out about servers from how their connections stand.
pub(crate) fn diagnose(
    session: &Invocation,
    configuration: &Configuration,
    servers: &[&ResolvedServer],
    snapshot: &Snapshot,
) -> CommandOutput {
    let mut findings: Vec<Finding> =
        servers.iter().map(|server| examine(session, server, snapshot)).collect();
    let sick = findings.iter().filter(|it| it.exit != Exit::Success).count();
    let exit = findings.iter().map(|it| it.exit).find(|it| *it != Exit::Success);
    let mut done = if session.wants_json() {
        let json: Vec<Json> = findings.iter_mut().map(|it| it.json.take()).collect();
        super::json_output(&json!({"servers": json, "sick": sick}))
    } else {
        let mut text: String = findings.iter().map(|it| it.text.as_str()).collect();
        let all = pluralize(findings.len(), "server", "servers");
        text.push_str(&match (findings.is_empty(), sick) {
            (true, _) => "No MCP servers to examine: swb list says where was looked.\n".to_owned(),
            (false, 0) => format!("\n{all}, all well.\n"),
            (false, sick) => format!("\n{all}, {sick} with trouble.\n"),
        });
        let problems = configuration.effective.problems.iter();
        CommandOutput::text(text).note(report::problems(&session.env, problems))
    };
    done.exit = exit;
    done
}

/// What was found out about one server.
struct Finding {
    text: String,
    json: Json,
    exit: Exit,
}

fn examine(session: &Invocation, server: &ResolvedServer, snapshot: &Snapshot) -> Finding {
    match snapshot.servers.get(&server.name) {
        Some(view) => examine_connection(session, server, view),
        None => {
            let reason = server_text::state_reason(session, server);
            let state = server_text::state_text(&server.state);
            let mut text = heading(&server.name, server_text::state_style(&server.state), &state);
            if let Some(reason) = &reason {
                text.push_str(&format!("  {reason}\n"));
            }
            text.push_str(&indented(&report::problems(&session.env, server.problems.iter())));
            Finding {
                text,
                json: connection_text::not_started_json(session, server),
                exit: Exit::Success,
            }
        }
    }
}

fn examine_connection(session: &Invocation, server: &ResolvedServer, view: &ServerView) -> Finding {
    let exit = connection_text::exit_code(&view.status);
    let mut text =
        heading(&view.name, connection_text::status_style(&view.status), view.status.id());
    let mut json = connection_text::view_json(view);
    if let Some(entry) = &server.entry {
        let target = server_text::target(entry);
        text.push_str(&format!("  runs: {target}\n"));
        json["target"] = target.into();
    }
    text.push_str(&format!("  from: {}\n", session.display_origin(&server.origin)));
    if let Some(cause) = view.status.cause() {
        text.push_str(&format!("  cause: {}\n", printable(&cause.to_string())));
        text.push_str(&connection_text::evidence_text(cause));
        let fix = remedy(session, server, cause);
        text.push_str(&format!("  {}: {}\n", paint(TextStyle::Bold, "fix"), printable(&fix)));
        json["cause"]["fix"] = fix.into();
    }
    if let Some(introduction) = &view.server_info {
        text.push_str(&format!(
            "  speaks: {} era, version {}\n",
            introduction.era,
            printable(&introduction.protocol_version)
        ));
    }
    match view.fallback {
        Some(Fallback::Restarted) => text.push_str(
            "  note: it ended when asked about its era and was started again; that is remembered\n",
        ),
        Some(Fallback::HttpSse2024) => text.push_str(
            "  note: it refused streamable HTTP and speaks the older transport; `\"type\": \"sse\"` saves a step\n",
        ),
        None => {}
    }
    for note in view.catalogue.issues() {
        text.push_str(&format!("  note: {}\n", printable(&note.to_string())));
    }
    text.push_str(&indented(&report::problems(&session.env, server.problems.iter())));
    Finding { text, json, exit }
}

/// What mends it here. A program that ended may lack a variable that we did not hand down.
fn remedy(session: &Invocation, server: &ResolvedServer, cause: &ConnectionFailure) -> String {
    let usual = cause.remedy(&server.name);
    let Some(TransportConfig::Stdio(stdio)) = server.entry.as_ref().map(|entry| &entry.transport)
    else {
        return usual;
    };
    let said: String = cause.evidence.iter().map(|it| it.text()).collect();
    let withheld = session.env.variables.keys().find(|name| {
        child_env::is_credential(name)
            && said.contains(name.as_str())
            && !stdio.env.iter().any(|(call_arguments, _)| call_arguments == *name)
    });
    match (&cause.kind, withheld) {
        (FailureKind::Exited { .. } | FailureKind::Closed, Some(name)) => format!(
            "it asks for {name}, which is yours and not handed down: put `\"{name}\": \"${{{name}}}\"` into its `env`"
        ),
        (_, Some(_) | None) => usual,
    }
}

fn heading(name: &str, style: TextStyle, state: &str) -> String {
    format!("{}  {}\n", paint(TextStyle::Bold, printable(name)), paint(style, state))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
