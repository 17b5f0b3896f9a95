//! The servers that are compared: how they are installed and started, and what their tools are called.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::mcp_client::{McpClient, failed};
use super::site::Site;
use crate::benchmarks::calls::sdk_clients::{install_once, mark_as_cache, run_install};
use crate::failure::Failure;
use crate::workspace::Workspace;

pub const PLAYWRIGHT: &str = "@playwright/mcp@0.0.83";
pub const DEVTOOLS: &str = "chrome-devtools-mcp@1.11.0";
const TOKENIZER: &str = "gpt-tokenizer@4.0.0";
/// The whole browser, which the others need, and the small one, which ours prefers.
pub const CHROMIUM: &str = "/usr/bin/chromium";

/// A server that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Ours as it is: with the small browser.
    Ours,
    /// Ours with the browser of the others.
    OursWithChromium,
    Playwright,
    DevTools,
}

impl Kind {
    pub const ALL: [Kind; 4] =
        [Kind::Ours, Kind::OursWithChromium, Kind::Playwright, Kind::DevTools];

    pub fn label(self) -> &'static str {
        match self {
            Kind::Ours => "**ours**",
            Kind::OursWithChromium => "**ours, with `chromium`**",
            Kind::Playwright => "@playwright/mcp 0.0.83",
            Kind::DevTools => "chrome-devtools-mcp 1.11.0",
        }
    }

    pub fn is_ours(self) -> bool {
        match self {
            Kind::Ours | Kind::OursWithChromium => true,
            Kind::Playwright | Kind::DevTools => false,
        }
    }
}

/// Everything that is needed to start one of them.
pub struct Programs {
    swb: PathBuf,
    modules: PathBuf,
}

impl Programs {
    /// Installs the others, and builds ours.
    pub fn prepare(workspace: &Workspace) -> Result<Programs, Failure> {
        let install_dir = &workspace.install_dir;
        fs::create_dir_all(install_dir).map_err(|error| Failure::file(install_dir, error))?;
        mark_as_cache(install_dir)?;
        let folder = install_dir.join("browser-servers");
        let pins = [PLAYWRIGHT, DEVTOOLS, TOKENIZER];
        install_once(&install_dir.join("browser-servers.installed"), &pins, || {
            fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, error))?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--prefix"]);
            run_install(npm.arg(&folder).args(pins))
        })?;
        Ok(Programs { swb: workspace.swb()?, modules: folder.join("node_modules") })
    }

    /// Starts one of them in a folder of its own. `more` are further arguments of the others.
    pub fn start(
        &self,
        kind: Kind,
        folder: &Path,
        site: &Site,
        more: &[&str],
    ) -> Result<McpClient, Failure> {
        let port = site.address.port();
        let words = |list: &[String]| list.iter().map(OsString::from).collect::<Vec<_>>();
        let (mut command, env) = match kind {
            Kind::Ours | Kind::OursWithChromium => {
                let settings = folder.join("settings.json");
                let mut browser = json!({"enabled": true, "origins": ["*", format!("127.0.0.1:{port}"), format!("localhost:{port}")]});
                if kind == Kind::OursWithChromium {
                    browser["program"] = json!(CHROMIUM);
                }
                let text = json!({"browser": browser}).to_string();
                let home = folder.join(".config").join("switchboard");
                fs::create_dir_all(&home).map_err(|error| Failure::file(&home, error))?;
                let settings_file = home.join("settings.json");
                fs::write(&settings_file, text).map_err(|error| Failure::file(&settings, error))?;
                let arguments =
                    ["serve", "--pool", "--names", "plain", "--mode", "bypass"].map(OsString::from);
                let command = std::iter::once(self.swb.clone().into()).chain(arguments).collect();
                (
                    command,
                    vec![
                        ("HOME", folder.into()),
                        ("XDG_CONFIG_HOME", folder.join(".config").into()),
                        ("XDG_DATA_HOME", folder.join("data").into()),
                        ("XDG_STATE_HOME", folder.join("state").into()),
                    ],
                )
            }
            Kind::Playwright => {
                let script = self.modules.join("@playwright/mcp/cli.js").display().to_string();
                let list = [
                    "node".to_owned(),
                    script,
                    "--headless".to_owned(),
                    "--isolated".to_owned(),
                    "--no-sandbox".to_owned(),
                    format!("--executable-path={CHROMIUM}"),
                ];
                (words(&list), Vec::new())
            }
            Kind::DevTools => {
                let script = self
                    .modules
                    .join("chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js")
                    .display()
                    .to_string();
                let list = [
                    "node".to_owned(),
                    script,
                    "--headless".to_owned(),
                    "--isolated".to_owned(),
                    format!("--executablePath={CHROMIUM}"),
                    "--chromeArg=--no-sandbox".to_owned(),
                    "--no-usage-statistics".to_owned(),
                ];
                (words(&list), Vec::new())
            }
        };
        if !kind.is_ours() {
            command.extend(more.iter().map(OsString::from));
        }
        McpClient::start(&command, folder, &env)
    }

    /// How many tokens each text has, in `o200k_base`.
    pub fn tokens(&self, texts: &[String]) -> Result<Vec<usize>, Failure> {
        const SCRIPT: &str = "const {countTokens}=require(process.argv[1]+'/gpt-tokenizer/cjs/encoding/o200k_base.js');let s='';process.stdin.on('data',d=>s+=d).on('end',()=>console.log(JSON.stringify(JSON.parse(s).map(it=>countTokens(it)))))";
        let mut node = Command::new("node");
        node.args(["-e", SCRIPT]).arg(&self.modules).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = node.spawn().map_err(failed)?;
        let input = serde_json::to_vec(texts).map_err(Failure::InvalidJson)?;
        let mut stdin = child.stdin.take().ok_or(Failure::InvalidRequest)?;
        let writing = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
        let output = child.wait_with_output().map_err(failed)?;
        let _written = writing.join();
        serde_json::from_slice(&output.stdout).map_err(Failure::InvalidJson)
    }
}
