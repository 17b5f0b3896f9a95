//! A server that follows a `Script`: the program that plays it, and how to find and configure that program.
//! `Served` plays the same inside a test. Nothing here uses our own protocol code: it is what that is tested against.
//!
//! Tools that are always there: `echo {text}`, `add {a, b}`, `slow {ms, steps}` (with progress; can be cancelled),
//! `big {bytes}`, `fail`, `explode {code}`, `crash`, `ask {kind, rounds}` (asks back; kinds `elicitation`, `booking`, `long`,
//! `unfit`, `url`, `gate`, `sampling`, `roots`, `all`, `nothing`, and in the legacy era `withdrawn` and `crowd`), `env` (names of variables; stdio only), `change_tools`, `touch {uri}`,
//! `count`, `whoami`, `route {region}` (over modern HTTP with the header `Mcp-Param-Region`), `end_listening`;
//! with the quirk `SaysWhatItIsTold` also `say {result}`, with the quirk `Talks` also `talk {text, ms, steps, ask}`.

mod catalogue;
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

/// The program that plays scripts.
#[derive(Debug)]
pub struct ScriptedProgram;

impl ScriptedProgram {
    /// A server entry that starts it over stdio, as JSON for a configuration file.
    pub fn config_entry(script: &Script) -> String {
        json!({"command": program(), "args": [script.to_json()]}).to_string()
    }
}

/// Where the program is that follows a script.
pub fn program() -> PathBuf {
    example_program("scripted")
}

/// Where a program of this crate is: built as an example, next to the tests that run now.
pub fn example_program(name: &str) -> PathBuf {
    let test_program = env::current_exe().expect("a test knows its own program");
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

/// What was written to a journal: the messages that arrived, in order. A journal not begun is empty.
pub fn read_journal(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a journal holds JSON")).collect()
}
