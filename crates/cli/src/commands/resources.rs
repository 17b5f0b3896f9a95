//! `swb resources`: what can be read from servers.

use clap::Args;
use switchboard::catalogue::List;

use crate::listing::{self, Shape};
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Arguments of `swb resources`.
#[derive(Debug, Args)]
pub struct Resources {
    /// Only those of these servers
    pub servers: Vec<String>,
}

const RESOURCES: Shape = Shape {
    list: List::Resources,
    key: "resources",
    columns: &[("URI", "uri"), ("NAME", "name"), ("KIND", "mimeType"), ("ABOUT", "description")],
    nothing: "No resources.\n",
};

const TEMPLATES: Shape = Shape {
    list: List::Templates,
    key: "resourceTemplates",
    columns: &[
        ("TEMPLATE", "uriTemplate"),
        ("NAME", "name"),
        ("KIND", "mimeType"),
        ("ABOUT", "description"),
    ],
    nothing: "",
};

/// What is listed.
pub(crate) const SHAPES: [Shape; 2] = [RESOURCES, TEMPLATES];

/// Runs the command.
pub fn run(arguments: &Resources, session: &Session) -> Result<Done, Failure> {
    listing::run(session, &arguments.servers, &SHAPES)
}
