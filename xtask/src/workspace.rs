//! Where a run takes place: the repository, the cargo to call, the folder builds go to.
//! The only file here that reads the environment.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The surroundings of one run.
#[derive(Debug)]
pub struct Workspace {
    /// The repository's top folder.
    pub root: PathBuf,
    /// Where cargo builds, and where tools of our own are kept.
    pub target: PathBuf,
    /// Where `cargo install` puts programs.
    pub cargo_bin: PathBuf,
    cargo: OsString,
    target_override: Option<PathBuf>,
}

/// What this machine knows of the way to its registries.
#[derive(Debug)]
pub struct NetworkSettings {
    /// Where files with such settings are.
    pub home: PathBuf,
    /// Variables: proxies, certificates, indexes.
    pub variables: Vec<(OsString, OsString)>,
}

/// How names of such variables begin, in capitals.
const NETWORK_VARIABLES: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_",
    "UV_",
    "NPM_CONFIG_",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
];

/// The program was not started by cargo, so nobody said where the repository is.
#[derive(Debug)]
pub struct WorkspaceError;

impl fmt::Display for WorkspaceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the repository is unknown; start this program as `cargo xtask`")
    }
}

impl Error for WorkspaceError {}

impl Workspace {
    /// Reads what cargo tells the programs it runs.
    ///
    /// The repository is asked for at run time: a build folder shared by several clones would
    /// otherwise remember the clone that compiled this program.
    pub fn from_environment() -> Result<Self, WorkspaceError> {
        let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = package.as_deref().and_then(Path::parent).ok_or(WorkspaceError)?.to_owned();
        // Cargo reads a relative folder from where it stands, and steps stand in the root.
        let chosen_target = env::var_os("CARGO_TARGET_DIR")
            .and_then(|target_dir| std::path::absolute(target_dir).ok());
        let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
            let user = env::var_os("HOME")?;
            Some(PathBuf::from(user).join(".cargo"))
        });
        Ok(Workspace {
            target: chosen_target.clone().unwrap_or_else(|| root.join("target")),
            root,
            cargo_bin: home.unwrap_or_default().join("bin"),
            cargo: env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            target_override: chosen_target,
        })
    }

    /// A cargo command in the root; `words` are split at spaces.
    pub fn cargo(&self, words: &str) -> Command {
        let mut command = self.program(&self.cargo);
        command.args(words.split_whitespace());
        command
    }

    /// Any other command in the root.
    pub fn program(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command.current_dir(&self.root);
        if let Some(target_dir) = &self.target_override {
            command.env("CARGO_TARGET_DIR", target_dir);
        }
        command
    }

    /// What another machine would have to know to reach the registries that this one reaches.
    pub fn network_settings(&self) -> NetworkSettings {
        let is_network = |name: &OsString| {
            let name = name.to_string_lossy().to_uppercase();
            NETWORK_VARIABLES.iter().any(|start| name.starts_with(start))
        };
        NetworkSettings {
            home: env::var_os("HOME").map(PathBuf::from).unwrap_or_default(),
            variables: env::vars_os().filter(|(name, _)| is_network(name)).collect(),
        }
    }

    /// A workshop for tests.
    #[cfg(test)]
    pub fn for_test(root: &Path) -> Self {
        Workspace {
            root: root.to_owned(),
            target: root.join("target"),
            cargo_bin: root.join("bin"),
            cargo: "cargo".into(),
            target_override: None,
        }
    }
}
