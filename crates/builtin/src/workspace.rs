//! The workspace server: reads, searches and changes files in the allowed folders, and runs shell commands.
//! Each client has its own session: the files it has read, the shell's working folder, and its commands. The
//! session ends with the connection.
//!
//! The allowed folders restrict the file tools. A command of `Bash` can do whatever its user can.

mod file_access;
mod files;
pub mod formats;
mod limits;
pub mod proposed_edit;
mod review_prompt;
mod session;
mod shell;
mod tools;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use switchboard_wire::process::child::{Program, WatchdogProgram};
use switchboard_wire::transport::Transport;
use tokio::sync::watch;

use crate::kit::server::Server;
use session::WorkspaceSession;

/// The name of the server.
pub const NAME: &str = "workspace";

/// The names of its tools.
pub const TOOLS: [&str; 10] =
    ["Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "LS", "Bash", "BashOutput", "KillBash"];

/// Folders that are allowed besides those in the settings. Clones share them; they can change while a client is
/// connected.
#[derive(Debug, Clone, Default)]
pub struct AddedRoots(watch::Sender<Vec<PathBuf>>);

impl AddedRoots {
    /// These folders.
    pub fn new(folders: Vec<PathBuf>) -> AddedRoots {
        AddedRoots(watch::Sender::new(folders))
    }

    /// The folders now.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.0.borrow().clone()
    }

    /// Adds folders for later calls.
    pub fn add(&self, folders: Vec<PathBuf>) {
        self.0.send_modify(|all| {
            for folder in folders {
                if !all.contains(&folder) {
                    all.push(folder);
                }
            }
        });
    }

    /// Removes folders that were added.
    pub fn remove(&self, folders: &[PathBuf]) {
        self.0.send_modify(|all| all.retain(|it| !folders.contains(it)));
    }
}

/// The settings of a workspace. The environment does not print, because it may contain secrets.
#[derive(Clone)]
pub struct WorkspaceSettings {
    /// The allowed folders. Relative paths start at the first one.
    pub roots: Vec<PathBuf>,
    /// Folders that are allowed besides, where the client's roots are ignored.
    pub added_roots: AddedRoots,
    /// Whether the client's roots are used.
    pub client_roots: ClientRoots,
    /// All environment variables of commands.
    pub environment: Vec<(String, String)>,
    /// The folder for the outputs of commands, kept while their client is connected.
    pub output_dir: PathBuf,
    /// The watchdog that ends commands if this process cannot.
    pub guard: Option<WatchdogProgram>,
    /// The program that extracts text from PDFs: its `main` calls [`formats::pdf_text::run_pdf_reader`].
    /// Without it PDFs are not shown.
    pub pdf_reader: Option<Program>,
}

impl fmt::Debug for WorkspaceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkspaceSettings")
            .field("roots", &self.roots)
            .field("client_roots", &self.client_roots)
            .finish_non_exhaustive()
    }
}

/// How the client's roots are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRoots {
    /// They replace the folders in the settings.
    Used,
    /// They are ignored.
    Ignored,
}

/// Serves one client until its transport ends, then ends its commands. Dropping the future also ends them,
/// without waiting.
pub async fn serve(settings: WorkspaceSettings, transport: impl Transport) {
    serve_until(settings, transport, std::future::pending()).await;
}

/// The same, until `stop` completes.
pub async fn serve_until(
    settings: WorkspaceSettings,
    transport: impl Transport,
    stop: impl Future<Output = ()>,
) {
    let session = WorkspaceSession::new(settings);
    server(&session).serve_until(transport, stop).await;
    session.shut_down().await;
}

fn server(session: &Arc<WorkspaceSession>) -> Arc<Server> {
    let server = Server::new("switchboard-workspace", env!("CARGO_PKG_VERSION"))
        .title("Switchboard's workspace")
        .instructions(
            "Works on files in the allowed folders. Read a file before you Edit or Write it. Search with Glob and \
             Grep rather than with Bash. Relative paths begin at the first allowed folder.",
        )
        .tool(tools::read::tool(session))
        .tool(tools::write::tool(session))
        .tool(tools::edit::tool(session))
        .tool(tools::multi_edit::tool(session))
        .tool(tools::glob::tool(session))
        .tool(tools::grep::tool(session))
        .tool(tools::ls::tool(session))
        .tool(tools::bash::tool(session))
        .tool(tools::bash_output::tool(session))
        .tool(tools::kill_bash::tool(session))
        .prompt(review_prompt::prompt());
    Arc::new(server)
}
