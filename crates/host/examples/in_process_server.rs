//! A server in the program itself: made with the kit, and called through the host.

use std::error::Error;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use switchboard::{Host, InProcessServer, Paths};
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
    let host = Host::builder(Paths::in_dir(folder.path()))
        .server("greeter", InProcessServer::new(move |transport| server.clone().serve(transport)))
        .trust("greeter")
        .start()
        .await?;
    let output = host.call("mcp__greeter__greet", json!({"name": "Ada"})).await?;
    println!("{}", output.text());
    host.shutdown().await;
    Ok(())
}
