//! `swb config`: explains and checks the configuration.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::problem::{Problem, Severity};
use switchboard::config::scope::Scope;
use switchboard::sources::loader::{Configuration, SourceContent};
use switchboard::sources::secrets;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::report;
use crate::output::server_json;
use crate::output::server_text;
use crate::output::style::paint;
use crate::output::table;
use crate::output::table::{Cell, Truncate};
use switchboard::config::display::pluralize;

/// Arguments of `swb config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The action.
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// Actions on the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Show every file that was read and, for a server, each definition and which one is used
    Explain {
        /// The server's name
        name: Option<String>,
    },
    /// Check every file and entry; fails if there is an error
    Check {
        /// Also fetch every secret that your own entries refer to, without printing it
        #[arg(long)]
        secrets: bool,
    },
}

/// Runs the command.
pub fn run(arguments: &ConfigArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match &arguments.action {
        ConfigAction::Explain { name } => explain(name.as_deref(), invocation),
        ConfigAction::Check { secrets } => {
            check(if *secrets { SecretCheck::Fetch } else { SecretCheck::Skip }, invocation)
        }
    }
}

fn explain(name: Option<&str>, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_with_problems()?;
    let definitions = match name {
        Some(name) => invocation.definitions(&configuration, name)?,
        None => Vec::new(),
    };
    if invocation.wants_json() {
        let looked_at: Vec<Json> =
            configuration.sources.iter().map(server_json::looked_at_json).collect();
        let definitions: Vec<Json> = definitions
            .iter()
            .map(|it| server_json::server_json(&invocation.env, it, None))
            .collect();
        let json = json!({
            "projectRoot": configuration.project_root.to_string_lossy(),
            "lookedAt": looked_at,
            "name": name,
            "definitions": definitions,
        });
        return Ok(json_output(&json));
    }
    let mut text = searched_places(&configuration, invocation);
    if let Some(name) = name {
        text.push_str(&format!(
            "\n`{}` is defined {}, highest scope first:\n",
            printable(name),
            pluralize(definitions.len(), "time", "times")
        ));
        let mut ranked = definitions;
        ranked.sort_by_key(|server| server.scope());
        for server in ranked {
            text.push_str(&definition_text(server, invocation));
        }
    }
    let problems = configuration.effective.problems.iter();
    Ok(CommandOutput::text(text).note(report::problems(&invocation.env, problems)))
}

fn searched_places(configuration: &Configuration, invocation: &Invocation) -> String {
    let mut rows = Vec::new();
    for scope in Scope::ALL {
        for it in configuration.sources.iter().filter(|it| it.source.scope == scope) {
            let place = Cell::plain(invocation.display_source(&it.source));
            let found = Cell::plain(server_text::found_text(&it.content));
            rows.push(vec![Cell::plain(scope.id()), place, found]);
        }
    }
    let header = ["SCOPE", "LOOKED AT", "FOUND"];
    table::render(&header, &rows, invocation.env.terminal.width, &[Truncate::Start(1)])
}

fn definition_text(server: &ResolvedServer, invocation: &Invocation) -> String {
    let state =
        paint(server_text::state_style(&server.state), server_text::state_text(&server.state));
    let place = invocation.display_origin(&server.origin);
    let target = server_text::target(server).unwrap_or_default();
    let mut text = format!("  {:<11} {place}: {state}\n", server.scope().id());
    if !target.is_empty() {
        text.push_str(&format!("              {target}\n"));
    }
    if let Some(reason) = server_text::state_reason(&invocation.env, server) {
        text.push_str(&format!("              {reason}\n"));
    }
    text
}

/// Whether `check` fetches secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretCheck {
    Fetch,
    Skip,
}

fn check(secrets: SecretCheck, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_with_problems()?;
    let of_servers = configuration.effective.servers.iter().flat_map(|server| &server.problems);
    let problems: Vec<&Problem> =
        configuration.effective.problems.iter().chain(of_servers).collect();
    let errors = problems.iter().filter(|it| it.severity() == Severity::Error).count();
    let warnings = problems.len() - errors;
    let fetched = match secrets {
        SecretCheck::Fetch => check_secrets(&configuration, invocation),
        SecretCheck::Skip => Vec::new(),
    };
    let failed = fetched.iter().filter(|it| it.failure.is_some()).count();
    let exit = (errors + failed > 0).then_some(Exit::Configuration);
    if invocation.wants_json() {
        let secrets: Vec<Json> = fetched.iter().map(CheckedSecret::to_json).collect();
        let problems: Vec<Json> = problems.into_iter().map(server_json::problem_json).collect();
        let json = json!({"problems": problems, "secrets": secrets});
        return Ok(CommandOutput { exit, ..json_output(&json) });
    }
    let files =
        configuration.sources.iter().filter(|it| it.content != SourceContent::Nothing).count();
    let mut text = format!(
        "{} in {}: {}, {}\n",
        pluralize(configuration.effective.servers.len(), "server", "servers"),
        pluralize(files, "place", "places"),
        pluralize(errors, "error", "errors"),
        pluralize(warnings, "warning", "warnings"),
    );
    text.extend(fetched.iter().map(CheckedSecret::to_text));
    let notes = report::problems(&invocation.env, problems.into_iter());
    Ok(CommandOutput { exit, ..CommandOutput::text(text).note(notes) })
}

/// A secret reference and the result of fetching it.
struct CheckedSecret {
    server: String,
    reference: String,
    failure: Option<String>,
}

impl CheckedSecret {
    fn to_text(&self) -> String {
        let (server, reference) = (printable(&self.server), printable(&self.reference));
        match &self.failure {
            None => format!("`{server}`: {reference} is available\n"),
            Some(failure) => format!("`{server}`: {reference} is not available: {failure}\n"),
        }
    }

    fn to_json(&self) -> Json {
        json!({"server": self.server, "reference": self.reference, "failure": self.failure})
    }
}

/// Fetches the secrets of servers that may start.
fn check_secrets(configuration: &Configuration, invocation: &Invocation) -> Vec<CheckedSecret> {
    let mut fetched = Vec::new();
    for server in configuration.effective.servers.iter().filter(|it| it.is_ready()) {
        for reference in server.spec.iter().flat_map(|spec| spec.secret_references()) {
            let failure =
                secrets::fetch_secret(&reference, &invocation.env.home).err().map(|error| {
                    let mut words = error.kind.to_string();
                    if let Some(source) = std::error::Error::source(&error.kind) {
                        words.push_str(&format!(": {source}"));
                    }
                    printable(&words)
                });
            let reference = reference.masked();
            fetched.push(CheckedSecret { server: server.name.clone(), reference, failure });
        }
    }
    fetched
}
