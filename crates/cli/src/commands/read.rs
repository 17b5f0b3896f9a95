//! `swb read`: reads a resource of a server.

use std::time::Duration;

use clap::Args;
use switchboard::connection::Status;
use switchboard::connection::state::RetryPolicy;
use switchboard::tool_result;
use switchboard::tool_result::OutputLimits;
use switchboard::tool_result::spill::SpillStore;

use super::{call, ping, prompt, status};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::runtime::host;

/// How long a server may take for it.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Arguments of `swb read`.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The server's name
    pub server: String,
    /// The resource
    pub uri: String,
}

/// Runs the command.
pub fn run(arguments: &ReadArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = session.load()?;
    status::startable_server(session, &configuration, &arguments.server)?;
    let limits =
        OutputLimits { tokens: host::max_output_tokens(session)?, ..OutputLimits::default() };
    let answer = host::with_host(session, RetryPolicy::NoRetry, async |host| {
        let view = status::connect_one(session, host, &configuration, &arguments.server).await;
        if view.status != Status::Connected {
            return Err(ping::not_connected(&view));
        }
        if !view.has_resources() {
            let message = format!("`{}` has no resources", arguments.server);
            return Err(Failure::new(Exit::NotFound, &message));
        }
        let reading = host.read_resource(&arguments.server, &arguments.uri, READ_TIMEOUT);
        reading.await.map_err(|error| prompt::request_failure(&error))
    })?;
    let spill = SpillStore::in_data_folder(&session.env.paths.data);
    Ok(call::tool_output(
        session,
        &tool_result::from_resource_read(&answer, &arguments.server, &limits, &spill),
    ))
}
