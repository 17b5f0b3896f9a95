//! Who is measured: what each is called, and how it is started in front of the echo server.

use std::ffi::OsString;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use super::bare_proxy;
use super::peers::{Peer, Peers};
use crate::calls::server::{Listening, echo_command, own_program};
use crate::failure::Failure;
use crate::scene::Scene;

/// How long a gateway may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// Who is measured, in the order of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
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
pub enum Way {
    /// HTTP on both sides.
    HttpToHttp,
    /// HTTP to a program.
    HttpToStdio,
    /// Standard streams on both sides.
    StdioToStdio,
}

impl Who {
    /// Its name in tables.
    pub fn label(self) -> &'static str {
        match self {
            Who::Direct => "no gateway",
            Who::BareProxy => "bare hyper reverse proxy",
            Who::Ours => "**`swb serve --pool`**",
            Who::Rmcp => "on the Rust SDK (rmcp 3.8.0)",
            Who::McpProxy => "mcp-proxy 0.13.0",
            Who::Supergateway => "supergateway 4.0.0",
            Who::FastMcpReused => "FastMCP 4.1.0, session reused",
            Who::FastMcpDefault => "FastMCP 4.1.0, default",
        }
    }

    /// Who goes this way.
    pub fn on(way: Way) -> &'static [Who] {
        match way {
            Way::HttpToHttp => &[Who::Direct, Who::BareProxy, Who::Ours, Who::Rmcp],
            Way::HttpToStdio => &[
                Who::Ours,
                Who::Rmcp,
                Who::McpProxy,
                Who::Supergateway,
                Who::FastMcpReused,
                Who::FastMcpDefault,
            ],
            Way::StdioToStdio => &[Who::Ours, Who::Rmcp],
        }
    }

    /// Is it other people's? What fails there is told, and stops nothing.
    pub fn is_foreign(self) -> bool {
        match self {
            Who::Direct | Who::BareProxy | Who::Ours => false,
            Who::Rmcp
            | Who::McpProxy
            | Who::Supergateway
            | Who::FastMcpReused
            | Who::FastMcpDefault => true,
        }
    }
}

/// What contenders are started from.
pub struct Stable {
    /// Our own program.
    pub swb: PathBuf,
    /// Everybody else's.
    pub peers: Peers,
    /// Where programs look for others.
    pub search_path: OsString,
}

/// A gateway that listens. Dropping it ends it.
pub struct Running {
    listening: Listening,
    _home: Option<Scene>,
}

impl Running {
    /// Where clients find it.
    pub fn address(&self) -> &str {
        &self.listening.address
    }

    /// Its number among the system's processes.
    pub fn process(&self) -> u32 {
        self.listening.process()
    }
}

impl Stable {
    /// Starts a gateway that clients reach over HTTP, in front of a server at this address or of a program.
    pub fn start(&self, who: Who, behind: Option<&str>) -> Result<Running, Failure> {
        let target: Vec<OsString> = match behind {
            Some(address) => vec![address.into()],
            None => echo_command("stdio")?.to_vec(),
        };
        let listening = match who {
            Who::Direct => Listening::start("http")?,
            Who::BareProxy => {
                let mut command = vec![own_program()?.into(), bare_proxy::WORD.into()];
                command.extend(target);
                Listening::of(&command)?
            }
            Who::Ours => return self.ours(behind),
            Who::Rmcp => {
                let mut command = begin(&self.peers.rmcp)?;
                let back = if behind.is_some() { "http" } else { "stdio" };
                command.args(["http", back]).args(target);
                Listening::spawn(command)?
            }
            Who::McpProxy => at_port(|port| {
                let mut command = begin(&self.peers.mcp_proxy)?;
                command.args(["--log-level", "ERROR", "--port", port, "--"]).args(target);
                Ok(command)
            })?,
            Who::Supergateway => at_port(|port| {
                let line = target.join(&OsString::from(" "));
                let mut command = begin(&self.peers.supergateway)?;
                command.args(["--outputTransport", "streamableHttp", "--stateful"]);
                command.args(["--logLevel", "none", "--port", port, "--stdio"]).arg(line);
                Ok(command)
            })?,
            Who::FastMcpReused => self.fastmcp("reused", &target)?,
            Who::FastMcpDefault => self.fastmcp("default", &target)?,
        };
        Ok(Running { listening, _home: None })
    }

    fn fastmcp(&self, session: &str, target: &[OsString]) -> Result<Listening, Failure> {
        at_port(|port| {
            let mut command = begin(&self.peers.fastmcp)?;
            command.args([session, port]).args(target);
            Ok(command)
        })
    }

    fn ours(&self, behind: Option<&str>) -> Result<Running, Failure> {
        let home = self.home(behind)?;
        let mut command = home.command(&self.swb);
        command.args(["serve", "--pool", "--names", "plain", "--http", "127.0.0.1:0", "--no-auth"]);
        Ok(Running { listening: Listening::spawn(command)?, _home: Some(home) })
    }

    /// A home in which the echo server is the only one, and is trusted: its calls are permitted and recorded as ever,
    /// but nobody has to be asked.
    fn home(&self, behind: Option<&str>) -> Result<Scene, Failure> {
        let entry: Json = match behind {
            Some(address) => json!({"type": "http", "url": address, "trust": true}),
            None => {
                let [program, word, kind] = echo_command("stdio")?;
                let words = [word, kind].map(|it| it.to_string_lossy().into_owned());
                let program = program.to_string_lossy();
                json!({"type": "stdio", "command": program, "args": words, "trust": true})
            }
        };
        let servers: Map<String, Json> = [("echo".to_owned(), entry)].into_iter().collect();
        Scene::with_servers(&self.swb, &self.search_path, servers)
    }

    /// The command of a gateway between standard streams. What it lives in must outlive it.
    pub fn between_streams(&self, who: Who) -> Result<(Command, Option<Scene>), Failure> {
        if who == Who::Ours {
            let home = self.home(None)?;
            let mut command = home.command(&self.swb);
            command.args(["serve", "--pool", "--names", "plain"]);
            return Ok((command, Some(home)));
        }
        let mut command = begin(&self.peers.rmcp)?;
        command.args(["stdio", "stdio"]).args(echo_command("stdio")?);
        Ok((command, None))
    }
}

fn begin(peer: &Peer) -> Result<Command, Failure> {
    let words = peer.as_ref().map_err(|why| Failure::client("a peer", why.as_str()))?;
    let (program, words) = words.split_first().ok_or(Failure::Question)?;
    let mut command = Command::new(program);
    command.args(words);
    Ok(command)
}

/// Starts a gateway that has to be told its port, and waits until somebody is there.
fn at_port(command: impl FnOnce(&str) -> Result<Command, Failure>) -> Result<Listening, Failure> {
    let broke = |error: io::Error| Failure::client("a peer", error);
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(broke)?;
    let at = listener.local_addr().map_err(broke)?;
    drop(listener);
    let command = command(&at.port().to_string())?;
    let listening = Listening::silently(command, format!("http://{at}/mcp"))?;
    let begun = Instant::now();
    while TcpStream::connect(at).is_err() {
        if begun.elapsed() > PATIENCE {
            return Err(broke(io::ErrorKind::TimedOut.into()));
        }
        thread::sleep(LOOK); // waits for another process
    }
    Ok(listening)
}
