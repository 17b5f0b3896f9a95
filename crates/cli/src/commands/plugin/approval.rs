//! Approving the servers of a plugin: what would run is shown first, and the decision is the user's.

use std::io::Write;

use switchboard::config::approvals::ApprovalDecision;
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::plugin::PluginId;
use switchboard::sources::loader::Configuration;
use switchboard::sources::project_approvals;

use crate::commands::import::ask;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::{entry_text, server_text};

/// Whether servers may be approved without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// `--yes`
    Given,
    /// At a terminal, the user is asked; otherwise nothing is approved.
    Asked,
}

impl Consent {
    pub(super) fn from_flag(yes: bool) -> Consent {
        if yes { Consent::Given } else { Consent::Asked }
    }
}

/// The servers of a plugin that count for their names.
pub(super) fn servers<'c>(
    id: &PluginId,
    configuration: &'c Configuration,
) -> Vec<&'c ResolvedServer> {
    let servers = configuration.effective.servers.iter();
    servers.filter(|it| it.plugin.as_ref() == Some(id)).collect()
}

/// The servers of a plugin with what would run and their states.
pub(super) fn servers_text(servers: &[&ResolvedServer], invocation: &Invocation) -> String {
    let mut text = String::new();
    for server in servers {
        let state = server_text::state_text(&server.state);
        text.push_str(&format!("{}: {state}\n", printable(&server.name)));
        text.push_str(&entry_text::entry_text(&invocation.env, server));
        text.push_str(&entry_text::trust_text(server));
        if let (false, Some(reason)) =
            (server.is_ready(), server_text::state_reason(&invocation.env, server))
            && !matches!(server.state, ServerState::Pending(_))
        {
            text.push_str(&format!("  {reason}\n"));
        }
    }
    text
}

/// Asks whether the pending servers of a plugin may run, and approves them. Returns how many were approved.
pub(super) fn ask_for(
    id: &PluginId,
    consent: Consent,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<usize, Failure> {
    let pending: Vec<&ResolvedServer> = servers(id, configuration)
        .into_iter()
        .filter(|it| matches!(it.state, ServerState::Pending(_)))
        .collect();
    if pending.is_empty() {
        return Ok(0);
    }
    let can_ask = invocation.env.terminal.is_interactive && !invocation.wants_json();
    match consent {
        Consent::Given => {}
        Consent::Asked if !can_ask => return Ok(0),
        Consent::Asked => {
            let shown = servers_text(&pending, invocation);
            print_now(&format!("\n{shown}"))?;
            let count = pending.len();
            let question = match count {
                1 => "May it run as shown? It runs as you. [y/N] ".to_owned(),
                _ => format!("May these {count} servers run as shown? They run as you. [y/N] "),
            };
            if !matches!(ask(&question)?.as_str(), "y" | "yes") {
                return Ok(0);
            }
        }
    }
    approve(&pending, invocation)?;
    Ok(pending.len())
}

/// Approves servers as they are defined now.
pub(super) fn approve(servers: &[&ResolvedServer], invocation: &Invocation) -> Result<(), Failure> {
    let decisions: Vec<(&str, &str, ApprovalDecision)> = servers
        .iter()
        .filter_map(|it| {
            let approved = ApprovalDecision::Approved(it.approvable()?);
            Some((it.approval_key.as_deref()?, it.name.as_str(), approved))
        })
        .collect();
    project_approvals::decide(&invocation.env.paths, &decisions)?;
    Ok(())
}

/// How to approve what still waits.
pub(super) fn pending_note(id: &PluginId, configuration: &Configuration) -> String {
    let servers = servers(id, configuration);
    let names: Vec<String> = servers
        .iter()
        .filter(|it| matches!(it.state, ServerState::Pending(_)))
        .map(|it| printable(&it.name))
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "note: not started before you approve it: swb get {0}, then swb approve {1}\n",
            names[0],
            names.join(" ")
        ),
    }
}

/// Shows text before a question.
pub(super) fn print_now(text: &str) -> Result<(), Failure> {
    anstream::stdout().write_all(text.as_bytes()).map_err(|error| {
        Failure::new(Exit::Failure, "standard output cannot be written").caused_by(error)
    })
}
