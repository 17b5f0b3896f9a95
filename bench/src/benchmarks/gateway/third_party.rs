//! Gateways of other people, each installed at a pinned version, and anew when the pin changes.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::benchmarks::calls::sdk_clients::{build_rmcp, install_once, mark_as_cache, run_install};
use crate::failure::Failure;
use crate::workspace::Workspace;

const MCP_PROXY: &str = "mcp-proxy==0.13.0";
const FASTMCP: &str = "fastmcp==4.1.0";
const SUPERGATEWAY: &str = "supergateway@4.0.0";

/// What begins each peer's command, or why there is none.
#[derive(Debug)]
pub struct ThirdPartyGateways {
    /// A gateway that we wrote on the official Rust SDK.
    pub rmcp: InstalledCommand,
    /// The one of PyPI.
    pub mcp_proxy: InstalledCommand,
    /// The one of npm.
    pub supergateway: InstalledCommand,
    /// FastMCP's proxy, in a script of ours.
    pub fastmcp: InstalledCommand,
}

/// What begins a command. A peer that cannot be installed is a row that says so, and no reason to measure nothing.
pub type InstalledCommand = Result<Vec<OsString>, String>;

/// Installs and builds what is missing.
pub fn prepare(workspace: &Workspace) -> Result<ThirdPartyGateways, Failure> {
    create_install_dir(workspace)?;
    let message = |failure: Failure| failure.to_string();
    let script = workspace.root.join("bench").join("rivals").join("fastmcp_proxy.py");
    Ok(ThirdPartyGateways {
        rmcp: build_rmcp(workspace)
            .map(|built| vec![built.join("rival-rmcp-gateway").into()])
            .map_err(message),
        mcp_proxy: mcp_proxy(workspace),
        supergateway: node(workspace).map_err(message),
        fastmcp: python(workspace, "fastmcp", FASTMCP)
            .map(|bin| vec![bin.join("python").into(), script.into()])
            .map_err(message),
    })
}

/// Installs mcp-proxy alone.
pub fn prepare_mcp_proxy(workspace: &Workspace) -> Result<InstalledCommand, Failure> {
    create_install_dir(workspace)?;
    Ok(mcp_proxy(workspace))
}

fn create_install_dir(workspace: &Workspace) -> Result<(), Failure> {
    let install_dir = &workspace.install_dir;
    fs::create_dir_all(install_dir).map_err(|error| Failure::file(install_dir, error))?;
    mark_as_cache(install_dir)
}

fn mcp_proxy(workspace: &Workspace) -> InstalledCommand {
    python(workspace, "mcp-proxy", MCP_PROXY)
        .map(|bin| vec![bin.join("mcp-proxy").into()])
        .map_err(|failure| failure.to_string())
}

/// Each has an environment of its own, as they want different versions of the same SDK.
fn python(workspace: &Workspace, name: &str, pin: &str) -> Result<PathBuf, Failure> {
    let venv = workspace.install_dir.join(name);
    let bin = venv.join("bin");
    install_once(&workspace.install_dir.join(format!("{name}.installed")), &[pin], || {
        run_install(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let mut pip = Command::new(bin.join("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", pin]);
        run_install(&mut pip)
    })?;
    Ok(bin)
}

fn node(workspace: &Workspace) -> Result<Vec<OsString>, Failure> {
    let folder = workspace.install_dir.join("supergateway");
    install_once(&workspace.install_dir.join("supergateway.installed"), &[SUPERGATEWAY], || {
        fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, error))?;
        let mut npm = Command::new("npm");
        // A lock file would name the registry's host inside our tree.
        npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--prefix"]);
        run_install(npm.arg(&folder).arg(SUPERGATEWAY))
    })?;
    let package = folder.join("node_modules").join("supergateway");
    Ok(vec!["node".into(), package.join("dist").join("index.js").into()])
}
