//! `swb ping`: connects to a server and measures its response time.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::request::RequestError;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::json::json_output;
use crate::runtime::host;
use crate::runtime::servers;

/// The timeout of one ping.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `swb ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// The server's name
    pub name: String,
    /// The number of pings
    #[arg(long, short = 'n', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
}

/// Runs the command.
pub fn run(arguments: &PingArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    servers::startable_server(invocation, &configuration, &arguments.name)?;
    host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        let view = servers::connect_one(invocation, host, &configuration, &arguments.name).await;
        if view.status != Status::Connected {
            return Err(connection_text::not_connected(&view));
        }
        let mut times = Vec::new();
        for _ in 0..arguments.count {
            let time = host.ping(&arguments.name, PING_TIMEOUT).await;
            times.push(time.map_err(|error| ping_failure(&error))?);
        }
        Ok(show(invocation, &view, &times))
    })
}

fn ping_failure(error: &RequestError) -> Failure {
    Failure::new(Exit::Connection, "the server did not respond").caused_by(error)
}

fn show(invocation: &Invocation, view: &ServerView, times: &[Duration]) -> CommandOutput {
    let milliseconds = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    let server_info = view.server_info.as_ref();
    if invocation.wants_json() {
        return json_output(&json!({
            "name": view.name,
            "era": server_info.map(|it| it.era.as_str()),
            "protocolVersion": server_info.map(|it| it.protocol_version.clone()),
            "readyAfterMs": view.time_to_ready.map(milliseconds),
            "pingMs": times.iter().copied().map(milliseconds).collect::<Vec<_>>(),
        }));
    }
    let mut text = String::new();
    for time in times {
        text.push_str(&format!("{}: {} ms\n", printable(&view.name), milliseconds(*time)));
    }
    if let (Some(server_info), Some(ready)) = (server_info, view.time_to_ready) {
        text.push_str(&format!(
            "protocol version {}; ready after {} ms\n",
            printable(&server_info.protocol_version),
            ready.as_millis()
        ));
    }
    CommandOutput::text(text)
}
