//! `swb reconnect`: asks other running `swb` processes to reconnect to a server.

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::runtime::control;
use crate::runtime::control::ReconnectOutcome;
use crate::runtime::login;
use crate::runtime::servers;

/// Arguments of `swb reconnect`.
#[derive(Debug, Args)]
pub struct ReconnectArgs {
    /// The server's name
    pub name: String,
}

/// Runs the command.
pub fn run(arguments: &ReconnectArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let name = &arguments.name;
    let server = servers::startable_server(invocation, &configuration, name)?;
    login::forget_auth_required(invocation, server);
    let responses =
        control::reconnect(&invocation.env.paths.control_sockets(), name).map_err(|error| {
            Failure::new(Exit::Failure, "other swb processes cannot be reached").caused_by(error)
        })?;
    let count = |outcome: ReconnectOutcome| {
        responses.iter().filter(|response| **response == outcome).count()
    };
    let reconnected = count(ReconnectOutcome::Reconnecting);
    if invocation.wants_json() {
        return Ok(json_output(&json!({
            "name": name, "asked": responses.len(), "reconnecting": reconnected,
        })));
    }
    let name = printable(name);
    match reconnected {
        0 => Err(Failure::new(Exit::NotReady, &format!("no running swb process uses `{name}`"))
            .hint(&format!("`swb ping {name}` connects to it once"))),
        1 => Ok(CommandOutput::text(format!("`{name}` is reconnecting.\n"))),
        more => Ok(CommandOutput::text(format!("`{name}` is reconnecting in {more} processes.\n"))),
    }
}
