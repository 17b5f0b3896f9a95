//! The demo server: uses every feature of the protocol, without network, keys or programs. Its notes are stored
//! in a file and survive restarts.

mod draw_clock_tool;
mod elicitation_tools;
mod note_store;
mod notes;
mod now_tool;
mod png;
mod slow_and_large_tools;

use std::path::PathBuf;
use std::sync::Arc;

use crate::kit::change_notifier::ChangeNotifier;
use crate::kit::context::HandlerContext;
use crate::kit::server::Server;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use note_store::NoteStore;
use schemars::JsonSchema;
use serde::Deserialize;

/// The name of the server.
pub const NAME: &str = "demo";

/// The maximum length of an echoed text, in characters.
const MAX_ECHO_LENGTH: usize = 100_000;

/// Makes the server. `file` stores the notes and need not exist.
pub fn server(file: PathBuf) -> Arc<Server> {
    let changes = ChangeNotifier::default();
    let note_store = Arc::new(NoteStore::new(file, changes.clone()));
    let server = Server::new("switchboard-demo", env!("CARGO_PKG_VERSION"))
        .title("Switchboard's demonstration")
        .instructions("A clock, notes and a few other tools for trying out a host.")
        .resources(Arc::new(notes::NoteResources::new(&note_store)), &changes)
        .tool(now_tool::now_tool())
        .tool(echo())
        .tool(draw_clock_tool::draw_clock_tool())
        .tool(slow_and_large_tools::count_slowly_tool())
        .tool(slow_and_large_tools::long_text_tool())
        .tool(elicitation_tools::book_table())
        .tool(elicitation_tools::sign_guestbook());
    let server = notes::tools(&note_store).into_iter().fold(server, Server::tool);
    let server = notes::prompts(&note_store).into_iter().fold(server, Server::prompt);
    Arc::new(server)
}

/// The arguments of a tool that takes none.
#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

#[derive(Deserialize, JsonSchema)]
struct EchoArguments {
    #[schemars(length(max = MAX_ECHO_LENGTH))]
    text: String,
}

fn echo() -> Tool {
    Tool::typed("echo", "Returns its text.", async |_: HandlerContext, it: EchoArguments| {
        Ok(ToolOutput::text(it.text.chars().take(MAX_ECHO_LENGTH).collect::<String>()))
    })
    .read_only()
}
