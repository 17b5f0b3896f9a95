//! Servers that run in this process: the workspace server, the demo server, the computer server and the browser server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use switchboard::config::entry::server::ToolFilter;
use switchboard::config::permission::BUILT_IN_SERVER;
use switchboard::connection::{EmbeddedServer, InProcessServer};
use switchboard::sources::child_env;
use switchboard_builtin::demo;
use switchboard_builtin::workspace::{self, AddedRoots, ClientRoots, WorkspaceSettings};

use crate::invocation::Invocation;
use crate::invocation::demo_server;
use crate::invocation::session_flags::ToolSelection;
use crate::outcome::Failure;
use crate::runtime::{browser, computer, subprocess};

/// In-process servers, by the `name` of an entry of type `sdk`.
pub fn in_process(invocation: &Invocation) -> Result<BTreeMap<String, InProcessServer>, Failure> {
    // This program's own host would send the same folder as its root.
    let folder = invocation.env.working_folder.clone();
    let settings = workspace_settings(invocation, vec![folder], ClientRoots::Ignored);
    let workspace =
        InProcessServer::new(move |transport| workspace::serve(settings.clone(), transport));
    let computer = computer::in_process(invocation);
    let mut servers = BTreeMap::from([
        (switchboard_computer::ALIAS.to_owned(), computer.clone()),
        (switchboard_computer::NAME.to_owned(), computer),
        (demo_server::NAME.to_owned(), demo_in_process(invocation)),
        (workspace::NAME.to_owned(), workspace),
    ]);
    servers.extend(browser::in_process(invocation)?);
    Ok(servers)
}

/// The built-in tools of a conversation: a workspace server under a name that no configured server can have, whose tools
/// have plain names.
pub fn embedded(invocation: &Invocation) -> BTreeMap<String, EmbeddedServer> {
    let tools = match &invocation.session.tools {
        ToolSelection::None => return BTreeMap::new(),
        ToolSelection::All => ToolFilter::default(),
        ToolSelection::Named(names) => ToolFilter { allow: Some(names.clone()), deny: Vec::new() },
    };
    let folder = invocation.env.working_folder.clone();
    let settings = WorkspaceSettings {
        added_roots: invocation.session.added_folders.clone(),
        ..workspace_settings(invocation, vec![folder], ClientRoots::Ignored)
    };
    let server =
        InProcessServer::new(move |transport| workspace::serve(settings.clone(), transport));
    BTreeMap::from([(BUILT_IN_SERVER.to_owned(), EmbeddedServer { server, tools })])
}

/// The folders of the built-in tools: the working folder, and those that options add.
pub fn roots(invocation: &Invocation) -> Vec<PathBuf> {
    let folder = invocation.env.working_folder.clone();
    let added = invocation.session.added_folders.folders();
    std::iter::once(folder).chain(added).collect()
}

/// The settings of a workspace server. Its commands get the environment without credentials.
pub fn workspace_settings(
    invocation: &Invocation,
    roots: Vec<PathBuf>,
    client_roots: ClientRoots,
) -> WorkspaceSettings {
    let env = &invocation.env;
    WorkspaceSettings {
        roots,
        added_roots: AddedRoots::default(),
        client_roots,
        environment: child_env::child_environment(&env.variables, []),
        output_dir: env.paths.data.join("workspace"),
        guard: subprocess::watchdog_program(),
        pdf_reader: subprocess::pdf_reader_program(),
    }
}

/// The demo server. It stores its notes in the data folder.
fn demo_in_process(invocation: &Invocation) -> InProcessServer {
    let notes = invocation.env.paths.data.join("demonstration").join("notes.json");
    let server = demo::server(notes);
    InProcessServer::new(move |transport| server.clone().serve(transport))
}
