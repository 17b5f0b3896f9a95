//! The official SDKs' clients: programs of ours in `bench/rivals`, written to each SDK's documentation.
//! Each is installed at a pinned version, and anew when the pins change.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::workspace::Workspace;

const NODE: &[&str] = &["@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0"];
const PYTHON: &[&str] = &["mcp==2.3.0"];

/// What begins each rival's command.
#[derive(Debug)]
pub struct SdkClients {
    /// The official Rust SDK.
    pub rmcp: Vec<OsString>,
    /// The official TypeScript SDK, version 1.
    pub typescript_v1: Vec<OsString>,
    /// The official TypeScript SDK, version 2.
    pub typescript_v2: Vec<OsString>,
    /// The official Python SDK.
    pub python: Vec<OsString>,
}

/// Installs and builds what is missing.
pub fn prepare(workspace: &Workspace) -> Result<SdkClients, Failure> {
    let install_dir = &workspace.install_dir;
    let sources = workspace.root.join("bench").join("rivals");
    fs::create_dir_all(install_dir).map_err(|error| Failure::file(install_dir, error))?;
    mark_as_cache(install_dir)?;

    let sdks = install_dir.join("sdks");
    install_once(&install_dir.join("sdks.installed"), NODE, || {
        fs::create_dir_all(&sdks).map_err(|error| Failure::file(&sdks, error))?;
        let mut npm = Command::new("npm");
        // A lock file would name the registry's host inside our tree.
        npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--prefix"]);
        run_install(npm.arg(&sdks).args(NODE))
    })?;

    let venv = install_dir.join("python");
    let python = venv.join("bin").join("python");
    install_once(&install_dir.join("python.installed"), PYTHON, || {
        run_install(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run_install(pip.args(PYTHON))
    })?;

    let built = build_rmcp(workspace)?;

    let node = |script: &str| vec!["node".into(), sources.join(script).into()];
    Ok(SdkClients {
        rmcp: vec![built.join("rival-rmcp").into()],
        typescript_v1: node("typescript_v1.mjs"),
        typescript_v2: node("typescript_v2.mjs"),
        python: vec![python.into(), sources.join("python_sdk.py").into()],
    })
}

/// Builds what is written on the official Rust SDK, and says in which folder the programs are.
pub fn build_rmcp(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let built = workspace.install_dir.join("rmcp");
    let manifest = workspace.root.join("bench").join("rivals").join("rmcp").join("Cargo.toml");
    let mut build = workspace.cargo();
    build.args(["build", "--release", "--locked", "--manifest-path"]);
    build.arg(manifest).arg("--target-dir").arg(&built);
    run_install(&mut build)?;
    Ok(built.join("release"))
}

/// Does it unless it was done for the same pins.
pub fn install_once(
    stamp: &Path,
    pins: &[&str],
    install: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let pins = pins.join("\n");
    if fs::read_to_string(stamp).is_ok_and(|installed| installed == pins) {
        return Ok(());
    }
    install()?;
    fs::write(stamp, pins).map_err(|error| Failure::file(stamp, error))
}

/// Marks the folder as a cache, so that backups and the repository rules skip it.
pub fn mark_as_cache(folder: &Path) -> Result<(), Failure> {
    let mark = folder.join("CACHEDIR.TAG");
    let signature = "Signature: 8a477f597d28d172789f06886806bc55\n";
    fs::write(&mark, signature).map_err(|error| Failure::file(&mark, error))
}

/// Runs a command whose output people may want to see.
pub fn run_install(command: &mut Command) -> Result<(), Failure> {
    let program = PathBuf::from(command.get_program());
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    eprintln!("==> install: {} {}", program.display(), words.join(" "));
    let status = command.status();
    let status = status.map_err(|error| Failure::NotStarted { program: program.clone(), error })?;
    if !status.success() {
        return Err(Failure::Failed { program, status, stderr: String::new() });
    }
    Ok(())
}
