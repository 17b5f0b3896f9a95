//! Servers that run in this process: the workspace server and the demo server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use switchboard::connection::InProcessServer;
use switchboard::sources::child_env;
use switchboard_builtin::demo;
use switchboard_builtin::workspace::{self, ClientRoots, WorkspaceSettings};

use crate::invocation::Invocation;
use crate::invocation::demo_server;
use crate::runtime::subprocess;

/// In-process servers, by the `name` of an entry of type `sdk`.
pub fn in_process(invocation: &Invocation) -> BTreeMap<String, InProcessServer> {
    // This program's own host would send the same folder as its root.
    let folder = invocation.env.working_folder.clone();
    let settings = workspace_settings(invocation, vec![folder], ClientRoots::Ignored);
    let workspace =
        InProcessServer::new(move |transport| workspace::serve(settings.clone(), transport));
    BTreeMap::from([
        (demo_server::NAME.to_owned(), demo_in_process(invocation)),
        (workspace::NAME.to_owned(), workspace),
    ])
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
