//! A home whose sessions use one shared host, and what that host and its servers are. Ends the host.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

use crate::child_server::echo_command;
use crate::failure::{self, Failure};
use crate::process_stats;
use crate::sandbox::{Sandbox, Sharing};
use crate::workspace::Workspace;

/// The line that a host logs when it has bound its socket.
const STARTED: &str = "shared host started";

/// A home with servers. Dropping it stops the shared host.
pub struct SharedHome {
    /// The home.
    pub sandbox: Sandbox,
    /// The program.
    pub swb: PathBuf,
}

/// A process of the home.
struct RunningProcess {
    pid: u32,
    command_line: String,
}

impl SharedHome {
    /// A home with these servers. Its sessions use the shared host.
    pub fn open(
        workspace: &Workspace,
        swb: &Path,
        servers: Map<String, Json>,
    ) -> Result<SharedHome, Failure> {
        let mut sandbox = Sandbox::with_servers(swb, &workspace.search_path, servers)?;
        sandbox.set_sharing(Sharing::On);
        Ok(SharedHome { sandbox, swb: swb.to_owned() })
    }

    /// The process id of the shared host.
    pub fn host_pid(&self) -> Result<u32, Failure> {
        let status = self.sandbox.query_json(&self.swb, &["host", "status"])?;
        let pid = status["pid"].as_u64().and_then(|it| u32::try_from(it).ok());
        pid.ok_or_else(|| Failure::client("swb host status", "no shared host runs"))
    }

    /// The folder of the socket of the shared host.
    pub fn host_folder(&self) -> Result<PathBuf, Failure> {
        let status = self.sandbox.query_json(&self.swb, &["host", "status"])?;
        Ok(PathBuf::from(status["folder"].as_str().unwrap_or_default()))
    }

    /// The number of hosts that ever listened in this home.
    pub fn hosts_started(&self) -> Result<usize, Failure> {
        let mut logs = self.sandbox.command(&self.swb);
        logs.args(["host", "logs", "--lines", "0"]);
        Ok(failure::output(&mut logs)?.lines().filter(|it| it.contains(STARTED)).count())
    }

    /// The number of calls that a shared server answered.
    pub fn shared_calls(&self) -> Result<u64, Failure> {
        let ps = self.sandbox.query_json(&self.swb, &["ps"])?;
        let servers = ps["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(servers.iter().filter_map(|it| it["calls"].as_u64()).sum())
    }

    /// The number of servers that run, and their memory in megabytes.
    pub fn servers(&self) -> Result<(usize, f64), Failure> {
        let servers = self.processes()?;
        let servers = servers.iter().filter(|it| it.command_line.contains("__echo"));
        let memory: Vec<f64> =
            servers.filter_map(|it| process_stats::resident_megabytes(it.pid).ok()).collect();
        Ok((memory.len(), memory.iter().sum()))
    }

    /// All processes that have this home.
    fn processes(&self) -> Result<Vec<RunningProcess>, Failure> {
        let folder = Path::new("/proc");
        let entries = fs::read_dir(folder).map_err(|error| Failure::file(folder, error))?;
        let home = format!("HOME={}", self.sandbox.home().display()).into_bytes();
        let process = |pid: u32| {
            let path = folder.join(pid.to_string());
            let variables = fs::read(path.join("environ")).ok()?;
            let is_here = variables.split(|it| *it == 0).any(|it| it == home);
            let line = fs::read(path.join("cmdline")).ok().filter(|_| is_here)?;
            let command_line = String::from_utf8_lossy(&line).replace('\0', " ");
            Some(RunningProcess { pid, command_line })
        };
        let pids = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        Ok(pids.filter_map(process).collect())
    }

    /// Stops the shared host.
    pub fn stop_host(&self) {
        let _none_runs = failure::output(self.sandbox.command(&self.swb).args(["host", "stop"]));
    }
}

impl Drop for SharedHome {
    fn drop(&mut self) {
        self.stop_host();
    }
}

/// The entry of an echo server of this kind, which is trusted.
pub fn echo_entry(kind: &str) -> Result<Json, Failure> {
    let [program, word, kind] = echo_command(kind)?.map(|it| it.to_string_lossy().into_owned());
    Ok(json!({"command": program, "args": [word, kind], "trust": true}))
}
