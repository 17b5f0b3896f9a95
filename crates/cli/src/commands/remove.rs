//! `swb remove`: removes a server from the file that defines it.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::edit::Edit;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::scope::Scope;

use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb remove`.
#[derive(Debug, Args)]
#[command(visible_alias = "rm")]
pub struct RemoveArgs {
    /// The server's name
    pub name: String,
    /// The scope to remove it from, if several define it
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
}

/// Runs the command.
pub fn run(arguments: &RemoveArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let definitions = invocation.definitions(&configuration, &arguments.name)?;
    let mut removable: Vec<(WritableScope, PathBuf)> = Vec::new();
    let by_scope = definitions.iter().filter_map(|server| invocation.editable_file(server));
    for (scope, file) in by_scope {
        let is_selected = arguments.scope.is_none_or(|it| it == scope);
        if is_selected && !removable.iter().any(|(known, _)| *known == scope) {
            removable.push((scope, file));
        }
    }
    removable.sort_by_key(|(scope, _)| scope.scope());
    let (scope, file) = match &removable[..] {
        [(scope, file)] => (*scope, file),
        [] => return Err(not_removable(arguments, invocation, &definitions)),
        _ => return Err(ambiguous(arguments, &removable, invocation)),
    };
    let edit = Edit::RemoveServer { name: arguments.name.clone() };
    file::edit_file(invocation, scope, file, &[edit])?;
    if invocation.wants_json() {
        let file = file.to_string_lossy().into_owned();
        let removed = json!({"removed": arguments.name, "scope": scope.scope().id(), "file": file});
        return Ok(json_output(&removed));
    }
    let name = printable(&arguments.name);
    let text = format!("Removed `{name}` from {}\n", file::scope_location(invocation, scope, file));
    let left = invocation.load_without_demo()?;
    let done = CommandOutput::text(text);
    Ok(match left.effective.winner(&arguments.name) {
        Some(other) => done.note(format!(
            "note: `{name}` of the {} scope ({}) is used now\n",
            other.scope(),
            invocation.display_origin(&other.origin)
        )),
        None => done,
    })
}

fn not_removable(
    arguments: &RemoveArgs,
    invocation: &Invocation,
    definitions: &[&ResolvedServer],
) -> Failure {
    let name = &arguments.name;
    if let Some(scope) = arguments.scope {
        let message = format!("the {} scope has no server `{name}`", scope.scope());
        let paths: Vec<String> = definitions
            .iter()
            .map(|it| format!("{} ({})", it.scope(), invocation.display_origin(&it.origin)))
            .collect();
        return Failure::new(Exit::NotFound, &message)
            .hint(&format!("it is defined in: {}", paths.join(", ")));
    }
    let server = definitions[0];
    let place = invocation.display_origin(&server.origin);
    let why = match server.scope() {
        Scope::Enterprise => "your administrator provides it",
        Scope::Dynamic => "it comes from --mcp-config",
        Scope::Connectors => "it belongs to your account",
        Scope::Plugin => "a plugin provides it; `swb disable` disables it",
        Scope::Project => "it is defined above this project; remove it there",
        Scope::Local | Scope::User => "its file has changed just now",
    };
    Failure::new(Exit::Conflict, &format!("`{name}` cannot be removed from {place}")).hint(why)
}

fn ambiguous(
    arguments: &RemoveArgs,
    scopes: &[(WritableScope, PathBuf)],
    invocation: &Invocation,
) -> Failure {
    let name = &arguments.name;
    let mut detail = String::new();
    for (scope, file) in scopes {
        let file = invocation.display_path(file);
        let scope = scope.scope();
        detail.push_str(&format!("  swb remove {name} --scope {scope:<8} # {file}\n"));
    }
    let message = format!("`{name}` is defined in {} scopes; choose one", scopes.len());
    Failure::new(Exit::Conflict, &message).detail(printable_lines(&detail))
}

fn printable_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", printable(line))).collect()
}
