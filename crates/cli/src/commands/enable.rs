//! `swb enable`: switches a server on.

use clap::Args;

use crate::outcome::{Done, Failure};
use crate::session::Session;
use crate::switch::{self, Position};

/// Arguments of `swb enable`.
#[derive(Debug, Args)]
pub struct Enable {
    /// The server's name
    pub name: String,
}

/// Runs the command.
pub fn run(arguments: &Enable, session: &Session) -> Result<Done, Failure> {
    switch::turn(session, &arguments.name, None, Position::On)
}
