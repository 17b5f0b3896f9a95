//! `swb doctor`: diagnoses servers: what is wrong, the evidence, and the remedy. Also shows which IDEs were found.

mod browser;
mod computer;

use clap::Args;
use switchboard::Snapshot;
use switchboard::connection::RetryPolicy;
use switchboard::ide::IDE_SERVER;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::account_text;
use crate::output::diagnosis::{Diagnosis, HostState};
use crate::output::ide_text;
use crate::output::json::json_output;
use crate::runtime::host;
use crate::runtime::ide;
use crate::runtime::interrupts::tokio_runtime;
use crate::runtime::servers;

/// Arguments of `swb doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Examine only this server; `ide` shows the lock files of IDEs, `computer` and `browser` what these servers need
    pub name: Option<String>,
}

/// Is it a name of the browser server?
fn is_browser(name: &str) -> bool {
    name == switchboard_browser::NAME || switchboard_browser::ALIASES.contains(&name)
}

/// Runs the command.
pub fn run(arguments: &DoctorArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_with_problems()?;
    let is_defined = |name: &str| configuration.effective.winner(name).is_some();
    if arguments.name.as_deref() == Some(IDE_SERVER) && !is_defined(IDE_SERVER) {
        return ides(invocation);
    }
    if let Some(switchboard_computer::NAME | switchboard_computer::ALIAS) =
        arguments.name.as_deref()
    {
        return Ok(computer::report(invocation));
    }
    if arguments.name.as_deref().is_some_and(is_browser) {
        return browser::report(invocation);
    }
    let names: Vec<String> = arguments.name.iter().cloned().collect();
    let servers = servers::active_servers(invocation, &configuration, &names)?;
    let (snapshot, pool, ides) = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        servers::apply_configuration(host, &configuration, &names).await;
        let ides = ide::find(invocation).await;
        let snapshot =
            servers::wait_until_settled(invocation, host, None, Snapshot::is_settled).await;
        Ok((snapshot, host.settled_pool().await, ides))
    })?;
    let examined = HostState { snapshot: &snapshot, pool: &pool };
    let diagnosis = Diagnosis::new(&invocation.env, &servers, examined, &configuration);
    if invocation.wants_json() {
        let output = diagnosis.to_json();
        return Ok(account_text::add_to_output(invocation.known_account(), output));
    }
    let output = diagnosis.to_text(&invocation.env);
    let shows_ides = arguments.name.is_none() && !ides.scan.locks.is_empty();
    let section = match shows_ides {
        true => format!("\n{}", ide_text::section(&invocation.env, &ides)),
        false => String::new(),
    };
    let output = CommandOutput { text: output.text.clone() + &section, ..output };
    Ok(output.note(account_text::note_paragraph(invocation.known_account())))
}

/// Shows the lock files of IDEs, and what each is worth.
fn ides(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let found = tokio_runtime()?.block_on(ide::find(invocation));
    Ok(match invocation.wants_json() {
        true => json_output(&ide_text::section_json(&found)),
        false => CommandOutput::text(ide_text::section(&invocation.env, &found)),
    })
}
