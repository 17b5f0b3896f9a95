//! What a program is told about servers that are not used: which they are, why, and what to do. Pure.

use std::collections::BTreeSet;

use switchboard::config::entry::server::TransportKind;
use switchboard::config::merge::{Exclusion, ResolvedServer, ServerState};
use switchboard::sources::loader::Configuration;
use switchboard_chat::control::backend::{UnusedServer, UnusedStatus};

use crate::env::ProcessEnv;
use crate::invocation::lookup::ENTERPRISE_LOCK;
use crate::output::server_text;

/// Why a server cannot be used, and what to do.
pub(super) fn error(env: &ProcessEnv, configuration: &Configuration, name: &str) -> Option<String> {
    let winner = configuration.effective.winner(name);
    let mut of_name = configuration.effective.servers.iter().filter(|it| it.name == name);
    match winner.or_else(|| of_name.next()) {
        Some(server) => cause(env, server),
        None => Some("its entry is not valid".to_owned()),
    }
}

fn cause(env: &ProcessEnv, server: &ResolvedServer) -> Option<String> {
    let state = server_text::state_text(&server.state);
    let with_reason = || match server_text::state_reason(env, server) {
        Some(reason) => format!("{state}: {reason}"),
        None => state.clone(),
    };
    Some(match &server.state {
        ServerState::Ready => return None,
        ServerState::Excluded(Exclusion::ManagedFile(_)) => ENTERPRISE_LOCK.to_owned(),
        // Its entry is as it should be: the command that completes it is the answer.
        ServerState::NeedsConfig(_) => with_reason(),
        ServerState::Pending(_)
        | ServerState::Rejected
        | ServerState::Refused(_)
        | ServerState::Disabled(_)
        | ServerState::Shadowed { .. }
        | ServerState::Duplicate { .. }
        | ServerState::Excluded(Exclusion::Strict)
        | ServerState::Invalid => {
            let problems: Vec<String> =
                server.problems.iter().map(|it| it.kind.to_string()).collect();
            if problems.is_empty() { with_reason() } else { problems.join("; ") }
        }
    })
}

/// The servers that are not used, because the configuration or the program (`disabled`) says so.
pub(super) fn unused(
    env: &ProcessEnv,
    configuration: &Configuration,
    disabled: &BTreeSet<String>,
) -> Vec<UnusedServer> {
    let mut unused: Vec<UnusedServer> = Vec::new();
    for server in &configuration.effective.servers {
        let is_disabled = disabled.contains(&server.name);
        let status = match &server.state {
            ServerState::Ready if !is_disabled => continue,
            ServerState::Ready | ServerState::Disabled(_) => UnusedStatus::Disabled,
            ServerState::Pending(_) | ServerState::Rejected => UnusedStatus::Pending,
            ServerState::Refused(_) | ServerState::NeedsConfig(_) | ServerState::Invalid => {
                UnusedStatus::Failed
            }
            ServerState::Excluded(_) if is_hosted(server) => UnusedStatus::Failed,
            ServerState::Shadowed { .. }
            | ServerState::Duplicate { .. }
            | ServerState::Excluded(_) => continue,
        };
        if unused.iter().any(|it| it.name == server.name) {
            continue;
        }
        let why = if is_disabled { None } else { error(env, configuration, &server.name) };
        unused.push(UnusedServer { name: server.name.clone(), status, why });
    }
    unused
}

/// Is it a server that the program hosts?
fn is_hosted(server: &ResolvedServer) -> bool {
    server.entry.as_ref().is_some_and(|it| it.transport.kind() == TransportKind::Sdk)
}
