//! Required servers: the options that name them and limit the wait for them, and the failure where one is missing.

use std::time::Duration;

use clap::Args;
use switchboard::Snapshot;
use switchboard::connection::Status;
use switchboard::sources::loader::Configuration;
use tokio::time::Instant;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::connection_text;
use crate::runtime::servers;

/// Options of commands that connect to servers.
#[derive(Debug, Clone, Default, Args)]
pub struct ReadyOptions {
    /// Fail unless this server is connected; may be repeated
    #[arg(long, value_name = "NAME")]
    pub require: Vec<String>,
    /// Stop waiting for servers after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub ready_timeout: Option<Duration>,
}

/// Parses a number of seconds.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "expected a number of seconds".to_owned())
}

impl ReadyOptions {
    /// Fails unless every required server is configured and may start.
    pub fn expect_startable(
        &self,
        invocation: &Invocation,
        configuration: &Configuration,
    ) -> Result<(), Failure> {
        let startable = |name| servers::startable_server(invocation, configuration, name);
        self.require.iter().try_for_each(|name| startable(name).map(|_server| ()))
    }

    /// When the wait ends that begins now.
    pub fn deadline(&self) -> Option<Instant> {
        self.ready_timeout.map(|limit| Instant::now() + limit)
    }

    /// Fails unless every required server is connected.
    pub fn expect_connected(&self, snapshot: &Snapshot) -> Result<(), Failure> {
        self.require.iter().try_for_each(|name| match snapshot.servers.get(name) {
            Some(view) if view.status == Status::Connected => Ok(()),
            Some(view) => Err(Failure {
                message: not_connected_message(name),
                ..connection_text::not_connected(view)
            }),
            None => Err(Failure::new(Exit::NotReady, &not_connected_message(name))),
        })
    }
}

fn not_connected_message(name: &str) -> String {
    format!("the required server `{name}` is not connected")
}
