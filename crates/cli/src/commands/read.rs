//! `swb read`: reads a resource of a server.

use std::time::Duration;

use clap::Args;
use switchboard::connection::Status;
use switchboard::connection::state::Persistence;
use switchboard::yielded::keep::Keep;
use switchboard::yielded::{self, Limits};

use super::{call, ping, prompt, status};
use crate::exit::Exit;
use crate::live;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// How long a server may take for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of `swb read`.
#[derive(Debug, Args)]
pub struct Read {
    /// The server's name
    pub server: String,
    /// The resource
    pub uri: String,
}

/// Runs the command.
pub fn run(arguments: &Read, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    status::ready(session, &configuration, &arguments.server)?;
    let limits = Limits { tokens: live::tokens(session)?, ..Limits::default() };
    let answer = live::run(session, Persistence::Once, async |host| {
        let view = status::connected_view(session, host, &configuration, &arguments.server).await;
        if view.status != Status::Connected {
            return Err(ping::not_connected(&view));
        }
        if !view.has_resources() {
            let message = format!("`{}` has no resources", arguments.server);
            return Err(Failure::new(Exit::NotFound, &message));
        }
        let reading = host.read(&arguments.server, &arguments.uri, PATIENCE);
        reading.await.map_err(|error| prompt::failure(&error))
    })?;
    let keep = Keep::below(&session.machine.places.data);
    Ok(call::show(session, &yielded::of_read(&answer, &arguments.server, &limits, &keep)))
}
