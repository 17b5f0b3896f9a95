//! `swb doctor`: diagnoses servers: what is wrong, the evidence, and the remedy.

use clap::Args;
use switchboard::Snapshot;
use switchboard::connection::RetryPolicy;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::diagnosis::{Diagnosis, HostState};
use crate::runtime::host;
use crate::runtime::servers;

/// Arguments of `swb doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Examine only this server
    pub name: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &DoctorArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_with_problems()?;
    let names: Vec<String> = arguments.name.iter().cloned().collect();
    let servers = servers::active_servers(invocation, &configuration, &names)?;
    let (snapshot, pool) = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        servers::apply_configuration(host, &configuration, &names).await;
        let snapshot =
            servers::wait_until_settled(invocation, host, None, Snapshot::is_settled).await;
        Ok((snapshot, host.settled_pool().await))
    })?;
    let examined = HostState { snapshot: &snapshot, pool: &pool };
    let diagnosis = Diagnosis::new(&invocation.env, &servers, examined, &configuration);
    Ok(match invocation.wants_json() {
        true => diagnosis.to_json(),
        false => diagnosis.to_text(&invocation.env),
    })
}
