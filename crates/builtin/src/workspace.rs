//! A server to work in a folder with: reads, searches and changes files in the folders that it was given, and runs
//! commands there. Every client has a workplace of its own: which files it has read, where its shell stands, what
//! it started. All of that ends with its connection.
//!
//! The folders bind the tools for files. A command that `Bash` runs may do whatever its user may.

mod file_access;
mod files;
pub mod formats;
mod limits;
mod review_prompt;
mod session;
mod shell;
mod tools;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use switchboard_wire::process::child::{Program, WatchdogProgram};
use switchboard_wire::transport::Transport;

use crate::kit::server::Server;
use session::WorkspaceSession;

/// The name that it goes by.
pub const NAME: &str = "workspace";

/// What a workspace is given. Variables do not print: secrets may be among them.
#[derive(Clone)]
pub struct WorkspaceSettings {
    /// The folders that files may be touched in. Relative paths begin at the first one.
    pub roots: Vec<PathBuf>,
    /// Whether the client has a say in that.
    pub client_roots: ClientRoots,
    /// All variables that commands get.
    pub environment: Vec<(String, String)>,
    /// The folder below which the outputs of commands are kept while their client is there.
    pub output_dir: PathBuf,
    /// Who ends commands when this process can not.
    pub guard: Option<WatchdogProgram>,
    /// A program that reads the text out of PDFs: one whose `main` calls [`pdf_text::read_out`]. Without it they are not
    /// shown.
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

/// What becomes of the folders that a client says it works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRoots {
    /// They take the place of those in the settings.
    Used,
    /// Nothing: the settings have the last word.
    Ignored,
}

/// Talks to one client until its link ends, and ends what it started. Dropping the future does so too, but nobody
/// waits for it then.
pub async fn serve(settings: WorkspaceSettings, link: impl Transport) {
    serve_until(settings, link, std::future::pending()).await;
}

/// The same, until somebody wants it to end.
pub async fn serve_until(
    settings: WorkspaceSettings,
    link: impl Transport,
    stop: impl Future<Output = ()>,
) {
    let session = WorkspaceSession::new(settings);
    server(&session).serve_until(link, stop).await;
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
