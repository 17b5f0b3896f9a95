//! A second home, whose sessions share servers through one host: its disk, its settings, and the host's process and
//! socket.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Map;
use tokio::process::Command;
use tokio::time::{Duration, Instant, sleep};

use crate::environment::sandbox::{self, Sandbox, file_error};
use crate::environment::system;
use crate::environment::system::Process;
use crate::failure::Failure;
use crate::servers;
use crate::servers::TestServer;
use crate::verdict::history::Shutdown;

/// The size of the disk for the home, as a `mount` option.
const DISK_OPTIONS: &str = "size=64m,mode=700";
/// The argument that makes `swb` the shared host.
const HOST_ARGUMENT: &str = " __host ";
/// How long processes may live after the host was killed.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The home.
#[derive(Debug)]
pub struct SharedHome<'a> {
    sandbox: &'a Sandbox,
    folder: PathBuf,
}

impl SharedHome<'_> {
    /// Creates the home, on a disk of its own, with these servers.
    pub fn create<'a>(
        sandbox: &'a Sandbox,
        members: &[TestServer],
    ) -> Result<SharedHome<'a>, Failure> {
        let folder = sandbox.shared_home();
        let disk = folder.display().to_string();
        system::run_tool(&["mount", "-t", "tmpfs", "-o", DISK_OPTIONS, "tmpfs", &disk])?;
        let settings = folder.join(".config/switchboard/settings.json");
        for path in [folder.join(".config/switchboard"), folder.join("project")] {
            fs::create_dir_all(&path).map_err(|error| file_error(&path, error))?;
        }
        let entry = |it: &TestServer| (it.name.to_owned(), servers::config_entry(it, "", ""));
        let entries: Map<_, _> = members.iter().map(entry).collect();
        fs::write(&settings, servers::settings(&entries))
            .map_err(|error| file_error(&settings, error))?;
        Ok(SharedHome { sandbox, folder })
    }

    /// The program, with this home and the shared host.
    pub fn swb(&self) -> Command {
        let mut command = self.sandbox.swb();
        command
            .env("HOME", &self.folder)
            .env("SWB_SHARE", "on")
            .current_dir(self.folder.join("project"));
        Command::from(command)
    }

    /// The processes of shared hosts.
    pub fn hosts(&self) -> Vec<Process> {
        let folder = self.folder.display().to_string();
        let is_host = |it: &Process| {
            it.command_line.contains(HOST_ARGUMENT) && it.command_line.contains(&folder)
        };
        system::processes().into_iter().filter(is_host).collect()
    }

    /// The servers of a host.
    pub fn servers_of(&self, host: u32) -> Vec<u32> {
        let children = system::processes().into_iter().filter(|it| it.parent == host);
        children.filter(|it| it.command_line.contains("shared-")).map(|it| it.pid).collect()
    }

    /// Fills the disk.
    pub fn fill_disk(&self) -> Result<(), Failure> {
        sandbox::fill_disk(&self.folder)
    }

    /// Frees the disk again.
    pub fn free_disk(&self) -> Result<(), Failure> {
        sandbox::free_disk(&self.folder)
    }

    /// Puts a socket to which no process listens in the place of the host's.
    pub fn place_stale_socket(&self) -> Result<(), Failure> {
        let folder = self.folder.join(".local/state/switchboard/host");
        let (draft, socket) = (folder.join("stale.new"), folder.join("host.sock"));
        let bound = UnixListener::bind(&draft).map_err(|error| file_error(&draft, error))?;
        drop(bound);
        fs::rename(&draft, &socket).map_err(|error| file_error(&socket, error))
    }

    /// Those of these processes that run after a while.
    pub async fn survivors(&self, pids: &[u32]) -> Vec<Process> {
        let start = Instant::now();
        loop {
            let all = system::processes();
            let left: Vec<Process> = all.into_iter().filter(|it| pids.contains(&it.pid)).collect();
            if left.is_empty() || start.elapsed() > ORPHAN_TIMEOUT {
                return left;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Stops the host as users do, and lists what remains of it.
    pub async fn stop_host(&self) -> Result<Shutdown, Failure> {
        let mut pids: Vec<u32> = Vec::new();
        for host in self.hosts() {
            pids.push(host.pid);
            pids.extend(self.servers_of(host.pid));
        }
        let output = self.swb().args(["host", "stop"]).output().await;
        let output =
            output.map_err(|error| Failure::from_io("`swb host stop` could not be run", error))?;
        let problem = (!output.status.success())
            .then(|| String::from_utf8_lossy(&output.stderr).into_owned());
        let orphans = self.survivors(&pids).await;
        for orphan in &orphans {
            system::send_signal(orphan.pid, Signal::KILL)?;
        }
        let orphans = orphans.iter().map(|it| format!("{} {}", it.pid, it.command_line)).collect();
        Ok(Shutdown { signal: "swb host stop", problem, orphans })
    }
}
