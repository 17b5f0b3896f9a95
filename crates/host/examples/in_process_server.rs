//! A server in the program itself: built with the kit, registered by name, called through the host.

use std::error::Error;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use switchboard::call::pipeline::{CallContext, ToolCall};
use switchboard::connection::in_process::InProcessServer;
use switchboard::connection::resolve::HostEnv;
use switchboard::host::{Host, HostOptions};
use switchboard::sources::loader;
use switchboard::sources::paths::Paths;
use switchboard_builtin::kit::context::HandlerContext;
use switchboard_builtin::kit::server::Server;
use switchboard_builtin::kit::tool::Tool;
use switchboard_builtin::kit::tool_output::ToolOutput;

#[derive(Deserialize)]
struct Greet {
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let greet = Tool::new("greet", "Greets a person.", async |_: HandlerContext, it: Greet| {
        Ok(ToolOutput::text(format!("Hello, {}!", it.name)))
    });
    let greet = greet.input_schema(json!({"name": {"type": "string"}}), &["name"]).read_only();
    let server = Arc::new(Server::new("greeter", "1.0.0").tool(greet));

    let folder = tempfile::tempdir()?;
    let env = HostEnv { working_folder: folder.path().to_owned(), ..HostEnv::default() };
    let paths = Paths::in_dir(folder.path());
    let mut options = HostOptions::new(paths.clone(), env);
    let in_process = InProcessServer::new(move |link| server.clone().serve(link));
    options.in_process.insert("greeter".to_owned(), in_process);
    let (host, task) = Host::start(options)?;
    let servers = r#"{"mcpServers": {"greeter": {"type": "sdk", "name": "greeter"}}}"#;
    host.apply(&loader::from_program("in_process_server", servers)).await;

    host.settled().await;

    let context = CallContext::new(&host, &paths)?.with_trusted_server("greeter");
    let call = ToolCall::new("mcp__greeter__greet", json!({"name": "Ada"}));
    println!("{}", host.call(&context, call).await?.text());
    host.shutdown().await;
    task.await?;
    Ok(())
}
