//! A server to try a host with: something of everything that the protocol has, without network, keys or programs.
//! Its notes are kept in a file, so that one run sees what the one before did.

mod booking;
mod clock;
mod drawing;
mod notebook;
mod notes;
mod patience;

use std::path::PathBuf;
use std::sync::Arc;

use crate::content::ToolOutput;
use crate::context::HandlerContext;
use crate::news::ChangeNotifier;
use crate::server::Server;
use crate::tooling::Tool;
use notebook::NoteStore;
use serde::Deserialize;
use serde_json::json;

/// The name that it goes by.
pub const NAME: &str = "demo";

/// The longest text that is echoed, in characters.
const MAX_ECHO_LENGTH: usize = 100_000;

/// Makes the server. Its notes are kept in `file`, which need not be there yet.
pub fn server(file: PathBuf) -> Arc<Server> {
    let changes = ChangeNotifier::default();
    let notebook = Arc::new(NoteStore::new(file, changes.clone()));
    let server = Server::new("switchboard-demo", env!("CARGO_PKG_VERSION"))
        .title("Switchboard's demonstration")
        .instructions("A clock, notes and a few odd jobs, to try a host with.")
        .resources(Arc::new(notes::NoteResources::new(&notebook)), &changes)
        .tool(clock::now_tool())
        .tool(echo())
        .tool(drawing::draw_clock_tool())
        .tool(patience::count_slowly_tool())
        .tool(patience::long_text_tool())
        .tool(booking::book_table())
        .tool(booking::sign_guestbook());
    let server = notes::tools(&notebook).into_iter().fold(server, Server::tool);
    let server = notes::prompts(&notebook).into_iter().fold(server, Server::prompt);
    Arc::new(server)
}

#[derive(Deserialize)]
struct EchoArguments {
    text: String,
}

fn echo() -> Tool {
    Tool::new("echo", "Returns its text.", async |_: HandlerContext, it: EchoArguments| {
        Ok(ToolOutput::text(it.text.chars().take(MAX_ECHO_LENGTH).collect::<String>()))
    })
    .input_schema(json!({"text": {"type": "string", "maxLength": MAX_ECHO_LENGTH}}), &["text"])
    .read_only()
}
