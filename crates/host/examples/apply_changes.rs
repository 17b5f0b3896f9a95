//! Changes which servers run while the host runs: `Host::apply` starts, restarts and stops servers, and says what it did.

use std::error::Error;

use switchboard::sources::loader::from_program;
use switchboard::{Host, InProcessServer, Paths};
use switchboard_builtin::demo;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let server = demo::server(folder.path().join("notes.json"));
    let server = InProcessServer::new(move |transport| server.clone().serve(transport));
    let host = Host::builder(Paths::in_dir(folder.path()))
        .configure(|options| {
            options.in_process.insert("demo".to_owned(), server);
        })
        .start()
        .await?;
    let one = r#"{"mcpServers": {"a": {"type": "sdk", "name": "demo"}}}"#;
    let other = r#"{"mcpServers": {"b": {"type": "sdk", "name": "demo"}, "c": {"command": ""}}}"#;
    for configuration in [one, one, other] {
        let changes = host.apply(&from_program("this program", configuration)).await;
        println!(
            "started {:?}, stopped {:?}, unchanged {:?}",
            changes.started, changes.stopped, changes.kept
        );
        for problem in changes.problems {
            println!("problem: {}", problem.kind);
        }
    }
    host.shutdown().await;
    Ok(())
}
