//! `swb disable`: switches a server off without forgetting it.

use clap::Args;

use crate::outcome::{Done, Failure};
use crate::session::{Session, WritableScope};
use crate::switch::{self, Position};

/// Arguments of `swb disable`.
#[derive(Debug, Args)]
pub struct Disable {
    /// The server's name
    pub name: String,
    /// Where to write it down: in your local or user settings, or for everybody in the project's file
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
}

/// Runs the command.
pub fn run(arguments: &Disable, session: &Session) -> Result<Done, Failure> {
    switch::turn(session, &arguments.name, arguments.scope, Position::Off)
}
