//! The gateways that are measured: their names, and how each is started in front of the echo server.

use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use super::bare_proxy;
use super::third_party::{InstalledCommand, ThirdPartyGateways};
use crate::child_server::{ListeningServer, echo_command, own_program};
use crate::failure::Failure;
use crate::sandbox::Sandbox;

/// How long a gateway may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Who is measured, in the order of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayKind {
    /// No gateway at all.
    Direct,
    /// Passes bytes.
    BareProxy,
    /// Ours.
    Ours,
    /// On the official Rust SDK.
    Rmcp,
    /// mcp-proxy.
    McpProxy,
    /// supergateway.
    Supergateway,
    /// FastMCP, with one session for all.
    FastMcpReused,
    /// FastMCP, as it is.
    FastMcpDefault,
}

/// From how clients come to how the server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// HTTP on both sides.
    HttpToHttp,
    /// HTTP to a program.
    HttpToStdio,
    /// Standard streams on both sides.
    StdioToStdio,
}

impl GatewayKind {
    /// Its name in tables.
    pub fn label(self) -> &'static str {
        match self {
            GatewayKind::Direct => "no gateway",
            GatewayKind::BareProxy => "bare hyper reverse proxy",
            GatewayKind::Ours => "**`swb serve --pool`**",
            GatewayKind::Rmcp => "on the Rust SDK (rmcp 3.8.0)",
            GatewayKind::McpProxy => "mcp-proxy 0.13.0",
            GatewayKind::Supergateway => "supergateway 4.0.0",
            GatewayKind::FastMcpReused => "FastMCP 4.1.0, session reused",
            GatewayKind::FastMcpDefault => "FastMCP 4.1.0, default",
        }
    }

    /// Who goes this way.
    pub fn on_route(way: Route) -> &'static [GatewayKind] {
        match way {
            Route::HttpToHttp => {
                &[GatewayKind::Direct, GatewayKind::BareProxy, GatewayKind::Ours, GatewayKind::Rmcp]
            }
            Route::HttpToStdio => &[
                GatewayKind::Ours,
                GatewayKind::Rmcp,
                GatewayKind::McpProxy,
                GatewayKind::Supergateway,
                GatewayKind::FastMcpReused,
                GatewayKind::FastMcpDefault,
            ],
            Route::StdioToStdio => &[GatewayKind::Ours, GatewayKind::Rmcp],
        }
    }

    /// Is it other people's? What fails there is told, and stops nothing.
    pub fn is_third_party(self) -> bool {
        match self {
            GatewayKind::Direct | GatewayKind::BareProxy | GatewayKind::Ours => false,
            GatewayKind::Rmcp
            | GatewayKind::McpProxy
            | GatewayKind::Supergateway
            | GatewayKind::FastMcpReused
            | GatewayKind::FastMcpDefault => true,
        }
    }
}

/// The programs that the gateways are started from.
pub struct Gateways {
    /// Our own program.
    pub swb: PathBuf,
    /// The gateways of others.
    pub third_party: ThirdPartyGateways,
    /// The `PATH` of the programs.
    pub search_path: OsString,
}

/// A gateway that listens. Dropping it ends it.
pub struct RunningGateway {
    listening: ListeningServer,
    _home: Option<Sandbox>,
}

impl RunningGateway {
    /// Where clients find it.
    pub fn address(&self) -> &str {
        &self.listening.address
    }

    /// Its number among the system's processes.
    pub fn pid(&self) -> u32 {
        self.listening.pid()
    }
}

impl Gateways {
    /// Starts a gateway that clients reach over HTTP, in front of a server at this address or of a program.
    pub fn start(
        &self,
        kind: GatewayKind,
        upstream_url: Option<&str>,
    ) -> Result<RunningGateway, Failure> {
        let target: Vec<OsString> = match upstream_url {
            Some(address) => vec![address.into()],
            None => echo_command("stdio")?.to_vec(),
        };
        let listening = match kind {
            GatewayKind::Direct => ListeningServer::start_echo("http")?,
            GatewayKind::BareProxy => {
                let mut command = vec![own_program()?.into(), bare_proxy::SUBCOMMAND.into()];
                command.extend(target);
                ListeningServer::start_command(&command)?
            }
            GatewayKind::Ours => return self.start_switchboard(upstream_url),
            GatewayKind::Rmcp => {
                let mut command = command_for(&self.third_party.rmcp)?;
                let back = if upstream_url.is_some() { "http" } else { "stdio" };
                command.args(["http", back]).args(target);
                ListeningServer::spawn(command)?
            }
            GatewayKind::McpProxy => start_mcp_proxy(&self.third_party.mcp_proxy, &target)?,
            GatewayKind::Supergateway => start_on_free_port(|port| {
                let line = target.join(&OsString::from(" "));
                let mut command = command_for(&self.third_party.supergateway)?;
                command.args(["--outputTransport", "streamableHttp", "--stateful"]);
                command.args(["--logLevel", "none", "--port", port, "--stdio"]).arg(line);
                Ok(command)
            })?,
            GatewayKind::FastMcpReused => self.fastmcp("reused", &target)?,
            GatewayKind::FastMcpDefault => self.fastmcp("default", &target)?,
        };
        Ok(RunningGateway { listening, _home: None })
    }

    fn fastmcp(&self, session: &str, target: &[OsString]) -> Result<ListeningServer, Failure> {
        start_on_free_port(|port| {
            let mut command = command_for(&self.third_party.fastmcp)?;
            command.args([session, port]).args(target);
            Ok(command)
        })
    }

    fn start_switchboard(&self, upstream_url: Option<&str>) -> Result<RunningGateway, Failure> {
        let home = self.sandbox(upstream_url)?;
        let mut command = home.command(&self.swb);
        command.args(["serve", "--pool", "--names", "plain", "--http", "127.0.0.1:0", "--no-auth"]);
        command.args(["--max-requests-per-second", "0"]);
        Ok(RunningGateway { listening: ListeningServer::spawn(command)?, _home: Some(home) })
    }

    /// A home in which the echo server is the only server and is trusted: its calls go through permission checks and
    /// are recorded, but need no prompt.
    fn sandbox(&self, upstream_url: Option<&str>) -> Result<Sandbox, Failure> {
        let entry: Json = match upstream_url {
            Some(address) => json!({"type": "http", "url": address, "trust": true}),
            None => {
                let [program, word, kind] = echo_command("stdio")?;
                let words = [word, kind].map(|it| it.to_string_lossy().into_owned());
                let program = program.to_string_lossy();
                json!({"type": "stdio", "command": program, "args": words, "trust": true})
            }
        };
        let servers: Map<String, Json> = [("echo".to_owned(), entry)].into_iter().collect();
        Sandbox::with_servers(&self.swb, &self.search_path, servers)
    }

    /// The command of a gateway over standard streams. The sandbox must outlive the process.
    pub fn stdio_command(&self, kind: GatewayKind) -> Result<(Command, Option<Sandbox>), Failure> {
        if kind == GatewayKind::Ours {
            let home = self.sandbox(None)?;
            let mut command = home.command(&self.swb);
            command.args(["serve", "--pool", "--names", "plain"]);
            return Ok((command, Some(home)));
        }
        let mut command = command_for(&self.third_party.rmcp)?;
        command.args(["stdio", "stdio"]).args(echo_command("stdio")?);
        Ok((command, None))
    }
}

/// Starts mcp-proxy in front of a program.
pub fn start_mcp_proxy(
    installed: &InstalledCommand,
    program: &[OsString],
) -> Result<ListeningServer, Failure> {
    start_on_free_port(|port| {
        let mut command = command_for(installed)?;
        command.args(["--log-level", "ERROR", "--port", port, "--"]).args(program);
        Ok(command)
    })
}

fn command_for(peer: &InstalledCommand) -> Result<Command, Failure> {
    let words = peer.as_ref().map_err(|why| Failure::client("a peer", why.as_str()))?;
    let (program, words) = words.split_first().ok_or(Failure::InvalidRequest)?;
    let mut command = Command::new(program);
    command.args(words);
    Ok(command)
}

/// Starts a gateway that needs its port as an argument, and waits until it listens.
fn start_on_free_port(
    command: impl FnOnce(&str) -> Result<Command, Failure>,
) -> Result<ListeningServer, Failure> {
    let broke = |error: io::Error| Failure::client("a peer", error);
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(broke)?;
    let at = listener.local_addr().map_err(broke)?;
    drop(listener);
    let command = command(&at.port().to_string())?;
    let listening = ListeningServer::start_at(command, format!("http://{at}/mcp"))?;
    let begun = Instant::now();
    while TcpStream::connect(at).is_err() {
        if begun.elapsed() > START_TIMEOUT {
            return Err(broke(io::ErrorKind::TimedOut.into()));
        }
        thread::sleep(POLL_INTERVAL); // waits for another process
    }
    Ok(listening)
}
