//! Where a run takes place: the repository, cargo, and the search path for programs.
//! The only file that reads the environment's variables.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::failure::{self, Failure};

/// The surroundings of one run.
#[derive(Debug)]
pub struct Workspace {
    /// The repository's top folder.
    pub root: PathBuf,
    /// The folder that peers are installed into.
    pub install_dir: PathBuf,
    /// Where builds and what they leave are.
    pub target: PathBuf,
    /// The search path for programs.
    pub search_path: OsString,
    /// The folder that published servers are installed into, by `cargo xtask bench`.
    pub published_servers: PathBuf,
    cargo: OsString,
    swb_override: Option<PathBuf>,
}

impl Workspace {
    /// Reads what cargo tells the programs it runs.
    pub fn from_environment() -> Result<Workspace, Failure> {
        let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let package = package.ok_or(Failure::NotStartedByCargo)?;
        let root = package.parent().ok_or(Failure::NotStartedByCargo)?.to_owned();
        let target_dir = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target_dir.unwrap_or_else(|| root.join("target"));
        Ok(Workspace {
            published_servers: target.join("tools").join("servers"),
            target,
            root,
            install_dir: package.join(".peers"),
            search_path: env::var_os("PATH").unwrap_or_default(),
            cargo: env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            swb_override: env::var_os("SWB_BIN").map(PathBuf::from),
        })
    }

    /// The program to measure: the one given, else a fresh build as packages are made.
    pub fn swb(&self) -> Result<PathBuf, Failure> {
        if let Some(swb_override) = &self.swb_override {
            return swb_override.canonicalize().map_err(|error| Failure::file(swb_override, error));
        }
        self.build(&["--profile", "dist", "--package", "swb", "--bin", "swb"])
    }

    /// How the measured program was built, as far as this is known.
    pub fn swb_build(&self) -> String {
        match &self.swb_override {
            None => "built with the profile `dist`".to_owned(),
            Some(path) => {
                let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
                format!("given by `SWB_BIN`, in the folder `{}`", folder.to_string_lossy())
            }
        }
    }

    /// The server that plays scripts. It mostly waits, so it is built as tests build it.
    pub fn scripted(&self) -> Result<PathBuf, Failure> {
        self.build(&["--workspace", "--example", "scripted"])
    }

    fn build(&self, what: &[&str]) -> Result<PathBuf, Failure> {
        let mut build = self.cargo();
        build
            .arg("build")
            .args(what)
            .arg("--message-format=json-render-diagnostics")
            .current_dir(&self.root)
            .stderr(Stdio::inherit());
        let messages = failure::output(&mut build)?;
        messages.lines().rev().find_map(executable).ok_or(Failure::NoExecutable)
    }

    /// Cargo, to be told what to do.
    pub fn cargo(&self) -> Command {
        Command::new(&self.cargo)
    }

    /// A program on the search path, else among the installed peers.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let on_path = env::split_paths(&self.search_path).map(|folder| folder.join(program));
        let among_peers = self.install_dir.join("node_modules").join(".bin").join(program);
        on_path.chain([among_peers]).find(|path| path.is_file())
    }

    /// The file that a benchmark's report is kept in.
    pub fn report_path(&self, name: &str) -> PathBuf {
        self.root.join("docs").join("benchmarks").join(name)
    }
}

/// The program that one of cargo's messages says it built.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Json = serde_json::from_str(message).ok()?;
    message["executable"].as_str().map(|path| Path::new(path).to_owned())
}
