//! What is wrong with servers, the evidence, and how to fix it: `swb doctor` and the screen's `/doctor`.

use serde_json::{Value as Json, json};
use switchboard::catalogue::{ListIssue, ListIssueKind, ListKind};
use switchboard::channel::ChannelPolicy;
use switchboard::config::display::printable;
use switchboard::config::entry::server::TransportConfig;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::problem::{Problem, Severity};
use switchboard::connection::ServerView;
use switchboard::pool::Pool;
use switchboard::sources::child_env;
use switchboard::sources::loader::Configuration;
use switchboard::wire::connect::Fallback;
use switchboard::{ConnectionFailure, FailureKind, Snapshot};

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::outcome::CommandOutput;
use crate::output::channel_text;
use crate::output::connection_text;
use crate::output::json::json_output;
use crate::output::report;
use crate::output::server_json;
use crate::output::server_text;
use crate::output::style::{TextStyle, paint};
use switchboard::config::display::pluralize;

/// How many quarantined tools of a server are named.
const MAX_QUARANTINED: usize = 10;

/// The result of an examination, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// Nothing is wrong.
    Well,
    /// It works, but not all of it, or it waits for a decision of the user.
    Attention,
    /// It does not work.
    Trouble,
}

impl Verdict {
    fn id(self) -> &'static str {
        match self {
            Verdict::Well => "well",
            Verdict::Attention => "attention",
            Verdict::Trouble => "trouble",
        }
    }

    fn of_problem(problem: &Problem) -> Verdict {
        match problem.severity() {
            Severity::Error => Verdict::Trouble,
            Severity::Warning => Verdict::Attention,
        }
    }
}

/// What is examined: the state of the connections, and the tools that were made of them.
#[derive(Debug, Clone, Copy)]
pub struct HostState<'a> {
    /// The connections.
    pub snapshot: &'a Snapshot,
    /// The tools.
    pub pool: &'a Pool,
}

/// The diagnosis of several servers and of the configuration.
#[derive(Debug)]
pub struct Diagnosis<'a> {
    findings: Vec<Finding>,
    /// Problems of the configuration that belong to no server.
    problems: &'a [Problem],
}

impl<'a> Diagnosis<'a> {
    /// Examines servers from the state of their connections.
    pub fn new(
        env: &ProcessEnv,
        servers: &[&ResolvedServer],
        examined: HostState<'_>,
        configuration: &'a Configuration,
    ) -> Diagnosis<'a> {
        let policy = &configuration.channels;
        let findings =
            servers.iter().map(|server| examine(env, server, examined, policy)).collect();
        Diagnosis { findings, problems: &configuration.effective.problems }
    }

    /// As text. Problems of the whole configuration follow as notes.
    pub fn to_text(&self, env: &ProcessEnv) -> CommandOutput {
        let mut text: String = self.findings.iter().map(|it| it.text.as_str()).collect();
        text.push_str(&self.summary());
        let problems = self.problems.iter();
        let done = CommandOutput::text(text).note(report::problems(env, problems));
        CommandOutput { exit: self.exit(), ..done }
    }

    /// As JSON.
    pub fn to_json(&self) -> CommandOutput {
        let servers: Vec<&Json> = self.findings.iter().map(|it| &it.json).collect();
        let problems: Vec<Json> = self.problems.iter().map(server_json::problem_json).collect();
        let counts = json!({
            "well": self.count(Verdict::Well),
            "attention": self.count(Verdict::Attention),
            "trouble": self.count(Verdict::Trouble),
        });
        let done = json_output(&json!({
            "verdict": self.verdict().id(), "counts": counts, "servers": servers,
            "problems": problems,
        }));
        CommandOutput { exit: self.exit(), ..done }
    }

    fn summary(&self) -> String {
        let all = pluralize(self.findings.len(), "server", "servers");
        let mut parts = Vec::new();
        if let count @ 1.. = self.count(Verdict::Trouble) {
            parts.push(format!("{count} in trouble"));
        }
        if let count @ 1.. = self.count(Verdict::Attention) {
            parts.push(pluralize(count, "needs attention", "need attention"));
        }
        if !self.problems.is_empty() {
            let problems = pluralize(self.problems.len(), "problem", "problems");
            parts.push(format!("{problems} in the configuration"));
        }
        match (self.findings.is_empty(), parts.is_empty()) {
            (true, _) => {
                "No MCP servers to examine: `swb list` shows which files were read.\n".to_owned()
            }
            (false, true) => format!("\n{all}, no problems.\n"),
            (false, false) => format!("\n{all}: {}.\n", parts.join(", ")),
        }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|it| it.verdict() == verdict).count()
    }

    /// The worst verdict.
    fn verdict(&self) -> Verdict {
        let servers = self.findings.iter().map(Finding::verdict);
        let problems = self.problems.iter().map(Verdict::of_problem);
        servers.chain(problems).max().unwrap_or(Verdict::Well)
    }

    /// Trouble exits as the first server in trouble does, otherwise as an invalid configuration does.
    fn exit(&self) -> Option<Exit> {
        match self.verdict() {
            Verdict::Well => None,
            Verdict::Attention => Some(Exit::Failure),
            Verdict::Trouble => {
                Some(self.findings.iter().find_map(|it| it.trouble).unwrap_or(Exit::Configuration))
            }
        }
    }
}

/// The finding about one server.
#[derive(Debug)]
struct Finding {
    text: String,
    json: Json,
    /// The exit code of its trouble.
    trouble: Option<Exit>,
    /// What the user should look at.
    attention: Vec<String>,
}

impl Finding {
    fn verdict(&self) -> Verdict {
        match (self.trouble, self.attention.is_empty()) {
            (Some(_), _) => Verdict::Trouble,
            (None, false) => Verdict::Attention,
            (None, true) => Verdict::Well,
        }
    }

    /// Adds the verdict to the JSON.
    fn complete(mut self) -> Finding {
        self.json["verdict"] = self.verdict().id().into();
        self.json["attention"] = self.attention.clone().into();
        self
    }
}

fn examine(
    env: &ProcessEnv,
    server: &ResolvedServer,
    examined: HostState<'_>,
    policy: &ChannelPolicy,
) -> Finding {
    match examined.snapshot.servers.get(&server.name) {
        Some(view) => examine_connection(env, server, view, (examined.pool, policy)),
        None => {
            let reason = server_text::state_reason(env, server);
            let state = server_text::state_text(&server.state);
            let mut text = heading(&server.name, server_text::state_style(&server.state), &state);
            if let Some(reason) = &reason {
                text.push_str(&format!("  {reason}\n"));
            }
            text.push_str(&indented(&report::problems(env, server.problems.iter())));
            let (trouble, attention) = match &server.state {
                ServerState::Pending(_) | ServerState::Refused(_) | ServerState::NeedsConfig(_) => {
                    (None, reason.or(Some(state)).into_iter().collect())
                }
                ServerState::Invalid => (Some(Exit::Configuration), Vec::new()),
                ServerState::Ready
                | ServerState::Rejected
                | ServerState::Disabled(_)
                | ServerState::Shadowed { .. }
                | ServerState::Duplicate { .. }
                | ServerState::Excluded(_) => (None, entry_warnings(server)),
            };
            let json = server_json::server_json(env, server, None);
            Finding { text, json, trouble, attention }.complete()
        }
    }
}

/// The problems of an entry that can still be used.
fn entry_warnings(server: &ResolvedServer) -> Vec<String> {
    server.problems.iter().map(|it| printable(&it.kind.to_string())).collect()
}

fn examine_connection(
    env: &ProcessEnv,
    server: &ResolvedServer,
    view: &ServerView,
    (pool, policy): (&Pool, &ChannelPolicy),
) -> Finding {
    let status_exit = connection_text::exit_code(&view.status);
    let mut trouble = Some(status_exit).filter(|it| *it != Exit::Success);
    let mut text =
        heading(&view.name, connection_text::status_style(&view.status), &view.status.label());
    let mut json = server_json::server_json(env, server, Some(view));
    if let Some(target) = server_text::target(server) {
        text.push_str(&format!("  runs: {target}\n"));
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
    for line in channel_text::diagnosis_lines(&env.paths, server, view, policy) {
        text.push_str(&format!("  channel: {line}\n"));
    }
    let mut attention = Vec::new();
    for issue in view.catalogue.issues() {
        let line = printable(&issue.to_string());
        match has_no_tools(issue) {
            true => {
                text.push_str(&format!("  trouble: {line}\n"));
                trouble = trouble.or(Some(Exit::Connection));
            }
            false => attention.push(line),
        }
    }
    attention.extend(view.malformed_note().map(|it| printable(&it)));
    attention.extend(quarantined_tools(&server.name, pool));
    for line in &attention {
        text.push_str(&format!("  {}: {line}\n", paint(TextStyle::Warning, "attention")));
    }
    attention.extend(entry_warnings(server));
    text.push_str(&indented(&report::problems(env, server.problems.iter())));
    Finding { text, json, trouble, attention }.complete()
}

/// Whether the server is connected, but none of its tools can be used.
fn has_no_tools(issue: &ListIssue) -> bool {
    match (&issue.kind, issue.list) {
        (ListIssueKind::Failed(_), ListKind::Tools) => true,
        (
            ListIssueKind::Failed(_),
            ListKind::Resources | ListKind::ResourceTemplates | ListKind::Prompts,
        )
        | (
            ListIssueKind::CursorLoop
            | ListIssueKind::Unbounded
            | ListIssueKind::Skipped(_)
            | ListIssueKind::InvalidParamHeaders { .. },
            _,
        ) => false,
    }
}

/// The tools of a server that are hidden from models, up to a limit.
fn quarantined_tools(server: &str, pool: &Pool) -> Vec<String> {
    let all = || pool.quarantined().iter().filter(|it| it.server == server);
    let line = |tool: &str, reason: &dyn std::fmt::Display| {
        format!("the tool `{}` is left out: {}", printable(tool), printable(&reason.to_string()))
    };
    let mut lines: Vec<String> =
        all().take(MAX_QUARANTINED).map(|it| line(&it.tool, &it.reason)).collect();
    if let more @ 1.. = all().count().saturating_sub(MAX_QUARANTINED) {
        lines.push(format!("{more} more tools are left out: `swb tools {server}`"));
    }
    lines
}

/// The remedy. A server that exited may lack a variable that was withheld from it.
fn remedy(env: &ProcessEnv, server: &ResolvedServer, cause: &ConnectionFailure) -> String {
    let default = cause.remedy(&server.name);
    let Some(TransportConfig::Stdio(stdio)) = server.entry.as_ref().map(|entry| &entry.transport)
    else {
        return default;
    };
    let evidence: String = cause.evidence.iter().map(|it| it.text()).collect();
    let withheld = env.variables.iter().find(|(name, value)| {
        child_env::is_credential(name, value)
            && evidence.contains(name.as_str())
            && !stdio.env.iter().any(|(key, _)| key == *name)
    });
    let withheld = withheld.map(|(name, _)| name);
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
