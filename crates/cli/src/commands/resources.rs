//! `swb resources`: what can be read from servers.

use clap::Args;
use switchboard::catalogue::fetch::ListKind;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::catalogue_table;
use crate::output::catalogue_table::ListLayout;

/// Arguments of `swb resources`.
#[derive(Debug, Args)]
pub struct ResourcesArgs {
    /// Only those of these servers
    pub servers: Vec<String>,
}

const RESOURCES: ListLayout = ListLayout {
    list: ListKind::Resources,
    key: "resources",
    columns: &[("URI", "uri"), ("NAME", "name"), ("KIND", "mimeType"), ("ABOUT", "description")],
    empty_text: "No resources.\n",
};

const TEMPLATES: ListLayout = ListLayout {
    list: ListKind::ResourceTemplates,
    key: "resourceTemplates",
    columns: &[
        ("TEMPLATE", "uriTemplate"),
        ("NAME", "name"),
        ("KIND", "mimeType"),
        ("ABOUT", "description"),
    ],
    empty_text: "",
};

/// What is listed.
pub(crate) const LAYOUTS: [ListLayout; 2] = [RESOURCES, TEMPLATES];

/// Runs the command.
pub fn run(arguments: &ResourcesArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    catalogue_table::list_items(session, &arguments.servers, &LAYOUTS)
}
