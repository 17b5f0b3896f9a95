//! Two hundred servers in thirty files, built so that every step of loading has work to do:
//! deep projects, variables, names defined twice, the same server under two names, and a policy.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::config_counts::ConfigCounts;

use super::{Sandbox, path_from, verify_config, write};
use crate::failure::Failure;

const PROJECTS: usize = 24;
const PER_PROJECT: usize = 7;
const USER: usize = 10;
const LOCAL: usize = 6;
const PLUGINS: usize = 4;
const PER_PLUGIN: usize = 4;

/// What is built.
pub const EXPECTED: ConfigCounts = ConfigCounts {
    servers: PROJECTS * PER_PROJECT + USER + LOCAL + PLUGINS * PER_PLUGIN,
    files: PROJECTS + 2 + PLUGINS,
    problems: 0,
};

/// How many different programs the servers run; policy lists name some of them.
const PROGRAMS: usize = 15;

/// The scene, and how many definitions ended in each state.
#[derive(Debug)]
pub struct ManyServers {
    /// The scene.
    pub sandbox: Sandbox,
    /// Definitions by state.
    pub states: BTreeMap<String, usize>,
}

/// Builds the scene and verifies that `swb` sees all of it.
pub fn build(swb: &Path, search_path: &OsString) -> Result<ManyServers, Failure> {
    let mut sandbox = Sandbox::new(search_path)?;
    let mut servers = ServerGenerator { next: 0 };
    let project = sandbox.home.join("project");
    let mut folder = project.clone();
    for _ in 0..PROJECTS {
        write(&folder.join(".mcp.json"), &file(servers.take(PER_PROJECT)))?;
        sandbox.working_folder = folder.clone();
        folder.push("part");
    }
    write(&project.join(".git").join("HEAD"), "ref: refs/heads/main\n")?;
    let paths = sandbox.query_json(swb, &["paths"])?;
    write(&path_from(&paths, "localSettings"), &file(servers.take(LOCAL)))?;
    let mut user = json!({"mcpServers": servers.take(USER)});
    user["allowedMcpServers"] = allowed().into();
    user["deniedMcpServers"] = denied().into();
    write(&path_from(&paths, "userSettings"), &format!("{user:#}\n"))?;
    for plugin in 0..PLUGINS {
        let folder = path_from(&paths, "plugins").join(format!("plugin-{plugin}"));
        write(&folder.join(".mcp.json"), &file(servers.take(PER_PLUGIN)))?;
    }
    let all = sandbox.query_json(swb, &["list", "--all"])?;
    verify_config(&all, EXPECTED)?;
    Ok(ManyServers { sandbox, states: states(&all) })
}

fn file(servers: Map<String, Json>) -> String {
    format!("{:#}\n", json!({"mcpServers": servers}))
}

fn states(all: &Json) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for server in all["servers"].as_array().into_iter().flatten() {
        let state = server["state"].as_str().unwrap_or("unknown");
        *states.entry(state.to_owned()).or_default() += 1;
    }
    states
}

/// Makes servers, each a little different from the one before.
struct ServerGenerator {
    next: usize,
}

impl ServerGenerator {
    /// So many servers for one file. The first has the same name in every file, so that one wins.
    fn take(&mut self, count: usize) -> Map<String, Json> {
        let mut servers = Map::new();
        for position in 0..count {
            let number = self.next;
            self.next += 1;
            let name = if position == 0 { "shared".to_owned() } else { format!("server-{number}") };
            servers.insert(name, if number % 3 == 2 { remote(number) } else { local(number) });
        }
        servers
    }
}

fn local(number: usize) -> Json {
    let mut entry = json!({
        "command": "${RUNNER:-npx}",
        "args": arguments(number % PROGRAMS),
        "description": format!("server number {number} of the benchmark"),
    });
    entry["env"] = json!({
        (format!("API_KEY_{number}")): format!("${{API_KEY_{number}:-none}}"),
        "CACHE": format!("${{HOME}}/cache/{number}"),
        "LOG_LEVEL": "${LOG_LEVEL:-info}",
    });
    entry
}

fn arguments(program: usize) -> Json {
    json!(["-y", format!("server-{program}"), "--root", "${WORKSPACE:-.}/data", "--verbose"])
}

fn remote(number: usize) -> Json {
    json!({
        "type": "http",
        "url": format!("https://${{REGION:-eu}}.example.com/team-{}/mcp", number % PROGRAMS),
        "headers": {
            "Authorization": format!("Bearer ${{TOKEN_{number}:-none}}"),
            "X-Region": "${REGION:-eu}",
            "X-Team": "${TEAM:-bench}",
        },
        "timeout": 30_000,
    })
}

fn command(program: usize) -> Vec<Json> {
    let mut argv = vec![json!("${RUNNER:-npx}")];
    argv.extend(arguments(program).as_array().into_iter().flatten().cloned());
    argv
}

/// Twenty entries that allow every URL and all programs but the last.
fn allowed() -> Vec<Json> {
    let commands = (0..PROGRAMS - 1).map(|program| json!({"serverCommand": command(program)}));
    let names = ["shared", "server-1", "server-2"].map(|name| json!({"serverName": name}));
    let urls =
        ["https://internal.example.org/*", "https://*.example.net/mcp", "https://*.example.com/*"]
            .map(|url| json!({"serverUrl": url}));
    commands.chain(names).chain(urls).collect()
}

/// Twenty entries, most of which match nothing.
fn denied() -> Vec<Json> {
    let names = (0..6).map(|index| json!({"serverName": format!("unwanted-{index}")}));
    let commands = (0..6).map(|index| json!({"serverCommand": command(PROGRAMS + index)}));
    let urls =
        (0..6).map(|index| json!({"serverUrl": format!("https://*.example.com/no-{index}/*")}));
    let matching = [
        json!({"serverName": "server-10"}),
        json!({"serverUrl": "https://*.example.com/team-5/*"}),
    ];
    names.chain(commands).chain(urls).chain(matching).collect()
}
