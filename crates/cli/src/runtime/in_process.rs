//! The workspace server for this run: which folders, which variables, where its outputs lie; and every server that runs
//! in this process, by name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use switchboard::connection::in_process::InProcessServer;
use switchboard::sources::child_env;
use switchboard::wire::process::child::Program;
use switchboard_builtin::workspace::{self, ClientRoots, WorkspaceSettings};

use crate::invocation::Invocation;
use crate::invocation::demo_server;
use crate::output::report;
use crate::runtime::host;

/// The word that makes this program a reader of one PDF. Nobody types it.
const PDF_READER_ARGUMENT: &str = "__pdf";

/// Servers in this process, by the name that an entry of type `sdk` gives.
pub fn in_process(session: &Invocation) -> BTreeMap<String, InProcessServer> {
    // Our own host would name the same folder.
    let folder = session.env.working_folder.clone();
    let settings = workspace_settings(session, vec![folder], ClientRoots::Ignored);
    let workspace = InProcessServer::new(move |link| workspace::serve(settings.clone(), link));
    BTreeMap::from([
        (demo_server::NAME.to_owned(), demo_server::in_process(session)),
        (workspace::NAME.to_owned(), workspace),
    ])
}

/// What a workspace server is given. Commands get our variables without credentials.
pub fn workspace_settings(
    session: &Invocation,
    roots: Vec<PathBuf>,
    client_roots: ClientRoots,
) -> WorkspaceSettings {
    let env = &session.env;
    WorkspaceSettings {
        roots,
        client_roots,
        environment: child_env::child_environment(&env.variables, []),
        output_dir: env.paths.data.join("workspace"),
        guard: host::watchdog_program(),
        pdf_reader: std::env::current_exe().ok().map(|program| Program {
            command: program.into(),
            args: vec![PDF_READER_ARGUMENT.into()],
            env: Vec::new(),
            cwd: None,
        }),
    }
}

/// Was this program started to read a PDF?
pub fn is_pdf_reader() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == PDF_READER_ARGUMENT)
}

/// Reads the PDF on standard input and writes its text; that is all this process does.
pub fn read_pdf() -> ExitCode {
    match workspace::formats::pdf_text::run_pdf_reader(
        std::io::stdin().lock(),
        std::io::stdout().lock(),
    ) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::print_stderr(&format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}
