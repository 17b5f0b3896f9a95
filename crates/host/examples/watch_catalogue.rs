//! Watches what servers offer: prints the catalogue whenever it changes. The server is the demonstration's, and the
//! changes are notes that are written while we watch.

use std::error::Error;
use std::time::Duration;

use serde_json::json;
use switchboard::address::Around;
use switchboard::calling::{Desk, ToolCall};
use switchboard::catalogue::List;
use switchboard::connection::Status;
use switchboard::engine::{Host, Options};
use switchboard::in_process::InProcess;
use switchboard::load;
use switchboard::places::Places;
use switchboard_builtin::demonstration;
use tokio::time::timeout;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let around = Around { working_folder: folder.path().to_owned(), ..Around::default() };
    let places = Places::below(folder.path());
    let mut options = Options::new(places.clone(), around);
    let server = demonstration::server(folder.path().join("notes.json"));
    let served = InProcess::new(move |link| server.clone().serve(link));
    options.in_process.insert("demo".to_owned(), served);
    let (host, task) = Host::start(options)?;
    let servers = r#"{"mcpServers": {"notes": {"type": "sdk", "name": "demo"}}}"#;
    host.apply(&load::of_program("watch_catalogue", servers)).await;

    host.settled().await;
    let desk = Desk::new(&host, &places)?.trusting("notes");
    let mut watch = host.watch();
    for wanted in 0..3 {
        // A snapshot is a whole: nothing in it changes while it is looked at.
        let seen = watch.wait_for(|snapshot| {
            let view = snapshot.servers.get("notes").filter(|it| it.status == Status::Connected);
            view.is_some_and(|it| it.catalogue.items(List::Resources).len() == wanted)
        });
        let snapshot = timeout(Duration::from_secs(20), seen).await??.clone();
        let catalogue = &snapshot.servers["notes"].catalogue;
        let notes: Vec<&str> =
            catalogue.items(List::Resources).iter().map(|it| it.name.as_str()).collect();
        println!("{} tools, notes: {notes:?}", catalogue.items(List::Tools).len());
        let note = json!({"text": format!("number {wanted}")});
        host.call(&desk, ToolCall::new("mcp__notes__add_note", note)).await?;
    }
    host.stop().await;
    task.await?;
    Ok(())
}
