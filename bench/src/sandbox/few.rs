//! Ten servers in the person's own settings, the same ten for `swb` and for each peer.
//! Their programs do not exist, so that a peer which starts them is done quickly.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::config_counts::ConfigCounts;

use super::{Sandbox, path_from, verify_config, write};
use crate::failure::Failure;

const SERVERS: usize = 10;

/// The names of the servers.
pub fn names() -> Vec<String> {
    (0..SERVERS).map(|index| format!("server-{index}")).collect()
}

/// Builds the scene and verifies that `swb` sees all of it.
pub fn build(swb: &Path, search_path: &OsString) -> Result<Sandbox, Failure> {
    let sandbox = Sandbox::new(search_path)?;
    let servers: Map<String, Json> = names()
        .into_iter()
        .map(|name| {
            let program = format!("no-such-program-for-{name}");
            let entry = json!({
                "command": program,
                "args": ["--verbose", "--root", "data"],
                "env": {"API_KEY": "none", "LOG_LEVEL": "info"},
            });
            (name, entry)
        })
        .collect();
    let settings = format!("{:#}\n", json!({"mcpServers": servers}));
    let paths = sandbox.query_json(swb, &["paths"])?;
    write(&path_from(&paths, "userSettings"), &settings)?;
    write(&sandbox.home.join(".claude.json"), &settings)?;
    write(&sandbox.home.join(".codex").join("config.toml"), &toml(&servers))?;
    let expected = ConfigCounts { servers: SERVERS, files: 1, problems: 0 };
    verify_config(&sandbox.query_json(swb, &["list", "--all"])?, expected)?;
    Ok(sandbox)
}

/// The servers as tables. Texts, lists of texts and bare keys are written alike in JSON and TOML.
fn toml(servers: &Map<String, Json>) -> String {
    let mut text = String::new();
    for (name, entry) in servers {
        text.push_str(&format!("[mcp_servers.{name}]\n"));
        text.push_str(&format!("command = {}\nargs = {}\n", entry["command"], entry["args"]));
        text.push_str(&format!("[mcp_servers.{name}.env]\n"));
        for (variable, value) in entry["env"].as_object().into_iter().flatten() {
            text.push_str(&format!("{variable} = {value}\n"));
        }
        text.push('\n');
    }
    text
}
