//! A server in the program itself: made with the kit, and called through the host.

use std::error::Error;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use switchboard::{Host, InProcessServer, Paths};
use switchboard_builtin::kit::{HandlerContext, Server, Tool, ToolOutput};

/// The arguments of the tool; its input schema is made from them.
#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// The name of the person.
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let greet = Tool::typed("greet", "Greets a person.", async |_: HandlerContext, it: Greet| {
        Ok(ToolOutput::text(format!("Hello, {}!", it.name)))
    });
    let server = Arc::new(Server::new("greeter", "1.0.0").tool(greet.read_only()));

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
