//! The entry that starts Switchboard, in the format of each client.

use serde_json::{Map, Value, json};

use crate::import::HostApp;

/// The entry that stays in a client's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolEntry {
    /// Its name in the file.
    pub name: String,
    /// The program to run: `swb` or its path.
    pub command: String,
    /// The arguments of the program.
    pub arguments: Vec<String>,
}

impl PoolEntry {
    /// An entry that runs `swb serve --pool`.
    pub fn new(name: &str, command: &str) -> PoolEntry {
        let arguments = ["serve", "--pool"].map(str::to_owned).to_vec();
        PoolEntry { name: name.to_owned(), command: command.to_owned(), arguments }
    }

    /// The value under the entry's name.
    pub(super) fn value_for(&self, app: HostApp) -> Value {
        let PoolEntry { name, command, arguments } = self;
        match app {
            HostApp::ClaudeCode | HostApp::VsCode => {
                json!({"type": "stdio", "command": command, "args": arguments})
            }
            HostApp::ClaudeDesktop
            | HostApp::Cursor
            | HostApp::Codex
            | HostApp::Gemini
            | HostApp::Windsurf => json!({"command": command, "args": arguments}),
            HostApp::Zed => json!({"command": command, "args": arguments, "env": {}}),
            HostApp::Opencode => {
                let mut words = vec![command.clone()];
                words.extend(arguments.iter().cloned());
                json!({"type": "local", "command": words})
            }
            HostApp::Goose => json!({
                "enabled": true,
                "type": "stdio",
                "name": name,
                "description": "All servers of Switchboard",
                "cmd": command,
                "args": arguments,
                "envs": Map::new(),
                "env_keys": [],
                "timeout": 300,
            }),
        }
    }
}
