//! Starts replicas, their store and their balancer, each as a process that ends with its value.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, json};

use crate::child_server::ListeningServer;
use crate::failure::Failure;
use crate::process_stats;
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long clients may take to read an answer of the store or of a replica.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// One replica without a balancer or a store.
    OneAlone,
    /// One replica behind the balancer, without a store.
    OneBehindBalancer,
    /// Two replicas behind the balancer, with a store.
    TwoWithStore,
}

impl Setup {
    pub const ALL: [Setup; 3] = [Setup::OneAlone, Setup::OneBehindBalancer, Setup::TwoWithStore];

    pub fn label(self) -> &'static str {
        match self {
            Setup::OneAlone => "one replica, no balancer, no store",
            Setup::OneBehindBalancer => "one replica behind HAProxy, no store",
            Setup::TwoWithStore => "two replicas behind HAProxy, with a store",
        }
    }
}

/// A store.
pub struct Store {
    port: u16,
    folder: PathBuf,
    child: Option<Child>,
}

/// Everything that runs for a measurement. Dropping it ends it.
pub struct Fleet {
    /// Where clients go.
    pub address: String,
    pub replicas: Vec<ListeningServer>,
    pub store: Store,
    _balancer: Option<Killed>,
    _homes: Vec<Sandbox>,
    _echo: ListeningServer,
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _ended_already = self.0.wait();
    }
}

fn free_port() -> Result<u16, Failure> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    port.map(|it| it.port()).map_err(|error| Failure::client("a free port", error))
}

fn wait_until_it_listens(port: u16, what: &'static str) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > START_TIMEOUT => {
                return Err(Failure::client(what, error));
            }
            Err(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

impl Store {
    pub fn start(&mut self) -> Result<(), Failure> {
        let mut command = Command::new("redis-server");
        command.args(["--save", "", "--bind", "127.0.0.1", "--port", &self.port.to_string()]);
        command.arg("--dir").arg(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = "redis-server".into();
        let child = command.spawn().map_err(|error| Failure::NotStarted { program, error })?;
        self.child = Some(child);
        wait_until_it_listens(self.port, "the store")
    }

    pub fn kill(&mut self) {
        if let Some(child) = self.child.take() {
            drop(Killed(child));
        }
    }

    /// What it holds in memory.
    pub fn used_bytes(&self) -> Result<f64, Failure> {
        let fail = |error| Failure::client("the store", error);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(fail)?;
        stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(fail)?;
        stream.write_all(b"INFO memory\r\nQUIT\r\n").map_err(fail)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(fail)?;
        let used = text.lines().find_map(|it| it.strip_prefix("used_memory:"));
        used.and_then(|it| it.trim().parse().ok()).ok_or(Failure::InvalidRequest)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Fleet {
    pub fn start(workspace: &Workspace, setup: Setup) -> Result<Fleet, Failure> {
        let echo = ListeningServer::start_echo("http")?;
        let swb = workspace.swb()?;
        let number = if setup == Setup::TwoWithStore { 2 } else { 1 };
        let mut homes = Vec::new();
        for _ in 0..number {
            let entry = json!({"type": "http", "url": echo.address, "trust": true});
            let servers: Map<_, _> = [("echo".to_owned(), entry)].into_iter().collect();
            homes.push(Sandbox::with_servers(&swb, &workspace.search_path, servers)?);
        }
        let folder = homes[0].home().to_owned();
        let mut store = Store { port: free_port()?, folder: folder.clone(), child: None };
        homes[0].write_private("seal.key", &"0123456789abcdef".repeat(4))?;
        let key = folder.join("seal.key");
        let balancer_port = free_port()?;
        if setup == Setup::TwoWithStore {
            store.start()?;
        }
        let mut replicas = Vec::new();
        for home in &homes {
            let mut command = home.command(&swb);
            command.args(["serve", "--pool", "--names", "plain", "--no-auth", "--metrics-open"]);
            command.args(["--http", "127.0.0.1:0", "--max-requests-per-second", "1000000"]);
            command.args(["--allow-host", &format!("127.0.0.1:{balancer_port}")]);
            if setup == Setup::TwoWithStore {
                let url = format!("redis://127.0.0.1:{}", store.port);
                command.args(["--store", &url, "--seal-key"]).arg(&key);
            }
            replicas.push(ListeningServer::spawn(command)?);
        }
        let (address, balancer) = match setup {
            Setup::OneAlone => (replicas[0].address.clone(), None),
            Setup::OneBehindBalancer | Setup::TwoWithStore => {
                let balancer = start_balancer(workspace, &folder, balancer_port, &replicas)?;
                (format!("http://127.0.0.1:{balancer_port}/mcp"), Some(balancer))
            }
        };
        let fleet =
            Fleet { address, replicas, store, _balancer: balancer, _homes: homes, _echo: echo };
        fleet.wait_until_joined(number)?;
        Ok(fleet)
    }

    /// Waits until every replica knows the others.
    fn wait_until_joined(&self, number: usize) -> Result<(), Failure> {
        let start = Instant::now();
        while number > 1 && start.elapsed() < START_TIMEOUT {
            let known = self.sum_of("switchboard_replicas")?;
            if known >= (number * number) as f64 {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// The processor time of all replicas.
    pub fn cpu_time(&self) -> Result<Duration, Failure> {
        let mut total = Duration::ZERO;
        for replica in &self.replicas {
            total += process_stats::cpu_time(replica.pid())?;
        }
        Ok(total)
    }

    /// The memory of the first replica.
    pub fn replica_megabytes(&self) -> Result<f64, Failure> {
        process_stats::resident_megabytes(self.replicas[0].pid())
    }

    /// The tool calls that the replicas have made.
    pub fn executed_calls(&self) -> Result<f64, Failure> {
        self.sum_of("switchboard_tool_calls_total{")
    }

    fn sum_of(&self, metric: &str) -> Result<f64, Failure> {
        let mut sum = 0.0;
        for replica in &self.replicas {
            let page = metrics(&replica.address)?;
            let lines = page.lines().filter(|it| it.starts_with(metric));
            let values = lines.filter_map(|it| it.rsplit(' ').next()?.parse::<f64>().ok());
            sum += values.sum::<f64>();
        }
        Ok(sum)
    }
}

fn metrics(address: &str) -> Result<String, Failure> {
    let fail = |error| Failure::client("a replica", error);
    let host = address.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(host).map_err(fail)?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(fail)?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(fail)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(fail)?;
    Ok(text)
}

/// Starts HAProxy with the configuration of the documentation.
fn start_balancer(
    workspace: &Workspace,
    folder: &std::path::Path,
    port: u16,
    replicas: &[ListeningServer],
) -> Result<Killed, Failure> {
    let fail = |error| Failure::client("the configuration of HAProxy", error);
    let sample = workspace.root.join("docs/examples/replicas/haproxy.cfg");
    let mut text = fs::read_to_string(sample).map_err(fail)?;
    text = text.replace("127.0.0.1:8800", &format!("127.0.0.1:{port}"));
    for (number, place) in ["127.0.0.1:8808", "127.0.0.1:8809"].into_iter().enumerate() {
        text = match replicas.get(number) {
            Some(replica) => {
                let host = replica.address.trim_start_matches("http://").trim_end_matches("/mcp");
                text.replace(place, host)
            }
            None => {
                let lines = text.lines().filter(|it| !it.contains(place));
                lines.map(|it| format!("{it}\n")).collect()
            }
        };
    }
    let file = folder.join("haproxy.cfg");
    fs::write(&file, text).map_err(fail)?;
    let mut command = Command::new("haproxy");
    let mut path = workspace.search_path.clone();
    path.push(":/usr/sbin");
    command.env("PATH", path).args(["-db", "-f"]).arg(&file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let program = "haproxy".into();
    let child = command.spawn().map_err(|error| Failure::NotStarted { program, error })?;
    let balancer = Killed(child);
    wait_until_it_listens(port, "the balancer")?;
    Ok(balancer)
}
