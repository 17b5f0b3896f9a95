//! Gateways of other people, each installed at a pinned version, and anew when the pin changes.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::calls::rivals::{build_rmcp, mark_as_cache, once, run};
use crate::failure::Failure;
use crate::workplace::Workplace;

const MCP_PROXY: &str = "mcp-proxy==0.13.0";
const FASTMCP: &str = "fastmcp==4.1.0";
const SUPERGATEWAY: &str = "supergateway@4.0.0";

/// What begins each peer's command, or why there is none.
#[derive(Debug)]
pub struct Peers {
    /// A gateway that we wrote on the official Rust SDK.
    pub rmcp: Peer,
    /// The one of PyPI.
    pub mcp_proxy: Peer,
    /// The one of npm.
    pub supergateway: Peer,
    /// FastMCP's proxy, in a script of ours.
    pub fastmcp: Peer,
}

/// What begins a command. A peer that cannot be installed is a row that says so, and no reason to measure nothing.
pub type Peer = Result<Vec<OsString>, String>;

/// Installs and builds what is missing.
pub fn prepare(workplace: &Workplace) -> Result<Peers, Failure> {
    let peers = &workplace.peers;
    fs::create_dir_all(peers).map_err(|error| Failure::file(peers, error))?;
    mark_as_cache(peers)?;
    let said = |failure: Failure| failure.to_string();
    let script = workplace.root.join("bench").join("rivals").join("fastmcp_proxy.py");
    Ok(Peers {
        rmcp: build_rmcp(workplace)
            .map(|built| vec![built.join("rival-rmcp-gateway").into()])
            .map_err(said),
        mcp_proxy: python(workplace, "mcp-proxy", MCP_PROXY)
            .map(|bin| vec![bin.join("mcp-proxy").into()])
            .map_err(said),
        supergateway: node(workplace).map_err(said),
        fastmcp: python(workplace, "fastmcp", FASTMCP)
            .map(|bin| vec![bin.join("python").into(), script.into()])
            .map_err(said),
    })
}

/// Each has an environment of its own, as they want different versions of the same SDK.
fn python(workplace: &Workplace, name: &str, pin: &str) -> Result<PathBuf, Failure> {
    let venv = workplace.peers.join(name);
    let bin = venv.join("bin");
    once(&workplace.peers.join(format!("{name}.installed")), &[pin], || {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let mut pip = Command::new(bin.join("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", pin]);
        run(&mut pip)
    })?;
    Ok(bin)
}

fn node(workplace: &Workplace) -> Result<Vec<OsString>, Failure> {
    let folder = workplace.peers.join("supergateway");
    once(&workplace.peers.join("supergateway.installed"), &[SUPERGATEWAY], || {
        fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, error))?;
        let mut npm = Command::new("npm");
        // A lock file would name the registry's host inside our tree.
        npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--prefix"]);
        run(npm.arg(&folder).arg(SUPERGATEWAY))
    })?;
    let package = folder.join("node_modules").join("supergateway");
    Ok(vec!["node".into(), package.join("dist").join("index.js").into()])
}
