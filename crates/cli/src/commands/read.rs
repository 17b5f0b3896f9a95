//! `swb read`: reads a resource of a server.

use std::time::Duration;

use clap::Args;
use switchboard::ReadResource;
use switchboard::connection::{RetryPolicy, Status};
use switchboard::tool_result;
use switchboard::tool_result::{OutputLimits, SpillStore};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::tool_output;
use crate::runtime::host;
use crate::runtime::servers;
use crate::runtime::variables;

/// The timeout of the request.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Arguments of `swb read`.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The server's name
    pub server: String,
    /// The URI of the resource
    pub uri: String,
}

/// Runs the command.
pub fn run(arguments: &ReadArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    servers::startable_server(invocation, &configuration, &arguments.server)?;
    let limits = OutputLimits {
        tokens: variables::max_output_tokens(invocation)?,
        ..OutputLimits::default()
    };
    let response = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        let view = servers::connect_one(invocation, host, &configuration, &arguments.server).await;
        if view.status != Status::Connected {
            return Err(connection_text::not_connected(&view));
        }
        if !view.has_resources() {
            let message = format!("`{}` has no resources", arguments.server);
            return Err(Failure::new(Exit::NotFound, &message));
        }
        let request = ReadResource::new(arguments.uri.as_str()).timeout(READ_TIMEOUT);
        let reading = host.read_resource_raw(&arguments.server, request);
        reading.await.map_err(|error| tool_output::request_failure(&error))
    })?;
    let spill = SpillStore::in_data_folder(&invocation.env.paths.data);
    let output = tool_result::from_resource_read(&response, &arguments.server, &limits, &spill);
    Ok(match invocation.wants_json() {
        true => tool_output::json(&output),
        false => tool_output::text(&output),
    })
}
