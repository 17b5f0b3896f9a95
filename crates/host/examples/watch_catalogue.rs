//! Watches what servers offer: prints the catalogue whenever it changes. The server is the demo server, and the changes
//! are notes that the program adds.

use std::error::Error;
use std::time::Duration;

use serde_json::json;
use switchboard::catalogue::ListKind;
use switchboard::{Host, InProcessServer, Paths, Status};
use switchboard_builtin::demo;
use tokio::time::timeout;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let server = demo::server(folder.path().join("notes.json"));
    let host = Host::builder(Paths::in_dir(folder.path()))
        .server("notes", InProcessServer::new(move |transport| server.clone().serve(transport)))
        .trust("notes")
        .start()
        .await?;
    let mut watch = host.watch();
    for expected in 0..3 {
        // A snapshot never changes.
        let seen = watch.wait_for(|snapshot| {
            let view = snapshot.servers.get("notes").filter(|it| it.status == Status::Connected);
            view.is_some_and(|it| it.catalogue.items(ListKind::Resources).len() == expected)
        });
        let snapshot = timeout(Duration::from_secs(20), seen).await??.clone();
        let catalogue = &snapshot.servers["notes"].catalogue;
        let notes: Vec<&str> =
            catalogue.items(ListKind::Resources).iter().map(|it| it.name.as_str()).collect();
        println!("{} tools, notes: {notes:?}", catalogue.items(ListKind::Tools).len());
        let note = json!({"text": format!("number {expected}")});
        host.call("mcp__notes__add_note", note).await?;
    }
    host.shutdown().await;
    Ok(())
}
