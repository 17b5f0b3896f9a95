//! Connects to a server and calls one of its tools:
//! `cargo run --example connect_and_call -- echo '{"text": "hello"}' npx -y some-mcp-server`

use std::error::Error;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::address::Around;
use switchboard::ask::Question;
use switchboard::engine::{Host, Options};
use switchboard::load;
use switchboard::places::Places;
use switchboard::wire::message::Payload;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [tool, arguments, command, more @ ..] = &words[..] else {
        return Err("what to call, its arguments as JSON, and the server's command".into());
    };
    // Logs and memories of servers go below this folder.
    let folder = tempfile::tempdir()?;
    let around = Around {
        home: folder.path().to_owned(),
        working_folder: std::env::current_dir()?,
        variables: std::env::vars().collect(),
    };
    let (host, task) = Host::start(Options::new(Places::below(folder.path()), around))?;
    let servers = json!({"mcpServers": {"server": {"command": command, "args": more}}});
    host.apply(&load::of_program("connect_and_call", &servers.to_string())).await;

    // Asking waits for the connection. `Host::call` does the same under permission rules.
    let arguments: Json = serde_json::from_str(arguments)?;
    let params = Payload::of(&json!({"name": tool, "arguments": arguments}))?;
    let mut question = Question::harmless("tools/call", Duration::from_secs(60));
    question.params = Some(params);
    let answer = host.ask("server", question).await;
    host.stop().await;
    task.await?;
    let answer: Json = answer?.decode()?;
    println!("{}", answer["content"][0]["text"].as_str().unwrap_or_default());
    Ok(())
}
