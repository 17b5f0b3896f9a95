//! Servers that the suite tests: how each is started, where it listens, and which scenarios apply to it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::scenarios::Group;
use super::{SuiteError, io_error};
use crate::steps;
use crate::workspace::Workspace;

/// The upstream server behind the gateway, built on the official SDK.
const UPSTREAM_EXAMPLE: &str = "conformance_upstream";
/// The upstream's name in the gateway's configuration.
const SERVER_NAME: &str = "upstream";
/// The gateway's arguments: tool names as upstream, open to every client on this machine.
const GATEWAY_ARGUMENTS: &[&str] =
    &["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth", "--names", "plain"];
/// The timeout for starting a server.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Which protocol versions the upstream supports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// All versions.
    Both,
    /// The versions of 2025 and before.
    Legacy,
    /// The version of 2026.
    Modern,
}

impl Era {
    const ALL: [Era; 3] = [Era::Both, Era::Legacy, Era::Modern];

    fn name(self) -> &'static str {
        match self {
            Era::Both => "both",
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// How the gateway reaches its upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UpstreamTransport {
    /// Streamable HTTP.
    Http,
    /// Standard input and output.
    Stdio,
}

/// A server to test.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ServerUnderTest {
    /// A server at this URL that is already running.
    Url(String),
    /// The upstream without the gateway.
    Upstream(Era),
    /// The gateway in front of the upstream.
    Gateway(UpstreamTransport, Era),
    /// Two replicas of the gateway, behind a load balancer without affinity and in front of the upstream over HTTP.
    Replicas(Era),
}

/// The upstream in each era.
pub fn all_upstreams() -> Vec<ServerUnderTest> {
    Era::ALL.map(ServerUnderTest::Upstream).to_vec()
}

/// The gateway in front of each upstream.
pub fn all_gateways() -> Vec<ServerUnderTest> {
    let ways = [UpstreamTransport::Http, UpstreamTransport::Stdio];
    ways.into_iter()
        .flat_map(|transport| Era::ALL.map(|era| ServerUnderTest::Gateway(transport, era)))
        .collect()
}

/// Two replicas in front of each upstream.
pub fn all_replicas() -> Vec<ServerUnderTest> {
    Era::ALL.map(ServerUnderTest::Replicas).to_vec()
}

impl ServerUnderTest {
    /// The title in the tables.
    pub fn title(&self) -> String {
        match self {
            ServerUnderTest::Url(url) => url.clone(),
            ServerUnderTest::Upstream(era) => format!("upstream alone, {}", era.name()),
            ServerUnderTest::Gateway(UpstreamTransport::Http, era) => {
                format!("http, {}", era.name())
            }
            ServerUnderTest::Gateway(UpstreamTransport::Stdio, era) => {
                format!("stdio, {}", era.name())
            }
            ServerUnderTest::Replicas(era) => format!("two replicas, {}", era.name()),
        }
    }

    /// Whether the group's scenarios apply. An upstream alone supports only its own era, and tasks of this kind do not exist
    /// before 2026. The gateway supports every version, whatever its upstream supports.
    pub fn supports(&self, group: Group) -> bool {
        let is_old = matches!(group, Group::V20250618 | Group::V20251125);
        match self {
            ServerUnderTest::Url(_) => true,
            ServerUnderTest::Upstream(Era::Both) => true,
            ServerUnderTest::Upstream(Era::Legacy) => is_old,
            ServerUnderTest::Upstream(Era::Modern) => !is_old,
            ServerUnderTest::Gateway(_, Era::Both | Era::Modern)
            | ServerUnderTest::Replicas(Era::Both | Era::Modern) => true,
            ServerUnderTest::Gateway(_, Era::Legacy) | ServerUnderTest::Replicas(Era::Legacy) => {
                group != Group::Tasks
            }
        }
    }

    /// Whether no gateway can pass the scenario. Two scenarios require input requests to have the keys of a modern server, and
    /// responses to be accepted before a request; a legacy server's requests have no keys. And a legacy program receives the
    /// client's capabilities once, so they cannot be exact for several clients that share it.
    pub fn is_out_of_scope(&self, scenario: &str) -> bool {
        let transport = match self {
            ServerUnderTest::Gateway(transport, _) => *transport,
            ServerUnderTest::Replicas(_)
            | ServerUnderTest::Url(_)
            | ServerUnderTest::Upstream(_) => UpstreamTransport::Http,
        };
        match self {
            ServerUnderTest::Gateway(_, Era::Legacy) | ServerUnderTest::Replicas(Era::Legacy) => {
                match scenario {
                    "input-required-result-basic-elicitation"
                    | "input-required-result-ignore-extra-params" => true,
                    "server-stateless" => transport == UpstreamTransport::Stdio,
                    _ => false,
                }
            }
            ServerUnderTest::Gateway(_, Era::Both | Era::Modern)
            | ServerUnderTest::Replicas(Era::Both | Era::Modern)
            | ServerUnderTest::Url(_)
            | ServerUnderTest::Upstream(_) => false,
        }
    }

    /// Starts the server and its upstream.
    pub fn start(&self, workspace: &Workspace) -> Result<RunningServer, SuiteError> {
        match self {
            ServerUnderTest::Url(url) => {
                Ok(RunningServer { url: url.clone(), programs: Vec::new() })
            }
            ServerUnderTest::Upstream(era) => {
                RunningServer::start(upstream_over_http(workspace, *era))
            }
            ServerUnderTest::Gateway(transport, era) => {
                let (upstream, entry) = match transport {
                    UpstreamTransport::Http => {
                        let upstream = RunningServer::start(upstream_over_http(workspace, *era))?;
                        let entry = json!({"type": "http", "url": upstream.url()});
                        (Some(upstream), entry)
                    }
                    UpstreamTransport::Stdio => {
                        let arguments = ["--stdio", "--era", era.name()];
                        let program = upstream_program(workspace);
                        (None, json!({"type": "stdio", "command": program, "args": arguments}))
                    }
                };
                let mut gateway = gateway(workspace, "home", entry)?;
                gateway.args(GATEWAY_ARGUMENTS);
                let mut running = RunningServer::start(gateway)?;
                // On drop, the gateway ends before its upstream.
                running
                    .programs
                    .extend(upstream.into_iter().flat_map(RunningServer::into_programs));
                Ok(running)
            }
            ServerUnderTest::Replicas(era) => start_replicas(workspace, *era),
        }
    }
}

/// The gateway with a home of its own, in which only the upstream is configured.
fn gateway(workspace: &Workspace, home: &str, entry: Json) -> Result<Command, SuiteError> {
    let home = workspace.target.join("tools").join("conformance").join(home);
    let settings = home.join(".config").join("switchboard").join("settings.json");
    write_home(&home, &settings, entry).map_err(|error| io_error(&settings, error))?;
    let mut gateway = workspace.program(workspace.target.join("debug").join("swb"));
    gateway.current_dir(&home).env("HOME", &home);
    // The upstream ends with the gateway.
    gateway.env("SWB_SHARE", "off");
    for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        gateway.env_remove(variable);
    }
    Ok(gateway)
}

/// Starts a store, two replicas in front of one upstream, and a load balancer with the configuration of the documentation.
fn start_replicas(workspace: &Workspace, era: Era) -> Result<RunningServer, SuiteError> {
    let upstream = RunningServer::start(upstream_over_http(workspace, era))?;
    let entry = json!({"type": "http", "url": upstream.url()});
    let folder = workspace.target.join("tools").join("conformance").join("replicas");
    let created = fs::create_dir_all(&folder);
    created.map_err(|error| io_error(&folder, error))?;
    let port = || {
        let listener = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        listener.map(|it| it.port()).map_err(|error| io_error(&folder, error))
    };
    let (store_port, balancer_port) = (port()?, port()?);
    let mut store = workspace.program("redis-server");
    store.args(["--save", "", "--bind", "127.0.0.1", "--port", &store_port.to_string()]);
    store.arg("--dir").arg(&folder).stdin(Stdio::null()).stdout(Stdio::null());
    let mut programs = vec![Program::spawn(store)?];
    let key = folder.join("seal.key");
    write_key(&key).map_err(|error| io_error(&key, error))?;
    let mut configuration = workspace.root.join("docs/examples/replicas/haproxy.cfg");
    let mut text = fs::read_to_string(&configuration)
        .map_err(|error| io_error(&configuration, error))?
        .replace("127.0.0.1:8800", &format!("127.0.0.1:{balancer_port}"));
    for (home, sample) in [("replica-1", "127.0.0.1:8808"), ("replica-2", "127.0.0.1:8809")] {
        let mut replica = gateway(workspace, home, entry.clone())?;
        replica.args(GATEWAY_ARGUMENTS);
        for host in ["localhost", "127.0.0.1"] {
            replica.args(["--allow-host", &format!("{host}:{balancer_port}")]);
            replica.args(["--allow-origin", &format!("http://{host}:{balancer_port}")]);
        }
        replica.args(["--store", &format!("redis://127.0.0.1:{store_port}"), "--seal-key"]);
        replica.arg(&key);
        let running = RunningServer::start(replica)?;
        let address = running.url().trim_start_matches("http://").trim_end_matches("/mcp");
        text = text.replace(sample, &address.replace("localhost", "127.0.0.1"));
        programs.extend(running.into_programs());
    }
    configuration = folder.join("haproxy.cfg");
    fs::write(&configuration, text).map_err(|error| io_error(&configuration, error))?;
    let mut balancer = workspace.program("haproxy");
    let path = std::env::var("PATH").unwrap_or_default();
    balancer.env("PATH", format!("{path}:/usr/sbin")).args(["-db", "-f"]).arg(&configuration);
    balancer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    programs.insert(0, Program::spawn(balancer)?);
    programs.extend(upstream.into_programs());
    wait_until_it_listens(balancer_port)?;
    Ok(RunningServer { url: format!("http://localhost:{balancer_port}/mcp"), programs })
}

/// Writes a key that only its owner can read.
fn write_key(path: &Path) -> std::io::Result<()> {
    fs::write(path, "0123456789abcdef".repeat(4))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

fn wait_until_it_listens(port: u16) -> Result<(), SuiteError> {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if start.elapsed() > START_TIMEOUT {
            return Err(SuiteError::NoAddress("haproxy".to_owned()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn upstream_program(workspace: &Workspace) -> PathBuf {
    workspace.target.join("debug").join("examples").join(UPSTREAM_EXAMPLE)
}

fn upstream_over_http(workspace: &Workspace, era: Era) -> Command {
    let mut command = workspace.program(upstream_program(workspace));
    command.args(["--http", "127.0.0.1:0", "--era", era.name()]);
    command
}

/// Writes a home in which only the upstream is configured, as trusted, so that no permission request is needed.
fn write_home(home: &Path, settings: &Path, mut entry: Json) -> std::io::Result<()> {
    let _absent = fs::remove_dir_all(home);
    fs::create_dir_all(settings.parent().unwrap_or(home))?;
    entry["trust"] = json!(true);
    let servers = json!({"mcpServers": {SERVER_NAME: entry}});
    fs::write(settings, format!("{servers:#}\n"))
}

/// A running server. Dropping it ends the server and its upstream.
#[derive(Debug)]
pub struct RunningServer {
    url: String,
    programs: Vec<Program>,
}

/// A program that is killed on drop.
#[derive(Debug)]
struct Program(Child);

impl Program {
    fn spawn(mut command: Command) -> Result<Program, SuiteError> {
        let path = PathBuf::from(command.get_program());
        command.spawn().map(Program).map_err(|error| io_error(&path, error))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

impl RunningServer {
    /// Starts a program and waits for the line with its address.
    fn start(mut command: Command) -> Result<RunningServer, SuiteError> {
        let line = steps::line(&command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let path = PathBuf::from(command.get_program());
        let mut child = command.spawn().map_err(|error| io_error(&path, error))?;
        let urls = child.stdout.take().map(announced_urls);
        let program = Program(child);
        let url = urls.and_then(|it| it.recv_timeout(START_TIMEOUT).ok());
        let url = url.ok_or(SuiteError::NoAddress(line))?;
        Ok(RunningServer { url, programs: vec![program] })
    }

    /// The URL of the server. The suite requires the host name `localhost`.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn into_programs(self) -> Vec<Program> {
        self.programs
    }
}

/// The first URL in a program's output. The rest of the output is read and discarded, so that the program never blocks on
/// a full pipe. The thread ends with the program.
fn announced_urls(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (found, receiver) = sync_channel(1);
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(url) = parse_url(&line) {
                let _only_the_first_counts = found.try_send(url);
            }
        }
    });
    receiver
}

fn parse_url(line: &str) -> Option<String> {
    let url = line.split_whitespace().find(|word| word.starts_with("http://"))?;
    Some(url.replacen("127.0.0.1", "localhost", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_found_in_a_programs_output() {
        let urls =
            "starting\nlistening on http://127.0.0.1:4711/mcp\nsee http://127.0.0.1:1/docs\n";
        let url = announced_urls(urls.as_bytes()).recv_timeout(START_TIMEOUT).unwrap();
        assert_eq!(url, "http://localhost:4711/mcp");
    }

    #[test]
    fn a_program_that_ends_without_an_address_is_named() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo nothing to see"]);
        let error = RunningServer::start(command).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c echo nothing to see` did not print its address");
    }

    #[test]
    fn a_home_holds_the_upstream_alone() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("home").join("settings.json");
        let home = folder.path().join("home");
        fs::create_dir_all(home.join("old")).unwrap();
        write_home(&home, &settings, json!({"type": "http", "url": "http://localhost:1/mcp"}))
            .unwrap();
        assert!(!home.join("old").exists());
        assert_eq!(
            fs::read_to_string(&settings).unwrap().parse::<Json>().unwrap(),
            json!({"mcpServers": {"upstream": {
                "type": "http", "url": "http://localhost:1/mcp", "trust": true
            }}})
        );
    }

    #[test]
    fn servers_are_tested_only_with_scenarios_of_their_era() {
        let groups = |subject: ServerUnderTest| {
            let all = super::super::scenarios::Side::Server.groups().iter();
            all.filter(|group| subject.supports(**group))
                .map(|group| group.title())
                .collect::<Vec<_>>()
        };
        assert_eq!(groups(ServerUnderTest::Upstream(Era::Legacy)), ["2025-06-18", "2025-11-25"]);
        assert_eq!(
            groups(ServerUnderTest::Upstream(Era::Modern)),
            ["2026-07-28", "tasks", "skills"]
        );
        assert_eq!(
            groups(ServerUnderTest::Gateway(UpstreamTransport::Http, Era::Legacy)),
            ["2025-06-18", "2025-11-25", "2026-07-28", "skills"]
        );
    }
}
