//! `swb doctor`: what is wrong with servers, what shows it, and what mends it.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::cause::{Cause, CauseKind};
use switchboard::config::cascade::Server;
use switchboard::config::entry::Transport;
use switchboard::config::shown::printable;
use switchboard::connection::View;
use switchboard::connection::state::Persistence;
use switchboard::engine::Snapshot;
use switchboard::inheritance;
use switchboard::load::Configuration;
use switchboard::wire::dial::Detour;

use crate::connected;
use crate::describe::{self, counted};
use crate::exit::Exit;
use crate::live;
use crate::outcome::{Done, Failure};
use crate::report;
use crate::session::Session;
use crate::style::{Meaning, paint};

/// Arguments of `swb doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Only this server
    pub name: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &Doctor, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let names: Vec<String> = arguments.name.iter().cloned().collect();
    let servers = live::in_play(session, &configuration, &names)?;
    let snapshot = live::run(session, Persistence::Once, async |host| {
        live::apply(host, &configuration, &names).await;
        Ok(live::settle(session, host, None, Snapshot::is_settled).await)
    })?;
    Ok(findings(session, &configuration, &servers, &snapshot))
}

/// What is found out about servers from how their connections stand.
pub(crate) fn findings(
    session: &Session,
    configuration: &Configuration,
    servers: &[&Server],
    snapshot: &Snapshot,
) -> Done {
    let mut findings: Vec<Finding> =
        servers.iter().map(|server| examine(session, server, snapshot)).collect();
    let sick = findings.iter().filter(|it| it.exit != Exit::Success).count();
    let exit = findings.iter().map(|it| it.exit).find(|it| *it != Exit::Success);
    let mut done = if session.wants_json() {
        let json: Vec<Json> = findings.iter_mut().map(|it| it.json.take()).collect();
        super::json(&json!({"servers": json, "sick": sick}))
    } else {
        let mut text: String = findings.iter().map(|it| it.text.as_str()).collect();
        let all = counted(findings.len(), "server", "servers");
        text.push_str(&match (findings.is_empty(), sick) {
            (true, _) => "No MCP servers to examine: swb list says where was looked.\n".to_owned(),
            (false, 0) => format!("\n{all}, all well.\n"),
            (false, sick) => format!("\n{all}, {sick} with trouble.\n"),
        });
        let problems = configuration.effective.problems.iter();
        Done::text(text).note(report::problems(&session.machine, problems))
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

fn examine(session: &Session, server: &Server, snapshot: &Snapshot) -> Finding {
    match snapshot.servers.get(&server.name) {
        Some(view) => examine_connection(session, server, view),
        None => {
            let reason = describe::state_reason(session, server);
            let state = describe::state_text(&server.state);
            let mut text = heading(&server.name, describe::state_meaning(&server.state), &state);
            if let Some(reason) = &reason {
                text.push_str(&format!("  {reason}\n"));
            }
            text.push_str(&indented(&report::problems(&session.machine, server.problems.iter())));
            Finding { text, json: connected::idle_json(session, server), exit: Exit::Success }
        }
    }
}

fn examine_connection(session: &Session, server: &Server, view: &View) -> Finding {
    let exit = connected::exit(&view.status);
    let mut text = heading(&view.name, connected::meaning(&view.status), view.status.id());
    let mut json = connected::view_json(view);
    if let Some(entry) = &server.entry {
        let target = describe::target(entry);
        text.push_str(&format!("  runs: {target}\n"));
        json["target"] = target.into();
    }
    text.push_str(&format!("  from: {}\n", session.shown_origin(&server.origin)));
    if let Some(cause) = view.status.cause() {
        text.push_str(&format!("  cause: {}\n", printable(&cause.to_string())));
        text.push_str(&connected::evidence(cause));
        let fix = remedy(session, server, cause);
        text.push_str(&format!("  {}: {}\n", paint(Meaning::Strong, "fix"), printable(&fix)));
        json["cause"]["fix"] = fix.into();
    }
    if let Some(introduction) = &view.introduction {
        text.push_str(&format!(
            "  speaks: {} era, version {}\n",
            introduction.era,
            printable(&introduction.version)
        ));
    }
    match view.detour {
        Some(Detour::StartedAgain) => text.push_str(
            "  note: it ended when asked about its era and was started again; that is remembered\n",
        ),
        Some(Detour::OlderTransport) => text.push_str(
            "  note: it refused streamable HTTP and speaks the older transport; `\"type\": \"sse\"` saves a step\n",
        ),
        None => {}
    }
    for note in view.catalogue.notes() {
        text.push_str(&format!("  note: {}\n", printable(&note.to_string())));
    }
    text.push_str(&indented(&report::problems(&session.machine, server.problems.iter())));
    Finding { text, json, exit }
}

/// What mends it here. A program that ended may lack a variable that we did not hand down.
fn remedy(session: &Session, server: &Server, cause: &Cause) -> String {
    let usual = cause.remedy(&server.name);
    let Some(Transport::Stdio(stdio)) = server.entry.as_ref().map(|entry| &entry.transport) else {
        return usual;
    };
    let said: String = cause.evidence.iter().map(|it| it.text()).collect();
    let withheld = session.machine.variables.keys().find(|name| {
        inheritance::is_credential(name)
            && said.contains(name.as_str())
            && !stdio.env.iter().any(|(given, _)| given == *name)
    });
    match (&cause.kind, withheld) {
        (CauseKind::Exited { .. } | CauseKind::Closed, Some(name)) => format!(
            "it asks for {name}, which is yours and not handed down: put `\"{name}\": \"${{{name}}}\"` into its `env`"
        ),
        (_, Some(_) | None) => usual,
    }
}

fn heading(name: &str, meaning: Meaning, state: &str) -> String {
    format!("{}  {}\n", paint(Meaning::Strong, printable(name)), paint(meaning, state))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
