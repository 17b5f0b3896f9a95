//! Connects to a server and calls one of its tools:
//! `cargo run --example connect_and_call -- echo '{"text": "hello"}' npx -y some-mcp-server`

use std::error::Error;

use serde_json::json;
use switchboard::call::pipeline::{CallContext, ToolCall};
use switchboard::connection::resolve::HostEnv;
use switchboard::host::{Host, HostOptions};
use switchboard::sources::loader;
use switchboard::sources::paths::Paths;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments_line: Vec<String> = std::env::args().skip(1).collect();
    let [tool, arguments, command, more @ ..] = &arguments_line[..] else {
        return Err("what to call, its arguments as JSON, and the server's command".into());
    };
    // Logs and state go below this folder.
    let folder = tempfile::tempdir()?;
    let paths = Paths::in_dir(folder.path());
    let env = HostEnv {
        home: folder.path().to_owned(),
        working_folder: std::env::current_dir()?,
        variables: std::env::vars().collect(),
    };
    let (host, task) = Host::start(HostOptions::new(paths.clone(), env))?;
    let servers = json!({"mcpServers": {"server": {"command": command, "args": more}}});
    host.apply(&loader::from_program("connect_and_call", &servers.to_string())).await;
    host.settled().await;

    // The user chose the server, so its tools are trusted.
    let context = CallContext::new(&host, &paths)?.with_trusted_server("server");
    let call = ToolCall::new(&format!("mcp__server__{tool}"), serde_json::from_str(arguments)?);
    let result = host.call(&context, call).await;
    host.shutdown().await;
    task.await?;
    println!("{}", result?.text());
    Ok(())
}
