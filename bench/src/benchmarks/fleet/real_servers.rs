//! Published servers, many at once, with the default settings: how many connect, and how long it takes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use super::FleetBench;
use super::verdict;
use crate::failure::{self, Failure};
use crate::output::table::milliseconds;

/// The copies of each server: 44 in all.
const COPIES: [(PublishedServer, usize); 5] = [
    (PublishedServer::Everything, 12),
    (PublishedServer::Filesystem, 12),
    (PublishedServer::Memory, 10),
    (PublishedServer::Time, 5),
    (PublishedServer::Git, 5),
];

/// A server from a package registry.
#[derive(Debug, Clone, Copy)]
enum PublishedServer {
    Everything,
    Filesystem,
    Memory,
    Time,
    Git,
}

impl PublishedServer {
    fn name(self) -> &'static str {
        match self {
            PublishedServer::Everything => "everything",
            PublishedServer::Filesystem => "filesystem",
            PublishedServer::Memory => "memory",
            PublishedServer::Time => "time",
            PublishedServer::Git => "git",
        }
    }

    /// The entry of the server that is installed below a folder.
    fn entry(self, installed: &Path) -> Json {
        let node = |name: &str, rest: &[&str]| {
            let script = format!("node_modules/@modelcontextprotocol/{name}/dist/index.js");
            let mut arguments = vec![installed.join(script).display().to_string()];
            arguments.extend(rest.iter().map(|it| (*it).to_owned()));
            json!({"command": "node", "args": arguments})
        };
        let python = |name: &str| json!({"command": installed.join("venv/bin").join(name)});
        match self {
            PublishedServer::Everything => node("server-everything", &["stdio"]),
            PublishedServer::Filesystem => node("server-filesystem", &["."]),
            PublishedServer::Memory => node("server-memory", &[]),
            PublishedServer::Time => python("mcp-server-time"),
            PublishedServer::Git => python("mcp-server-git"),
        }
    }
}

/// The result of one `swb status`.
pub struct RealServers {
    servers: usize,
    connected: usize,
    status_run: Duration,
}

impl RealServers {
    /// The rows of the table.
    pub fn rows(&self) -> [Vec<String>; 2] {
        [
            vec![
                "servers that connect".to_owned(),
                self.servers.to_string(),
                self.connected.to_string(),
                verdict(self.connected == self.servers),
            ],
            vec![
                "the whole of `swb status`".to_owned(),
                "–".to_owned(),
                format!("{} ms", milliseconds(self.status_run)),
                String::new(),
            ],
        ]
    }

    /// What was started, in words.
    pub fn description(&self) -> String {
        let parts = COPIES.map(|(server, copies)| format!("{copies} × {}", server.name()));
        format!("{} servers: {}", self.servers, parts.join(", "))
    }
}

/// Connects all servers that are installed below a folder.
pub fn measure(bench: &FleetBench, installed: &Path) -> Result<RealServers, Failure> {
    let mut servers = Map::new();
    for (server, copies) in COPIES {
        for index in 0..copies {
            servers.insert(format!("{}-{index}", server.name()), server.entry(installed));
        }
    }
    let count = servers.len();
    let sandbox = bench.sandbox(servers)?;
    let mut command = sandbox.command(&bench.swb);
    command.args(["status", "--json"]);
    let began = Instant::now();
    let text = failure::output(&mut command)?;
    let status_run = began.elapsed();
    let answer: Json = serde_json::from_str(&text).map_err(Failure::InvalidJson)?;
    let states = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let connected = states.iter().filter(|it| it["state"] == "connected").count();
    Ok(RealServers { servers: count, connected, status_run })
}
