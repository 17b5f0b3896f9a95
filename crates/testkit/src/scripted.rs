//! A scripted server: it follows a [`Script`], as a program or inside a test
//! ([`ScriptedServer`](crate::ScriptedServer)). It shares no code with Switchboard's protocol implementation,
//! which is tested against it.
//!
//! Built-in tools: `echo {text}`, `add {a, b}`, `slow {ms, steps}` (with progress; can be cancelled), `big {bytes}`,
//! `fail`, `explode {code}`, `crash`, `ask {kind, rounds}` (sends requests to the client; kinds `elicitation`,
//! `booking`, `long`, `unfit`, `url`, `gate`, `sampling`, `roots`, `all`, `nothing`, and in the legacy era
//! `withdrawn` and `crowd`), `env` (names of variables; stdio only), `change_tools`, `touch {uri}`, `count`,
//! `whoami`, `route {region}` (over modern HTTP with the header `Mcp-Param-Region`), `end_listening`; with the quirk
//! `HasSayTool` also `say {result}`, with the quirk `HasTalkTool` also `talk {text, ms, steps, ask}`.

mod catalogue;
pub mod channel;
mod client_channel;
mod client_session;
mod dispatch;
mod protocol;
pub mod quirk;
mod response_quirks;
pub mod script;
mod server_state;
mod taint;
pub(crate) mod test_server;
mod tools;
pub mod transport;

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};

pub(crate) use server_state::{RunMode, ServerState};
pub(crate) use transport::network::{RunningServer, router, spawn_server};
pub use transport::network::{Transport, serve_network};
pub use transport::process_quirks::run_if_grandchild;
pub use transport::stdio::serve_stdio;

use crate::scripted::script::Script;

/// The program that runs scripts.
#[derive(Debug)]
pub struct ScriptedProgram;

impl ScriptedProgram {
    /// A server entry that starts the program over stdio, as JSON for a configuration file.
    pub fn config_entry(script: &Script) -> String {
        json!({"command": program(), "args": [script.to_json()]}).to_string()
    }
}

/// The path of the program that runs scripts.
pub fn program() -> PathBuf {
    example_program("scripted")
}

/// The path of an example program of this crate, built beside the running tests.
pub fn example_program(name: &str) -> PathBuf {
    let test_program = env::current_exe().expect("a test knows its own path");
    let found = test_program
        .ancestors()
        .skip(1)
        .map(|folder| folder.join("examples").join(name))
        .find(|it| it.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "the program `{name}` is not built beside {}; build and test with `--workspace`, \
             which builds the examples of every crate",
            test_program.display()
        )
    })
}

/// The messages in a journal, in order of arrival. A missing journal is empty.
pub fn read_journal(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a journal holds JSON")).collect()
}
