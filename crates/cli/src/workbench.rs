//! The workspace server for this run: which folders, which variables, where its outputs lie; and every server that runs
//! in this process, by name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use switchboard::in_process::InProcess;
use switchboard::inheritance;
use switchboard_builtin::workspace::{self, ClientRoots, Settings};

use crate::demo;
use crate::live;
use crate::session::Session;

/// Servers in this process, by the name that an entry of type `sdk` gives.
pub fn in_process(session: &Session) -> BTreeMap<String, InProcess> {
    // Our own host would name the same folder.
    let folder = session.machine.working_folder.clone();
    let settings = settings(session, vec![folder], ClientRoots::Ignored);
    let workspace = InProcess::new(move |link| workspace::serve(settings.clone(), link));
    BTreeMap::from([
        (demo::NAME.to_owned(), demo::in_process(session)),
        (workspace::NAME.to_owned(), workspace),
    ])
}

/// What a workspace server is given. Commands get our variables without credentials.
pub fn settings(session: &Session, roots: Vec<PathBuf>, client_roots: ClientRoots) -> Settings {
    let machine = &session.machine;
    Settings {
        roots,
        client_roots,
        environment: inheritance::environment(&machine.variables, []),
        outputs: machine.places.data.join("workspace"),
        guard: live::guard_program(),
    }
}
