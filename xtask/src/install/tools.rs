//! Finds the tools that the checks need and installs missing ones.
//! A tool that cannot be installed is an error that lists every attempt; no check is skipped.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::steps;
use crate::workspace::Workspace;

const NEXTEST: Package = Package {
    // All features except the self-updater, which costs build time and is not used here.
    name: "cargo-nextest",
    version: "0.9.143",
    options: "--no-default-features --features default-no-update",
};
const DENY: Package = Package { name: "cargo-deny", version: "0.20.2", options: "" };
const TYPOS: Package = Package { name: "typos-cli", version: "1.51.1", options: "" };
/// The same program as a precompiled wheel on the Python package index: installs in seconds instead of minutes.
const TYPOS_WHEEL: &str = "typos==1.51.1";

/// Build settings for tools: short builds matter more than fast programs, since tools run for seconds.
const FAST_BUILD_PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
];

struct Package {
    name: &'static str,
    version: &'static str,
    options: &'static str,
}

/// The paths of tools that are not cargo subcommands.
#[derive(Debug)]
pub struct Tools {
    /// The spell checker.
    pub typos: PathBuf,
}

/// Installs every missing tool.
pub fn prepare(workspace: &Workspace) -> Result<Tools, ToolError> {
    require_component(workspace, "fmt", "rustfmt")?;
    require_component(workspace, "clippy", "clippy")?;
    require_subcommand(workspace, "nextest", &NEXTEST)?;
    require_subcommand(workspace, "deny", &DENY)?;
    let tools = Tools { typos: install_typos(workspace)? };
    // The build folder is removed only now, so that tools share dependencies and an interrupted install
    // can resume. Usually there is nothing to remove.
    let _absent = fs::remove_dir_all(build_dir(workspace));
    Ok(tools)
}

fn require_component(
    workspace: &Workspace,
    subcommand: &str,
    name: &'static str,
) -> Result<(), ToolError> {
    if has_version(workspace.cargo(subcommand)) {
        return Ok(());
    }
    Err(ToolError { tool: name, kind: ToolErrorKind::MissingComponent })
}

fn require_subcommand(
    workspace: &Workspace,
    name: &str,
    package: &Package,
) -> Result<(), ToolError> {
    if has_version(workspace.cargo(name)) {
        return Ok(());
    }
    let mut attempts = Attempts::default();
    if attempts.run(cargo_install(workspace, package)) && has_version(workspace.cargo(name)) {
        return Ok(());
    }
    Err(attempts.into_error(package.name))
}

fn install_typos(workspace: &Workspace) -> Result<PathBuf, ToolError> {
    let venv = workspace.target.join("tools").join("venv");
    let from_wheel = venv.join("bin").join("typos");
    let from_cargo = workspace.cargo_bin.join("typos");
    let works = |place: &PathBuf| has_version(workspace.program(place));
    let candidates = [PathBuf::from("typos"), from_wheel.clone(), from_cargo.clone()];
    if let Some(found) = candidates.into_iter().find(works) {
        return Ok(found);
    }

    let mut attempts = Attempts::default();
    let mut create_venv = workspace.program("python3");
    create_venv.args(["-m", "venv"]).arg(&venv);
    let mut pip = workspace.program(venv.join("bin").join("python"));
    pip.args(["-m", "pip", "install", "--quiet", TYPOS_WHEEL]);
    if attempts.run(create_venv) && attempts.run(pip) && works(&from_wheel) {
        return Ok(from_wheel);
    }
    if attempts.run(cargo_install(workspace, &TYPOS)) && works(&from_cargo) {
        return Ok(from_cargo);
    }
    Err(attempts.into_error("typos"))
}

fn cargo_install(workspace: &Workspace, package: &Package) -> Command {
    let Package { name, version, options } = package;
    let mut command = workspace.cargo("install --locked");
    command.args([name, "--version", version]).args(options.split_whitespace());
    command.arg("--target-dir").arg(build_dir(workspace)).envs(FAST_BUILD_PROFILE.iter().copied());
    command
}

fn build_dir(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tools").join("build")
}

/// Whether the program exists and can print its version.
fn has_version(mut program: Command) -> bool {
    program.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    program.status().is_ok_and(|status| status.success())
}

/// The commands tried to install one tool, each with its outcome.
#[derive(Debug, Default)]
pub struct Attempts {
    log: Vec<String>,
}

impl Attempts {
    /// Runs a command, records its outcome, and returns whether it succeeded.
    pub fn run(&mut self, mut command: Command) -> bool {
        let line = steps::line(&command);
        eprintln!("==> install: {line}");
        let start = Instant::now();
        let result = command.stdin(Stdio::null()).status();
        eprintln!("    install took {:.1} s", start.elapsed().as_secs_f64());
        let (outcome, succeeded) = match result {
            Ok(status) => (status.to_string(), status.success()),
            Err(error) => (error.to_string(), false),
        };
        self.log.push(format!("`{line}`: {outcome}"));
        succeeded
    }

    /// The error for a tool that is still missing after all attempts.
    pub fn into_error(self, tool: &'static str) -> ToolError {
        ToolError { tool, kind: ToolErrorKind::NotInstalled { tried: self.log } }
    }
}

/// A tool is missing.
#[derive(Debug)]
pub struct ToolError {
    tool: &'static str,
    kind: ToolErrorKind,
}

/// Why a tool is still missing.
#[derive(Debug)]
pub enum ToolErrorKind {
    /// The tool is part of the Rust toolchain, which this program does not modify.
    MissingComponent,
    /// No attempt to install the tool produced a program that runs.
    NotInstalled {
        /// The commands, each with its outcome.
        tried: Vec<String>,
    },
    /// A file of the tool could not be read or written.
    Unreadable(io::Error),
}

impl ToolError {
    /// The error for a file of the tool that could not be read or written.
    pub fn unreadable(tool: &'static str, error: io::Error) -> Self {
        ToolError { tool, kind: ToolErrorKind::Unreadable(error) }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = self.tool;
        match &self.kind {
            ToolErrorKind::MissingComponent => write!(
                out,
                "this Rust toolchain has no `{tool}`; run `rustup component add {tool}`"
            ),
            ToolErrorKind::NotInstalled { tried } => {
                write!(out, "`{tool}` is missing and could not be installed; tried:")?;
                tried.iter().try_for_each(|line| write!(out, "\n  {line}"))
            }
            ToolErrorKind::Unreadable(_) => write!(out, "`{tool}` could not be prepared"),
        }
    }
}

impl Error for ToolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ToolErrorKind::MissingComponent | ToolErrorKind::NotInstalled { .. } => None,
            ToolErrorKind::Unreadable(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_cannot_be_installed_lists_every_attempt() {
        let mut attempts = Attempts::default();
        let mut failing = Command::new("sh");
        failing.args(["-c", "exit 3"]);

        assert!(!attempts.run(failing));
        assert!(!attempts.run(Command::new("no-such-program")));

        assert_eq!(
            attempts.into_error("typos").to_string(),
            "`typos` is missing and could not be installed; tried:\n  \
             `sh -c exit 3`: exit status: 3\n  \
             `no-such-program`: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_missing_component_names_the_command_to_type() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::for_test(folder.path());

        let error = require_component(&workspace, "no-such-subcommand", "rustfmt").unwrap_err();

        assert_eq!(
            error.to_string(),
            "this Rust toolchain has no `rustfmt`; run `rustup component add rustfmt`"
        );
    }
}
