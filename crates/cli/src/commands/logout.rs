//! `swb logout`: revokes and deletes the login of a server, or with `--account` that at the connector account.

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::connection::RetryPolicy;
use switchboard::login::LogoutOutcome;

use super::login::account;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::login_text;
use crate::runtime::host;
use crate::runtime::login;
use crate::runtime::servers;

/// Arguments of `swb logout`.
#[derive(Debug, Args)]
pub struct LogoutArgs {
    /// The server's name
    #[arg(required_unless_present = "account")]
    pub name: Option<String>,
    /// Sign out of the account whose connectors you use
    #[arg(long, conflicts_with = "name")]
    pub account: bool,
}

/// Runs the command. Does not connect to the server.
pub fn run(arguments: &LogoutArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let Some(name) = &arguments.name else { return account::sign_out(invocation) };
    let configuration = invocation.load()?;
    servers::startable_server(invocation, &configuration, name)?;
    let target = format!("`{}`", printable(name));
    let desired = servers::desired_servers(&configuration, std::slice::from_ref(name));
    let desired = desired.first().ok_or_else(|| invocation.not_found(&configuration, name))?;
    let outcome = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        host.forget_login(desired).await.map_err(|error| login_text::login_failure(&target, &error))
    })?;
    if !matches!(outcome, LogoutOutcome::NotLoggedIn) {
        login::notify_running(invocation, name);
    }
    Ok(show(invocation, &target, name, &outcome))
}

fn show(
    invocation: &Invocation,
    target: &str,
    name: &str,
    outcome: &LogoutOutcome,
) -> CommandOutput {
    match invocation.wants_json() {
        true => {
            let outcome_id = login_text::logout_outcome_id(outcome);
            let json = json!({"name": name, "outcome": outcome_id});
            CommandOutput {
                notes: login_text::logout_output(target, outcome).notes,
                ..json_output(&json)
            }
        }
        false => login_text::logout_output(target, outcome),
    }
}
