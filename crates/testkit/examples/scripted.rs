//! Runs a script: `scripted '<script>'` on stdio, `scripted --http|--sse|--ws '<script>'` on a free port, whose URL
//! it prints first.

use std::env;
use std::process::ExitCode;

use testkit::Script;
use testkit::scripted::{Transport, run_if_grandchild, serve_network, serve_stdio};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some(first) = arguments.first() {
        run_if_grandchild(first);
    }
    let (transport, text) = match arguments.as_slice() {
        [text] => (None, text),
        [transport, text] => (Some(transport.as_str()), text),
        _ => return usage("one script is needed"),
    };
    let script: Script = match serde_json::from_str(text) {
        Ok(script) => script,
        Err(error) => return usage(&format!("this is no script: {error}")),
    };
    let transport = match transport {
        None => serve_stdio(script),
        Some("--http") => Transport::Http,
        Some("--sse") => Transport::Sse,
        Some("--ws") => Transport::WebSocket,
        Some(other) => return usage(&format!("there is no `{other}`")),
    };
    serve_network(transport, script)
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("error: {problem}");
    eprintln!("usage: scripted [--http|--sse|--ws] '<script>'");
    ExitCode::from(2)
}
