//! Approves and rejects the servers of a project, for the commands and the screen.

use serde_json::json;
use switchboard::config::approvals::ApprovalDecision;
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::scope::Scope;
use switchboard::sources::loader::Configuration;
use switchboard::sources::project_approvals as approvals;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::entry_text;
use crate::output::json::json_output;
use crate::output::server_text;

const NOTHING_PENDING: &str = "No server of this project is pending approval.\n";

/// Selects servers of this project.
#[derive(Debug, Clone, Copy)]
pub enum ProjectServers<'a> {
    /// The servers with these names.
    Named(&'a [String]),
    /// Every server that waits for approval.
    AllPending,
}

/// Approves servers of this project, exactly as they are defined now. With `hash`, fails where the definition has
/// another one.
pub fn approve(
    invocation: &Invocation,
    selection: ProjectServers<'_>,
    hash: Option<&str>,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let servers = match selection {
        ProjectServers::AllPending => pending_servers(&configuration),
        ProjectServers::Named(names) => project_servers(names, &configuration, invocation)?,
    };
    if servers.is_empty() && !invocation.wants_json() {
        return Ok(CommandOutput::text(NOTHING_PENDING));
    }
    let mut decisions = Vec::new();
    for server in &servers {
        let (Some(approved), Some(key)) = (server.approvable(), server.approval_key.as_deref())
        else {
            continue;
        };
        let fingerprint = &approved.fingerprint;
        if let Some(hash) = hash
            && !hash_matches(hash, fingerprint.as_str())
        {
            let message = format!("`{}` has changed since you looked at it", server.name);
            return Err(Failure::new(Exit::Conflict, &message)
                .hint(&format!("its hash is {fingerprint}; look again: swb get {}", server.name)));
        }
        decisions.push((key, server.name.as_str(), ApprovalDecision::Approved(approved)));
    }
    approvals::decide(&invocation.env.paths, &decisions)?;
    if invocation.wants_json() {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        return Ok(json_output(&json!({"approved": names})));
    }
    Ok(CommandOutput::text(
        servers.iter().map(|server| approved_text(server, invocation)).collect::<String>(),
    ))
}

/// Rejects servers of this project.
pub fn reject(
    invocation: &Invocation,
    selection: ProjectServers<'_>,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let servers = match selection {
        ProjectServers::AllPending => pending_servers(&configuration),
        ProjectServers::Named(names) => {
            every_project_definition(names, &configuration, invocation)?
        }
    };
    let decisions: Vec<_> = servers
        .iter()
        .filter_map(|it| {
            Some((it.approval_key.as_deref()?, it.name.as_str(), ApprovalDecision::Rejected))
        })
        .collect();
    approvals::decide(&invocation.env.paths, &decisions)?;
    if invocation.wants_json() {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        return Ok(json_output(&json!({"rejected": names})));
    }
    let line = |server: &&ResolvedServer| {
        let place = invocation.display_origin(&server.origin);
        format!("Rejected `{}` ({place}); it will not run.\n", printable(&server.name))
    };
    if servers.is_empty() {
        return Ok(CommandOutput::text(NOTHING_PENDING));
    }
    Ok(CommandOutput::text(servers.iter().map(line).collect::<String>()))
}

fn hash_matches(prefix: &str, hash: &str) -> bool {
    let digits = hash.trim_start_matches("sha256:");
    let prefix = prefix.trim_start_matches("sha256:");
    prefix.len() >= 8 && digits.starts_with(prefix)
}

/// Shows everything that was approved.
fn approved_text(server: &ResolvedServer, invocation: &Invocation) -> String {
    let name = printable(&server.name);
    let place = invocation.display_origin(&server.origin);
    let entry = entry_text::entry_text(&invocation.env, server);
    let trust = match server.entry.as_ref().is_some_and(|entry| entry.common.trust) {
        true => "  It is trusted, so its tools run without asking.\n",
        false => "",
    };
    format!(
        "Approved `{name}` ({place}):\n{entry}{trust}  If its definition changes, it needs approval again.\n"
    )
}

fn pending_servers(configuration: &Configuration) -> Vec<&ResolvedServer> {
    let servers = configuration.effective.servers.iter();
    servers.filter(|server| matches!(server.state, ServerState::Pending(_))).collect()
}

/// The project's servers with these names. Fails where one cannot run whatever the user decides.
fn project_servers<'c>(
    names: &[String],
    configuration: &'c Configuration,
    invocation: &Invocation,
) -> Result<Vec<&'c ResolvedServer>, Failure> {
    let mut found = Vec::new();
    for name in names {
        let definitions = invocation.definitions(configuration, name)?;
        let of_project = definitions.iter().find(|server| {
            server.approval_key.is_some() && !matches!(server.state, ServerState::Shadowed { .. })
        });
        let Some(server) = of_project else {
            let message = format!("`{name}` is not a server of this project");
            let scope = definitions[0].scope();
            let hint = match scope == Scope::Plugin {
                true => "plugins in folders that you chose need no approval".to_owned(),
                false => format!("servers of the {scope} scope need no approval"),
            };
            return Err(Failure::new(Exit::NotFound, &message).hint(&hint));
        };
        match &server.state {
            ServerState::Invalid
            | ServerState::NeedsConfig(_)
            | ServerState::Refused(_)
            | ServerState::Excluded(_) => {
                let state = server_text::state_text(&server.state);
                let failure =
                    Failure::new(Exit::NotReady, &format!("`{name}` cannot run: {state}"));
                return Err(match server_text::state_reason(&invocation.env, server) {
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

/// Every definition of these names in the project, in any state.
fn every_project_definition<'c>(
    names: &[String],
    configuration: &'c Configuration,
    invocation: &Invocation,
) -> Result<Vec<&'c ResolvedServer>, Failure> {
    let mut servers = Vec::new();
    for name in names {
        let definitions = invocation.definitions(configuration, name)?;
        let of_project = definitions.into_iter().filter(|it| it.approval_key.is_some());
        let before = servers.len();
        servers.extend(of_project);
        if servers.len() == before {
            let message = format!("`{name}` is not a server of this project");
            return Err(Failure::new(Exit::NotFound, &message)
                .hint(&format!("swb disable {name} disables any server")));
        }
    }
    Ok(servers)
}
