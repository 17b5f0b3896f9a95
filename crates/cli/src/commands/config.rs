//! `swb config`: explains where a server comes from, and checks everything that is configured.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::cascade::Server;
use switchboard::config::problem::{Problem, Severity};
use switchboard::config::scope::Scope;
use switchboard::config::shown::printable;
use switchboard::load::{Configuration, Found};
use switchboard::reveal;

use crate::describe::{self, counted};
use crate::exit::Exit;
use crate::outcome::{Done, Failure};
use crate::report;
use crate::session::Session;
use crate::style::paint;
use crate::table::{self, Cell, Yielding};

/// Arguments of `swb config`.
#[derive(Debug, Args)]
pub struct ConfigCommand {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do with the configuration as a whole.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Show every place that was looked at and, for a server, who defines it, who wins and why
    Explain {
        /// The server's name
        name: Option<String>,
    },
    /// Check every file and entry; fails where something is wrong
    Check {
        /// Also fetch every secret that your own entries name, without showing any
        #[arg(long)]
        secrets: bool,
    },
}

/// Runs the command.
pub fn run(arguments: &ConfigCommand, session: &Session) -> Result<Done, Failure> {
    match &arguments.what {
        What::Explain { name } => explain(name.as_deref(), session),
        What::Check { secrets } => {
            check(if *secrets { Secrets::Fetch } else { Secrets::Leave }, session)
        }
    }
}

fn explain(name: Option<&str>, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let definitions = match name {
        Some(name) => session.definitions(&configuration, name)?,
        None => Vec::new(),
    };
    if session.wants_json() {
        let looked_at: Vec<Json> =
            configuration.looked_at.iter().map(describe::looked_at_json).collect();
        let definitions: Vec<Json> =
            definitions.iter().map(|it| describe::server_json(session, it)).collect();
        let json = json!({
            "projectRoot": configuration.project_root.to_string_lossy(),
            "lookedAt": looked_at,
            "name": name,
            "definitions": definitions,
        });
        return Ok(super::json(&json));
    }
    let mut text = places(&configuration, session);
    if let Some(name) = name {
        text.push_str(&format!(
            "\n`{}` is defined {}, highest scope first:\n",
            printable(name),
            counted(definitions.len(), "time", "times")
        ));
        let mut ranked = definitions;
        ranked.sort_by_key(|server| server.scope());
        for server in ranked {
            text.push_str(&definition(server, session));
        }
    }
    let problems = configuration.effective.problems.iter();
    Ok(Done::text(text).note(report::problems(&session.machine, problems)))
}

fn places(configuration: &Configuration, session: &Session) -> String {
    let mut rows = Vec::new();
    for scope in Scope::ALL {
        for it in configuration.looked_at.iter().filter(|it| it.source.scope == scope) {
            let place = Cell::plain(session.shown_source(&it.source));
            let found = Cell::plain(describe::found_text(&it.found));
            rows.push(vec![Cell::plain(scope.id()), place, found]);
        }
    }
    let header = ["SCOPE", "LOOKED AT", "FOUND"];
    table::render(&header, &rows, session.machine.terminal.width, &[Yielding::Front(1)])
}

fn definition(server: &Server, session: &Session) -> String {
    let state = paint(describe::state_meaning(&server.state), describe::state_text(&server.state));
    let place = session.shown_origin(&server.origin);
    let target = server.entry.as_ref().map(describe::target).unwrap_or_default();
    let mut text = format!("  {:<11} {place}: {state}\n", server.scope().id());
    if !target.is_empty() {
        text.push_str(&format!("              {target}\n"));
    }
    if let Some(reason) = describe::state_reason(session, server) {
        text.push_str(&format!("              {reason}\n"));
    }
    text
}

/// What `check` does about named secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Fetch,
    Leave,
}

fn check(secrets: Secrets, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let of_servers = configuration.effective.servers.iter().flat_map(|server| &server.problems);
    let problems: Vec<&Problem> =
        configuration.effective.problems.iter().chain(of_servers).collect();
    let errors = problems.iter().filter(|it| it.severity() == Severity::Error).count();
    let warnings = problems.len() - errors;
    let fetched = match secrets {
        Secrets::Fetch => fetch_all(&configuration, session),
        Secrets::Leave => Vec::new(),
    };
    let failed = fetched.iter().filter(|it| it.failure.is_some()).count();
    let exit = (errors + failed > 0).then_some(Exit::Configuration);
    if session.wants_json() {
        let secrets: Vec<Json> = fetched.iter().map(Fetched::to_json).collect();
        let problems: Vec<Json> = problems.into_iter().map(describe::problem_json).collect();
        let json = json!({"problems": problems, "secrets": secrets});
        return Ok(Done { exit, ..super::json(&json) });
    }
    let files = configuration.looked_at.iter().filter(|it| it.found != Found::Nothing).count();
    let mut text = format!(
        "{} in {}: {}, {}\n",
        counted(configuration.effective.servers.len(), "server", "servers"),
        counted(files, "place", "places"),
        counted(errors, "error", "errors"),
        counted(warnings, "warning", "warnings"),
    );
    text.extend(fetched.iter().map(Fetched::to_text));
    let notes = report::problems(&session.machine, problems.into_iter());
    Ok(Done { exit, ..Done::text(text).note(notes) })
}

/// A named secret and how fetching it went.
struct Fetched {
    server: String,
    reference: String,
    failure: Option<String>,
}

impl Fetched {
    fn to_text(&self) -> String {
        let (server, reference) = (printable(&self.server), printable(&self.reference));
        match &self.failure {
            None => format!("`{server}`: {reference} is there\n"),
            Some(failure) => format!("`{server}`: {reference} is not: {failure}\n"),
        }
    }

    fn to_json(&self) -> Json {
        json!({"server": self.server, "reference": self.reference, "failure": self.failure})
    }
}

/// Fetches the secrets of servers that may run; whoever may not run gets nothing either.
fn fetch_all(configuration: &Configuration, session: &Session) -> Vec<Fetched> {
    let mut fetched = Vec::new();
    for server in configuration.effective.servers.iter().filter(|it| it.is_ready()) {
        for reference in server.spec.iter().flat_map(|spec| spec.secrets()) {
            let failure = reveal::fetch(&reference, &session.machine.home).err().map(|error| {
                let mut words = error.kind.to_string();
                if let Some(source) = std::error::Error::source(&error.kind) {
                    words.push_str(&format!(": {source}"));
                }
                printable(&words)
            });
            let reference = reference.shown();
            fetched.push(Fetched { server: server.name.clone(), reference, failure });
        }
    }
    fetched
}
