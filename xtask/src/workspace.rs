//! Paths of one run: the repository, cargo, the build folder.
//! The only file here that reads the environment.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The paths and programs of one run.
#[derive(Debug)]
pub struct Workspace {
    /// The repository's top folder.
    pub root: PathBuf,
    /// The build folder, which also holds installed tools.
    pub target: PathBuf,
    /// The folder in which `cargo install` puts programs.
    pub cargo_bin: PathBuf,
    cargo: OsString,
    target_override: Option<PathBuf>,
}

/// This machine's settings for reaching package registries.
#[derive(Debug)]
pub struct NetworkSettings {
    /// Folders that contain such settings.
    pub home: PathBuf,
    /// Environment variables for proxies, certificates and indexes.
    pub variables: Vec<(OsString, OsString)>,
}

/// Prefixes of the names of such variables, in upper case.
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

/// This program was not started by cargo, so the path of the repository is unknown.
#[derive(Debug)]
pub struct WorkspaceError;

impl fmt::Display for WorkspaceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the repository is unknown; start this program as `cargo xtask`")
    }
}

impl Error for WorkspaceError {}

impl Workspace {
    /// Reads the variables that cargo sets for programs it runs.
    ///
    /// The path is read at run time: with a build folder shared by several clones, a path compiled in
    /// would be that of the clone that compiled this program.
    pub fn from_environment() -> Result<Self, WorkspaceError> {
        let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = package.as_deref().and_then(Path::parent).ok_or(WorkspaceError)?.to_owned();
        // Cargo resolves a relative folder against its own working directory; steps run in the root.
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

    /// The settings that another machine needs to reach the same registries.
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

    /// A workspace for tests.
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
