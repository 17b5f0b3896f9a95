//! `swb approve`: a person's yes to a project's server, bound to exactly what it would run.

use clap::Args;
use serde_json::json;
use switchboard::config::approvals::ApprovalDecision;
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::scope::Scope;
use switchboard::sources::loader::Configuration;
use switchboard::sources::project_approvals;

use crate::commands::get;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::server_text;

/// Arguments of `swb approve`.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Servers of this project
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// Every server that waits for approval in this project
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Only if its hash, as `swb get` shows it, begins with this
    #[arg(long, value_name = "HASH", conflicts_with = "all")]
    pub hash: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &ApproveArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = session.load_without_demo()?;
    session.expect_unlocked(&configuration)?;
    let servers = match arguments.all {
        true => pending_servers(&configuration),
        false => project_servers(&arguments.names, &configuration, session)?,
    };
    if servers.is_empty() && !session.wants_json() {
        return Ok(CommandOutput::text("No server of this project waits for approval.\n"));
    }
    let mut decisions = Vec::new();
    for server in &servers {
        let (Some(fingerprint), Some(file)) = (&server.fingerprint, server.origin.source.path())
        else {
            continue;
        };
        if let Some(wanted) = &arguments.hash
            && !hash_matches(wanted, fingerprint.as_str())
        {
            let message = format!("`{}` is not what you looked at", server.name);
            return Err(Failure::new(Exit::Conflict, &message)
                .hint(&format!("its hash is {fingerprint}; look again: swb get {}", server.name)));
        }
        decisions.push((
            file,
            server.name.as_str(),
            ApprovalDecision::Approved(fingerprint.clone()),
        ));
    }
    project_approvals::decide(&session.env.paths, &decisions)?;
    if session.wants_json() {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        return Ok(super::json_output(&json!({"approved": names})));
    }
    Ok(CommandOutput::text(
        servers.iter().map(|server| approved_text(server, session)).collect::<String>(),
    ))
}

fn hash_matches(wanted: &str, hash: &str) -> bool {
    let digits = hash.trim_start_matches("sha256:");
    let wanted = wanted.trim_start_matches("sha256:");
    wanted.len() >= 8 && digits.starts_with(wanted)
}

/// Everything that was approved, so that nothing is approved unseen.
fn approved_text(server: &ResolvedServer, session: &Invocation) -> String {
    let name = printable(&server.name);
    let place = session.display_origin(&server.origin);
    let entry = server.entry.as_ref().map(get::entry_text).unwrap_or_default();
    let trust = match server.entry.as_ref().is_some_and(|entry| entry.common.trust) {
        true => "  It asked for trust, so its tools run without asking you.\n",
        false => "",
    };
    format!(
        "Approved `{name}` ({place}):\n{entry}{trust}  If its definition changes, it waits for you again.\n"
    )
}

fn pending_servers(configuration: &Configuration) -> Vec<&ResolvedServer> {
    let servers = configuration.effective.servers.iter();
    servers.filter(|server| matches!(server.state, ServerState::Pending(_))).collect()
}

/// The project's servers of these names, in a state in which a person's word counts.
pub fn project_servers<'c>(
    names: &[String],
    configuration: &'c Configuration,
    session: &Invocation,
) -> Result<Vec<&'c ResolvedServer>, Failure> {
    let mut found = Vec::new();
    for name in names {
        let definitions = session.definitions(configuration, name)?;
        let of_project = definitions.iter().find(|server| {
            server.scope() == Scope::Project
                && !matches!(server.state, ServerState::Shadowed { .. })
        });
        let Some(server) = of_project else {
            let message = format!("`{name}` is no server of this project");
            let hint = format!("servers of the {} scope need no approval", definitions[0].scope());
            return Err(Failure::new(Exit::NotFound, &message).hint(&hint));
        };
        match &server.state {
            ServerState::Invalid | ServerState::Refused(_) | ServerState::Excluded(_) => {
                let state = server_text::state_text(&server.state);
                let failure =
                    Failure::new(Exit::NotReady, &format!("`{name}` cannot run anyway: {state}"));
                return Err(match server_text::state_reason(session, server) {
                    Some(reason) => failure.hint(&reason),
                    None => failure,
                });
            }
            ServerState::Ready
            | ServerState::Pending(_)
            | ServerState::Rejected
            | ServerState::Disabled(_)
            | ServerState::Shadowed { .. }
            | ServerState::Duplicate { .. } => found.push(*server),
        }
    }
    Ok(found)
}
