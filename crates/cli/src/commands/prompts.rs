//! `swb prompts`: the prompts that servers have.

use clap::Args;
use switchboard::catalogue::List;

use crate::listing::{self, Shape};
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Arguments of `swb prompts`.
#[derive(Debug, Args)]
pub struct Prompts {
    /// Only those of these servers
    pub servers: Vec<String>,
}

const PROMPTS: Shape = Shape {
    list: List::Prompts,
    key: "prompts",
    columns: &[("PROMPT", "name"), ("ARGUMENTS", "arguments"), ("ABOUT", "description")],
    nothing: "No prompts.\n",
};

/// Runs the command.
pub fn run(arguments: &Prompts, session: &Session) -> Result<Done, Failure> {
    listing::run(session, &arguments.servers, &[PROMPTS])
}
