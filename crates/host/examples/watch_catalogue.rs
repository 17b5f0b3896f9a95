//! Watches a server's catalogue and prints it on each change. The server is the demo server; the changes are notes
//! that are written meanwhile.

use std::error::Error;
use std::time::Duration;

use serde_json::json;
use switchboard::call::pipeline::{CallContext, ToolCall};
use switchboard::catalogue::fetch::ListKind;
use switchboard::connection::Status;
use switchboard::connection::in_process::InProcessServer;
use switchboard::connection::resolve::HostEnv;
use switchboard::host::{Host, HostOptions};
use switchboard::sources::loader;
use switchboard::sources::paths::Paths;
use switchboard_builtin::demo;
use tokio::time::timeout;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let env = HostEnv { working_folder: folder.path().to_owned(), ..HostEnv::default() };
    let paths = Paths::in_dir(folder.path());
    let mut options = HostOptions::new(paths.clone(), env);
    let server = demo::server(folder.path().join("notes.json"));
    let in_process = InProcessServer::new(move |link| server.clone().serve(link));
    options.in_process.insert("demo".to_owned(), in_process);
    let (host, task) = Host::start(options)?;
    let servers = r#"{"mcpServers": {"notes": {"type": "sdk", "name": "demo"}}}"#;
    host.apply(&loader::from_program("watch_catalogue", servers)).await;

    host.settled().await;
    let context = CallContext::new(&host, &paths)?.with_trusted_server("notes");
    let mut watch = host.watch();
    for count in 0..3 {
        // A snapshot is immutable.
        let seen = watch.wait_for(|snapshot| {
            let view = snapshot.servers.get("notes").filter(|it| it.status == Status::Connected);
            view.is_some_and(|it| it.catalogue.items(ListKind::Resources).len() == count)
        });
        let snapshot = timeout(Duration::from_secs(20), seen).await??.clone();
        let catalogue = &snapshot.servers["notes"].catalogue;
        let notes: Vec<&str> =
            catalogue.items(ListKind::Resources).iter().map(|it| it.name.as_str()).collect();
        println!("{} tools, notes: {notes:?}", catalogue.items(ListKind::Tools).len());
        let note = json!({"text": format!("number {count}")});
        host.call(&context, ToolCall::new("mcp__notes__add_note", note)).await?;
    }
    host.shutdown().await;
    task.await?;
    Ok(())
}
