//! Prompts, completions and resources through typed requests. `Host::request` sends any other method.

use std::error::Error;

use serde_json::json;
use switchboard::{Complete, GetPrompt, Host, InProcessServer, Paths, ReadResource};
use switchboard_builtin::demo;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let server = demo::server(folder.path().join("notes.json"));
    let host = Host::builder(Paths::in_dir(folder.path()))
        .server("notes", InProcessServer::new(move |transport| server.clone().serve(transport)))
        .trust("notes")
        .start()
        .await?;
    host.call("mcp__notes__add_note", json!({"text": "Buy milk"})).await?;

    let note = host.read_resource("notes", ReadResource::new("note://1")).await?;
    println!("resource: {}", note.text());
    for prompt in host.prompts("notes").await? {
        let arguments: Vec<&str> = prompt.arguments.iter().map(|it| it.name.as_str()).collect();
        println!("prompt: {} {arguments:?}", prompt.name);
    }
    let completion = Complete::prompt_argument("write_about", "topic", "Buy");
    println!("topics: {:?}", host.complete("notes", completion).await?.values);
    let prompt = GetPrompt::new("write_about").argument("topic", "milk");
    for message in host.get_prompt("notes", prompt).await?.messages {
        println!("{:?}: {}", message.role, message.content.text().unwrap_or("(no text)"));
    }
    host.shutdown().await;
    Ok(())
}
