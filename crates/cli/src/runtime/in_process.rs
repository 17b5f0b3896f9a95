//! The workspace server for this run: which folders, which variables, where its outputs lie; and every server that runs
//! in this process, by name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use switchboard::connection::in_process::InProcessServer;
use switchboard::sources::child_env;
use switchboard_builtin::demo;
use switchboard_builtin::workspace::{self, ClientRoots, WorkspaceSettings};

use crate::invocation::Invocation;
use crate::invocation::demo_server;
use crate::runtime::subprocess;

/// Servers in this process, by the name that an entry of type `sdk` gives.
pub fn in_process(invocation: &Invocation) -> BTreeMap<String, InProcessServer> {
    // Our own host would name the same folder.
    let folder = invocation.env.working_folder.clone();
    let settings = workspace_settings(invocation, vec![folder], ClientRoots::Ignored);
    let workspace = InProcessServer::new(move |link| workspace::serve(settings.clone(), link));
    BTreeMap::from([
        (demo_server::NAME.to_owned(), demo_in_process(invocation)),
        (workspace::NAME.to_owned(), workspace),
    ])
}

/// What a workspace server is given. Commands get our variables without credentials.
pub fn workspace_settings(
    invocation: &Invocation,
    roots: Vec<PathBuf>,
    client_roots: ClientRoots,
) -> WorkspaceSettings {
    let env = &invocation.env;
    WorkspaceSettings {
        roots,
        client_roots,
        environment: child_env::child_environment(&env.variables, []),
        output_dir: env.paths.data.join("workspace"),
        guard: subprocess::watchdog_program(),
        pdf_reader: subprocess::pdf_reader_program(),
    }
}

/// The server. Its notes lie in the data folder.
fn demo_in_process(invocation: &Invocation) -> InProcessServer {
    let notes = invocation.env.paths.data.join("demonstration").join("notes.json");
    let server = demo::server(notes);
    InProcessServer::new(move |link| server.clone().serve(link))
}
