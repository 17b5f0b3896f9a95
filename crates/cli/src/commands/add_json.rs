//! `swb add-json`: adds a server from its JSON entry.

use std::io::Read;

use clap::Args;
use serde_json::{Map, Value as Json};
use switchboard::config::document::{Document, LineIndex};
use switchboard::config::problem::{ProblemKind, ProblemSubject, Reporter};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;

use crate::commands::add::{self, AddOptions};
use crate::edit::servers;
use crate::edit::servers::NewServer;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;

/// Arguments of `swb add-json`.
#[derive(Debug, Args)]
pub struct AddJsonArgs {
    /// The server's name: letters, digits, - and _
    pub name: String,
    /// The entry, for example {"command":"npx","args":["-y","x"]}; - reads standard input
    #[arg(value_name = "JSON")]
    pub entry: String,
    /// The scope to write to [default: local]
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// Replace a server of the same name in the same scope
    #[arg(long)]
    pub overwrite: bool,
}

/// The largest entry that is read.
const LARGEST_ENTRY: u64 = 1_000_000;

/// Runs the command.
pub fn run(arguments: &AddJsonArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    servers::check_name(&arguments.name)?;
    let text = if arguments.entry == "-" { read_stdin()? } else { arguments.entry.clone() };
    let entry = unwrap_entry(parse_entry(&text, invocation)?, &arguments.name)?;
    let options = AddOptions {
        scope: arguments.scope,
        overwrite: arguments.overwrite,
        ..AddOptions::default()
    };
    add::add_server(invocation, &options, NewServer { name: arguments.name.clone(), entry })
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().take(LARGEST_ENTRY).read_to_string(&mut text).map_err(|error| {
        Failure::new(Exit::Usage, "standard input could not be read").caused_by(error)
    })?;
    Ok(text)
}

fn parse_entry(text: &str, invocation: &Invocation) -> Result<Map<String, Json>, Failure> {
    let source = Source::program(Scope::Dynamic, "the JSON given");
    let lines = LineIndex::new(text);
    let mut reporter = Reporter::new(&source, &lines);
    let root = match Document::parse(text) {
        Ok(document) => document.root,
        Err(fault) => {
            reporter.report(
                fault.span(),
                ProblemSubject::default(),
                ProblemKind::Syntax(fault.clone()),
            );
            let detail = report::problems(&invocation.env, reporter.problems.iter());
            return Err(Failure::new(Exit::Usage, "the entry is not JSON").detail(detail));
        }
    };
    match root.map(|node| node.to_json()) {
        Some(Json::Object(entry)) => Ok(entry),
        Some(_) | None => Err(Failure::new(Exit::Usage, "the entry is not a JSON object")
            .hint(r#"for example: swb add-json files '{"command": "npx", "args": ["-y", "x"]}'"#)),
    }
}

/// Accepts a whole `mcpServers` file, as READMEs show it, if it holds one server or one of that name.
fn unwrap_entry(entry: Map<String, Json>, name: &str) -> Result<Map<String, Json>, Failure> {
    let Some(servers) = entry.get("mcpServers").and_then(Json::as_object) else {
        return Ok(entry);
    };
    let chosen = match servers.get(name) {
        Some(server) => Some(server),
        None if servers.len() == 1 => servers.values().next(),
        None => None,
    };
    match chosen.and_then(Json::as_object) {
        Some(server) => Ok(server.clone()),
        None => Err(Failure::new(
            Exit::Usage,
            &format!("the JSON holds {} servers, none of them named `{name}`", servers.len()),
        )),
    }
}
