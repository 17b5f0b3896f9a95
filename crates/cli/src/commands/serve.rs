//! `swb serve`: is a server itself, for any client that starts it, over standard input and output.
//! Nothing but the protocol goes to standard output.

use std::path::PathBuf;

use clap::Args;
use switchboard::wire::process;
use switchboard_builtin::workspace::{self, ClientRoots};

use crate::exit::Exit;
use crate::live::{self, Interrupts};
use crate::outcome::{Done, Failure};
use crate::report;
use crate::session::Session;
use crate::standard_streams;
use crate::workbench;

/// Arguments of `swb serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// A folder that files may be touched in, whatever the client says; may be repeated. Without it: the folders that
    /// the client works in, or the working folder
    #[arg(long = "root", value_name = "FOLDER")]
    pub roots: Vec<PathBuf>,
}

/// Runs the command. Its end, however it comes about, is a good one: that is how clients end their servers.
pub fn run(arguments: &Serve, session: &Session) -> Result<Done, Failure> {
    let (roots, client_roots) = folders(arguments, session)?;
    let settings = workbench::settings(session, roots, client_roots);
    process::raise_file_limit();
    if session.machine.terminal.can_ask {
        report::aside("this is a server: it waits for a client on standard input\n");
    }
    let runtime = live::runtime()?;
    let outcome = runtime.block_on(async {
        // What a killed predecessor may have left behind; nobody waits for it but the end.
        let reaping = tokio::task::spawn_blocking(process::reap);
        let mut interrupts = Interrupts::hear();
        let (link, written) = standard_streams::link().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").because(error)
        })?;
        workspace::serve_until(settings, link, interrupts.next()).await;
        written.wait().await;
        let _panicked = reaping.await;
        Ok(Done::default())
    });
    // A thread may still wait for standard input, which nobody closes.
    runtime.shutdown_background();
    outcome
}

fn folders(arguments: &Serve, session: &Session) -> Result<(Vec<PathBuf>, ClientRoots), Failure> {
    let here = &session.machine.working_folder;
    if arguments.roots.is_empty() {
        return Ok((vec![here.clone()], ClientRoots::Followed));
    }
    let folder = |root: &PathBuf| {
        let path = here.join(root);
        match path.is_dir() {
            true => Ok(path),
            false => {
                let message = format!("--root: `{}` is not a folder", root.display());
                Err(Failure::new(Exit::Usage, &message))
            }
        }
    };
    let roots = arguments.roots.iter().map(folder).collect::<Result<_, _>>()?;
    Ok((roots, ClientRoots::Ignored))
}
