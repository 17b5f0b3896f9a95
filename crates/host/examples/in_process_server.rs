//! A server in the program itself: made with the kit, registered by name, called through the host.

use std::error::Error;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use switchboard::address::Around;
use switchboard::calling::{Desk, ToolCall};
use switchboard::engine::{Host, Options};
use switchboard::in_process::InProcess;
use switchboard::load;
use switchboard::places::Places;
use switchboard_builtin::content::Output;
use switchboard_builtin::context::Context;
use switchboard_builtin::server::Server;
use switchboard_builtin::tooling::Tool;

#[derive(Deserialize)]
struct Greet {
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let greet = Tool::new("greet", "Greets somebody.", async |_: Context, it: Greet| {
        Ok(Output::text(format!("Hello, {}!", it.name)))
    });
    let greet = greet.takes(json!({"name": {"type": "string"}}), &["name"]).reads();
    let server = Arc::new(Server::new("greeter", "1.0.0").tool(greet));

    let folder = tempfile::tempdir()?;
    let around = Around { working_folder: folder.path().to_owned(), ..Around::default() };
    let places = Places::below(folder.path());
    let mut options = Options::new(places.clone(), around);
    let served = InProcess::new(move |link| server.clone().serve(link));
    options.in_process.insert("greeter".to_owned(), served);
    let (host, task) = Host::start(options)?;
    let servers = r#"{"mcpServers": {"greeter": {"type": "sdk", "name": "greeter"}}}"#;
    host.apply(&load::of_program("in_process_server", servers)).await;

    host.settled().await;

    let desk = Desk::new(&host, &places)?.trusting("greeter");
    let call = ToolCall::new("mcp__greeter__greet", json!({"name": "Ada"}));
    println!("{}", host.call(&desk, call).await?.text());
    host.stop().await;
    task.await?;
    Ok(())
}
