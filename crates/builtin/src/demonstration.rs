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

use crate::content::Output;
use crate::context::Context;
use crate::news::Herald;
use crate::server::Server;
use crate::tooling::Tool;
use notebook::Notebook;
use serde::Deserialize;
use serde_json::json;

/// The name that it goes by.
pub const NAME: &str = "demo";

/// The longest text that is echoed, in characters.
const LONGEST: usize = 100_000;

/// Makes the server. Its notes are kept in `file`, which need not be there yet.
pub fn server(file: PathBuf) -> Arc<Server> {
    let herald = Herald::default();
    let notebook = Arc::new(Notebook::new(file, herald.clone()));
    let server = Server::new("switchboard-demo", env!("CARGO_PKG_VERSION"))
        .title("Switchboard's demonstration")
        .instructions("A clock, notes and a few odd jobs, to try a host with.")
        .resources(Arc::new(notes::Shelf::new(&notebook)), &herald)
        .tool(clock::now())
        .tool(echo())
        .tool(drawing::draw_clock())
        .tool(patience::count_slowly())
        .tool(patience::long_text())
        .tool(booking::book_table())
        .tool(booking::sign_guestbook());
    let server = notes::tools(&notebook).into_iter().fold(server, Server::tool);
    let server = notes::prompts(&notebook).into_iter().fold(server, Server::prompt);
    Arc::new(server)
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

fn echo() -> Tool {
    Tool::new("echo", "Returns its text.", async |_: Context, it: Echo| {
        Ok(Output::text(it.text.chars().take(LONGEST).collect::<String>()))
    })
    .takes(json!({"text": {"type": "string", "maxLength": LONGEST}}), &["text"])
    .reads()
}
