//! What is wrong with servers, the evidence, and how to fix it: `swb doctor` and the screen's `/doctor`.

use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::entry::server::TransportConfig;
use switchboard::config::merge::ResolvedServer;
use switchboard::connection::ServerView;
use switchboard::failure::{ConnectionFailure, FailureKind};
use switchboard::host::Snapshot;
use switchboard::sources::child_env;
use switchboard::sources::loader::Configuration;
use switchboard::wire::connect::Fallback;

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::outcome::CommandOutput;
use crate::output::connection_text;
use crate::output::json::json_output;
use crate::output::report;
use crate::output::server_text;
use crate::output::style::{TextStyle, paint};
use switchboard::config::display::pluralize;

/// The diagnosis of several servers.
#[derive(Debug)]
pub struct Diagnosis {
    findings: Vec<Finding>,
}

impl Diagnosis {
    /// Examines servers from the state of their connections.
    pub fn new(env: &ProcessEnv, servers: &[&ResolvedServer], snapshot: &Snapshot) -> Diagnosis {
        let findings = servers.iter().map(|server| examine(env, server, snapshot)).collect();
        Diagnosis { findings }
    }

    /// As text. Problems of the whole configuration follow as notes.
    pub fn to_text(&self, env: &ProcessEnv, configuration: &Configuration) -> CommandOutput {
        let mut text: String = self.findings.iter().map(|it| it.text.as_str()).collect();
        let all = pluralize(self.findings.len(), "server", "servers");
        text.push_str(&match (self.findings.is_empty(), self.failing()) {
            (true, _) => {
                "No MCP servers to examine: `swb list` shows which files were read.\n".to_owned()
            }
            (false, 0) => format!("\n{all}, no problems.\n"),
            (false, failing) => format!("\n{all}, {failing} with problems.\n"),
        });
        let problems = configuration.effective.problems.iter();
        let done = CommandOutput::text(text).note(report::problems(env, problems));
        CommandOutput { exit: self.exit(), ..done }
    }

    /// As JSON.
    pub fn to_json(&self) -> CommandOutput {
        let servers: Vec<&Json> = self.findings.iter().map(|it| &it.json).collect();
        let done = json_output(&json!({"servers": servers, "sick": self.failing()}));
        CommandOutput { exit: self.exit(), ..done }
    }

    fn failing(&self) -> usize {
        self.findings.iter().filter(|it| it.exit != Exit::Success).count()
    }

    fn exit(&self) -> Option<Exit> {
        self.findings.iter().map(|it| it.exit).find(|it| *it != Exit::Success)
    }
}

/// The finding about one server.
#[derive(Debug)]
struct Finding {
    text: String,
    json: Json,
    exit: Exit,
}

fn examine(env: &ProcessEnv, server: &ResolvedServer, snapshot: &Snapshot) -> Finding {
    match snapshot.servers.get(&server.name) {
        Some(view) => examine_connection(env, server, view),
        None => {
            let reason = server_text::state_reason(env, server);
            let state = server_text::state_text(&server.state);
            let mut text = heading(&server.name, server_text::state_style(&server.state), &state);
            if let Some(reason) = &reason {
                text.push_str(&format!("  {reason}\n"));
            }
            text.push_str(&indented(&report::problems(env, server.problems.iter())));
            Finding {
                text,
                json: connection_text::not_started_json(env, server),
                exit: Exit::Success,
            }
        }
    }
}

fn examine_connection(env: &ProcessEnv, server: &ResolvedServer, view: &ServerView) -> Finding {
    let exit = connection_text::exit_code(&view.status);
    let mut text = heading(
        &view.name,
        connection_text::status_style(&view.status),
        &connection_text::status_text(&view.status),
    );
    let mut json = connection_text::view_json(view);
    if let Some(entry) = &server.entry {
        let target = server_text::target(entry);
        text.push_str(&format!("  runs: {target}\n"));
        json["target"] = target.into();
    }
    text.push_str(&format!("  from: {}\n", env.display_origin(&server.origin)));
    if let Some(cause) = view.status.cause() {
        text.push_str(&format!("  cause: {}\n", printable(&cause.to_string())));
        text.push_str(&connection_text::evidence_text(cause));
        let fix = remedy(env, server, cause);
        text.push_str(&format!("  {}: {}\n", paint(TextStyle::Bold, "fix"), printable(&fix)));
        json["cause"]["fix"] = fix.into();
    }
    if let Some(server_info) = &view.server_info {
        let version = printable(&server_info.protocol_version);
        text.push_str(&format!("  protocol version: {version}\n"));
    }
    match view.fallback {
        Some(Fallback::Restarted) => text.push_str(
            "  note: it exited during version negotiation and was restarted; this is remembered\n",
        ),
        Some(Fallback::HttpSse2024) => text.push_str(
            "  note: it refused streamable HTTP and uses HTTP+SSE; `\"type\": \"sse\"` skips the first attempt\n",
        ),
        None => {}
    }
    for note in view.catalogue.issues() {
        text.push_str(&format!("  note: {}\n", printable(&note.to_string())));
    }
    text.push_str(&indented(&report::problems(env, server.problems.iter())));
    Finding { text, json, exit }
}

/// The remedy. A server that exited may lack a variable that was withheld from it.
fn remedy(env: &ProcessEnv, server: &ResolvedServer, cause: &ConnectionFailure) -> String {
    let default = cause.remedy(&server.name);
    let Some(TransportConfig::Stdio(stdio)) = server.entry.as_ref().map(|entry| &entry.transport)
    else {
        return default;
    };
    let evidence: String = cause.evidence.iter().map(|it| it.text()).collect();
    let withheld = env.variables.keys().find(|name| {
        child_env::is_credential(name)
            && evidence.contains(name.as_str())
            && !stdio.env.iter().any(|(key, _)| key == *name)
    });
    match (&cause.kind, withheld) {
        (FailureKind::Exited { .. } | FailureKind::Closed, Some(name)) => format!(
            "it needs {name}, which is not passed to servers: add `\"{name}\": \"${{{name}}}\"` to its `env`"
        ),
        (_, Some(_) | None) => default,
    }
}

fn heading(name: &str, style: TextStyle, state: &str) -> String {
    format!("{}  {}\n", paint(TextStyle::Bold, printable(name)), paint(style, state))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
