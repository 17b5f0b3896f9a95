//! `swb list`: lists configured servers with their origin and state. Connects to no server.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::problem::Problem;
use switchboard::config::scope::Scope;
use switchboard::config::source::SourceKind;
use switchboard::sources::loader::Configuration;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::demo_server;
use crate::invocation::lookup;
use crate::outcome::{CommandOutput, Failure};
use crate::output::account_text;
use crate::output::channel_text;
use crate::output::json::json_output;
use crate::output::report;
use crate::output::server_json;
use crate::output::server_text;
use crate::output::table;
use crate::output::table::{Cell, Truncate};
use switchboard::config::display::pluralize;

/// Arguments of `swb list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Also list shadowed, duplicate and excluded definitions, and why
    #[arg(long, short)]
    pub all: bool,
    /// Only servers of this scope: enterprise, dynamic, connectors, project, local, user, plugin
    #[arg(long, short, value_parser = parse_scope)]
    pub scope: Option<Scope>,
    /// Fail unless this server is ready to start; may be repeated
    #[arg(long, value_name = "NAME")]
    pub require: Vec<String>,
}

fn parse_scope(text: &str) -> Result<Scope, String> {
    Scope::parse(text).ok_or_else(|| {
        let words: Vec<&str> = Scope::ALL.iter().map(|scope| scope.id()).collect();
        format!("the scopes are {}", words.join(", "))
    })
}

/// Runs the command.
pub fn run(arguments: &ListArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_with_problems()?;
    let servers: Vec<&ResolvedServer> = configuration
        .effective
        .servers
        .iter()
        .filter(|server| arguments.all || server.is_selected())
        .filter(|server| arguments.scope.is_none_or(|scope| server.scope() == scope))
        .collect();
    require(&arguments.require, &configuration, invocation)?;
    if invocation.wants_json() {
        return Ok(json_output(&as_json(&servers, &configuration, invocation)));
    }
    Ok(as_text(&servers, &configuration, invocation))
}

fn require(
    names: &[String],
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<(), Failure> {
    for name in names {
        let rejected = configuration.effective.servers.iter().find(|it| it.name == *name);
        let Some(winner) = configuration.effective.winner(name).or(rejected) else {
            let failure = invocation.not_found(configuration, name);
            let message = format!("the required server `{name}` is not configured");
            return Err(Failure { exit: Exit::NotReady, message: printable(&message), ..failure });
        };
        if !matches!(winner.state, ServerState::Ready) {
            let state = server_text::state_text(&winner.state);
            let message = format!("the required server `{name}` is not ready: {state}");
            let failure = Failure::new(Exit::NotReady, &message);
            return Err(match server_text::state_reason(&invocation.env, winner) {
                Some(reason) => failure.hint(&reason),
                None => failure,
            });
        }
    }
    Ok(())
}

/// The table, with problems and hints as notes.
pub fn as_text(
    servers: &[&ResolvedServer],
    configuration: &Configuration,
    invocation: &Invocation,
) -> CommandOutput {
    let problems = servers.iter().flat_map(|server| &server.problems);
    let problems = configuration.effective.problems.iter().chain(problems);
    let notes = report::problems(&invocation.env, problems);
    if servers.is_empty() {
        return CommandOutput::text(nothing_text(configuration, invocation))
            .note(notes)
            .note(account_text::note(invocation.known_account()));
    }
    let row = |server: &&ResolvedServer| {
        let entry = server.entry.as_ref();
        vec![
            Cell::plain(printable(&server.name)),
            Cell::plain(server.scope().id()),
            Cell::plain(entry.map_or("-", |entry| entry.transport.kind().id())),
            Cell::plain(server_text::target(server).unwrap_or_else(|| "-".to_owned())),
            Cell::styled(
                server_text::state_style(&server.state),
                server_text::state_text(&server.state),
            ),
            Cell::plain(invocation.display_origin(&server.origin)),
        ]
    };
    let rows: Vec<Vec<Cell>> = servers.iter().map(row).collect();
    let header = ["NAME", "SCOPE", "TYPE", "TARGET", "STATE", "FROM"];
    let table = table::render(
        &header,
        &rows,
        invocation.env.terminal.width,
        &[Truncate::End(3), Truncate::Start(5), Truncate::End(0)],
    );
    let advice = advice(servers, configuration, invocation);
    let channels = channels_text(servers, invocation);
    let table = match demo_server::only_server(configuration) {
        Some(_) => format!("{table}{}", demo_only_text(configuration, invocation)),
        None => table,
    };
    CommandOutput::text(table)
        .note(notes)
        .note(channels)
        .note(advice)
        .note(account_text::note_paragraph(invocation.known_account()))
}

/// The text for an empty list: every source that was inspected.
fn nothing_text(configuration: &Configuration, invocation: &Invocation) -> String {
    let hidden = configuration.effective.servers.len();
    let mut text = String::from("No MCP servers to list.\n");
    if let Some(source) = &configuration.effective.exclusive_source {
        let file = invocation.display_source(source);
        return format!("{text}{} ({file}).\n", lookup::ENTERPRISE_LOCK);
    }
    if hidden > 0 {
        text.push_str(&format!(
            "{hidden} configured, but left out or of another scope: swb list --all\n"
        ));
    }
    text.push_str(&searched_text(configuration, invocation));
    text
}

/// The text if there is only the demo server.
fn demo_only_text(configuration: &Configuration, invocation: &Invocation) -> String {
    format!(
        "\nNothing is configured yet: `{}` is a built-in demo server, used until you add a server.\n{}",
        demo_server::NAME,
        searched_text(configuration, invocation)
    )
}

/// Every inspected file, and how to add a server.
fn searched_text(configuration: &Configuration, invocation: &Invocation) -> String {
    let mut text = String::from("\nLooked in:\n");
    let is_ours = |kind: &SourceKind| matches!(kind, SourceKind::Program(_));
    for it in configuration.sources.iter().filter(|it| !is_ours(&it.source.kind)) {
        let place = invocation.display_source(&it.source);
        let found = server_text::found_text(&it.content);
        text.push_str(&format!("  {:<11} {place}: {found}\n", it.source.scope.id()));
    }
    text.push_str("\nAdd one:  swb add NAME -- COMMAND …   or   swb add NAME URL\n");
    text.push_str("Import from other programs:  swb import --dry-run\n");
    text
}

/// What became of the messages of channels in the conversation that ran last.
fn channels_text(servers: &[&ResolvedServer], invocation: &Invocation) -> String {
    let selected = servers.iter().filter(|it| it.is_selected());
    let line = |server: &&ResolvedServer| {
        let record = channel_text::record_text(&invocation.env.paths, &server.name)?;
        Some(format!("\nchannel `{}`, {record}\n", printable(&server.name)))
    };
    selected.filter_map(line).collect()
}

fn advice(
    servers: &[&ResolvedServer],
    configuration: &Configuration,
    invocation: &Invocation,
) -> String {
    let mut text = String::new();
    let names = |matches: fn(&ServerState) -> bool| -> Vec<String> {
        let it = servers.iter().filter(|server| matches(&server.state));
        it.map(|server| printable(&server.name)).collect()
    };
    let pending = names(|state| matches!(state, ServerState::Pending(_)));
    if !pending.is_empty() {
        text.push_str(&format!(
            "\n{} not approved, so not started: swb get {} shows what would run, swb approve {} allows it\n",
            pluralize(pending.len(), "server is", "servers are"),
            pending[0],
            pending[0],
        ));
    }
    let refused = names(|state| matches!(state, ServerState::Refused(_)));
    if !refused.is_empty() {
        text.push_str(&format!(
            "\n{} refused: swb policy why {}\n",
            pluralize(refused.len(), "server is", "servers are"),
            refused[0]
        ));
    }
    let unset = names(|state| matches!(state, ServerState::NeedsConfig(_)));
    if let Some(first) = unset.first() {
        let of_plugin = servers.iter().any(|it| it.name == *first && it.scope() == Scope::Plugin);
        let command = if of_plugin { "plugin" } else { "bundle" };
        text.push_str(&format!(
            "\n{} configuration: swb {command} configure {first}\n",
            pluralize(unset.len(), "server needs", "servers need"),
        ));
    }
    if let Some(source) = &configuration.effective.exclusive_source {
        let file = invocation.display_source(source);
        text.push_str(&format!("\n{} ({file})\n", lookup::ENTERPRISE_LOCK));
    }
    text
}

fn as_json(
    servers: &[&ResolvedServer],
    configuration: &Configuration,
    invocation: &Invocation,
) -> Json {
    let problems: &[Problem] = &configuration.effective.problems;
    let servers: Vec<Json> = servers
        .iter()
        .map(|server| server_json::server_json(&invocation.env, server, None))
        .collect();
    let json = json!({
        "servers": servers,
        "problems": problems.iter().map(server_json::problem_json).collect::<Vec<_>>(),
        "enterpriseControl": configuration.effective.exclusive_source.as_ref().map(|it| it.to_string()),
        "lookedAt": configuration.sources.iter().map(server_json::looked_at_json).collect::<Vec<_>>(),
    });
    account_text::add_to(invocation.known_account(), json)
}
