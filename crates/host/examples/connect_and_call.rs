//! Starts a server and calls one of its tools:
//! `cargo run --example connect_and_call -- echo '{"text": "hello"}' npx -y some-mcp-server`

use std::error::Error;

use switchboard::{Host, HostEnv, Paths, Stdio};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [tool, arguments, command, args @ ..] = &words[..] else {
        return Err("usage: connect_and_call TOOL ARGUMENTS_AS_JSON COMMAND [ARGS]".into());
    };
    // Logs and caches go below this folder.
    let folder = tempfile::tempdir()?;
    let env = HostEnv {
        home: folder.path().to_owned(),
        working_folder: std::env::current_dir()?,
        variables: std::env::vars().collect(),
    };
    // The user named the server on the command line, so its tools need no further permission.
    let host = Host::builder(Paths::in_dir(folder.path()))
        .env(env)
        .server("server", Stdio::new(command).args(args))
        .trust("server")
        .start()
        .await?;
    let name = format!("mcp__server__{tool}");
    let result = host.call(&name, serde_json::from_str(arguments)?).await;
    host.shutdown().await;
    println!("{}", result?.text());
    Ok(())
}
