//! The surroundings that programs are measured in: a temporary home, and next to nothing in the environment.
//! What lies in the home is decided by the files in `sandbox/`.

pub mod few;
pub mod many;

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value as Json, json};
use tempfile::TempDir;

use crate::config_counts::ConfigCounts;
use crate::failure::{self, Failure};

/// A home to run programs in. Dropping it deletes the files.
#[derive(Debug)]
pub struct Sandbox {
    home: PathBuf,
    working_folder: PathBuf,
    search_path: OsString,
    sharing: Sharing,
    _files: TempDir,
}

/// The value of `SWB_SHARE` for the programs in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Every `swb` runs its own servers.
    Off,
    /// Every `swb` uses the shared host of the home, and starts it.
    On,
}

impl Sharing {
    /// The variable, and its value.
    fn variable(self) -> (&'static str, &'static str) {
        let value = match self {
            Sharing::Off => "off",
            Sharing::On => "on",
        };
        ("SWB_SHARE", value)
    }
}

impl Sandbox {
    /// An empty home.
    pub fn new(search_path: &OsString) -> Result<Sandbox, Failure> {
        let files = TempDir::new().map_err(|error| Failure::file(Path::new("a home"), error))?;
        let folder =
            files.path().canonicalize().map_err(|error| Failure::file(files.path(), error))?;
        Ok(Sandbox {
            working_folder: folder.clone(),
            home: folder,
            search_path: search_path.clone(),
            sharing: Sharing::Off,
            _files: files,
        })
    }

    /// The same home for programs that share servers, or do not. Sandboxes start without sharing, so that no process
    /// outlives a measurement.
    pub fn set_sharing(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    /// The home folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// A home with these servers in the person's own settings.
    pub fn with_servers(
        swb: &Path,
        search_path: &OsString,
        servers: Map<String, Json>,
    ) -> Result<Sandbox, Failure> {
        let sandbox = Sandbox::new(search_path)?;
        let expected = ConfigCounts { servers: servers.len(), files: 1, problems: 0 };
        let paths = sandbox.query_json(swb, &["paths"])?;
        let settings = format!("{:#}\n", json!({"mcpServers": servers}));
        write(&path_from(&paths, "userSettings"), &settings)?;
        verify_config(&sandbox.query_json(swb, &["list", "--all"])?, expected)?;
        Ok(sandbox)
    }

    /// Writes a file into the working folder that only its owner may read.
    pub fn write_private(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.working_folder.join(name);
        write(&path, text)?;
        let permissions = Permissions::from_mode(0o600);
        fs::set_permissions(&path, permissions).map_err(|error| Failure::file(&path, error))
    }

    /// A command that starts in the working folder and knows nothing but this home.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.working_folder)
            .env_clear()
            .env("PATH", &self.search_path)
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8");
        let (variable, value) = self.sharing.variable();
        command.env(variable, value);
        command
    }

    /// What `swb` answers to these arguments and `--json`.
    pub fn query_json(&self, swb: &Path, arguments: &[&str]) -> Result<Json, Failure> {
        let answer = failure::output(self.command(swb).args(arguments).arg("--json"))?;
        serde_json::from_str(&answer).map_err(Failure::InvalidJson)
    }
}

/// Fails unless `swb list --all` answered with exactly what was built.
fn verify_config(all: &Json, expected: ConfigCounts) -> Result<(), Failure> {
    let list = |key: &str| all[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_servers = list("servers").iter().filter_map(|server| server["problems"].as_array());
    let actual = ConfigCounts {
        servers: list("servers").len(),
        files: list("lookedAt").iter().filter(|place| place["found"] != "nothing").count(),
        problems: list("problems").len() + of_servers.map(Vec::len).sum::<usize>(),
    };
    if actual == expected { Ok(()) } else { Err(Failure::ConfigMismatch { expected, actual }) }
}

/// Writes a file and the folders above it.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, error))?;
    fs::write(path, text).map_err(|error| Failure::file(path, error))
}

/// The place that an answer to `swb paths` names.
fn path_from(paths: &Json, key: &str) -> PathBuf {
    PathBuf::from(paths[key].as_str().unwrap_or_default())
}
