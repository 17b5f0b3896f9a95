//! Whether the program of a server that is about to be added is installed. It is only looked for, and never started.

use switchboard::config::entry::server::{StartFolder, TransportConfig};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::program::ProgramQuery;
use switchboard::config::runtime_programs::installation_hint;

use crate::invocation::Invocation;

/// The warning about a program that is not installed. `installation` says how it is, where that is known better.
pub fn warning(
    invocation: &Invocation,
    resolved: &ResolvedServer,
    installation: Option<String>,
) -> Option<String> {
    let TransportConfig::Stdio(stdio) = &resolved.spec.as_ref()?.transport else { return None };
    let command = stdio.command.to_unresolved_string();
    let path = invocation.env.variables.get("PATH").map_or("", String::as_str);
    let found = invocation.load_options().programs().find(&ProgramQuery {
        command: &command,
        search_path: path,
        base_folder: None,
        cwd: None,
        start_folder: StartFolder::WorkingFolder,
    });
    if found.is_some() {
        return None;
    }
    let fix = installation.or_else(|| installation_hint(&command).map(str::to_owned));
    let fix = fix.map(|it| format!("; {it}")).unwrap_or_default();
    Some(format!("`{command}` is not installed{fix}"))
}
