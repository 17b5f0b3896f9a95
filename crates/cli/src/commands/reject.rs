//! `swb reject`: a person's no to a project's server.

use clap::Args;
use serde_json::json;
use switchboard::config::approvals::ApprovalDecision;
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::scope::Scope;
use switchboard::sources::project_approvals;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb reject`.
#[derive(Debug, Args)]
pub struct RejectArgs {
    /// Servers of this project
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// Every server that waits for approval in this project
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

/// Runs the command.
pub fn run(arguments: &RejectArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = session.load_without_demo()?;
    session.expect_unlocked(&configuration)?;
    let mut servers: Vec<&ResolvedServer> = Vec::new();
    if arguments.all {
        let all = configuration.effective.servers.iter();
        servers.extend(all.filter(|server| matches!(server.state, ServerState::Pending(_))));
    }
    for name in &arguments.names {
        let definitions = session.definitions(&configuration, name)?;
        let of_project = definitions.into_iter().filter(|it| it.scope() == Scope::Project);
        let before = servers.len();
        servers.extend(of_project);
        if servers.len() == before {
            let message = format!("`{name}` is no server of this project");
            return Err(Failure::new(Exit::NotFound, &message)
                .hint(&format!("swb disable {name} switches any server off")));
        }
    }
    let decisions: Vec<_> = servers
        .iter()
        .filter_map(|it| {
            Some((it.origin.source.path()?, it.name.as_str(), ApprovalDecision::Rejected))
        })
        .collect();
    project_approvals::decide(&session.env.paths, &decisions)?;
    if session.wants_json() {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        return Ok(super::json_output(&json!({"rejected": names})));
    }
    let line = |server: &&ResolvedServer| {
        let place = session.display_origin(&server.origin);
        format!("Rejected `{}` ({place}); it will not run.\n", printable(&server.name))
    };
    if servers.is_empty() {
        return Ok(CommandOutput::text("No server of this project waits for approval.\n"));
    }
    Ok(CommandOutput::text(servers.iter().map(line).collect::<String>()))
}
