//! A real Redis or Valkey server for tests, on a free port of this machine, which keeps nothing on disk.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::processes::wait_until;

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The programs that can be the server.
const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];

/// A running server. Dropping it kills the server.
#[derive(Debug)]
pub struct StoreServer {
    port: u16,
    arguments: Vec<String>,
    child: Option<Child>,
    folder: TempDir,
}

impl StoreServer {
    /// Starts a server.
    pub fn start() -> StoreServer {
        StoreServer::start_with(&[])
    }

    /// Starts a server with more arguments. `{port}` in them stands for its port.
    pub fn start_with(arguments: &[&str]) -> StoreServer {
        let port = free_port();
        let arguments = arguments.iter().map(|it| it.replace("{port}", &port.to_string()));
        let folder = tempfile::tempdir().expect("a temp folder");
        let mut server = StoreServer { port, arguments: arguments.collect(), child: None, folder };
        server.restart();
        server
    }

    /// Starts a sentinel with this configuration file, which it changes.
    pub fn start_sentinel(configuration: &Path) -> StoreServer {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a temp folder");
        let mut command = Command::new(program());
        command.arg(configuration).args(["--sentinel", "--bind", "127.0.0.1"]);
        command.args(["--port", &port.to_string()]).arg("--dir").arg(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = Some(command.spawn().expect("it can be started"));
        let server = StoreServer { port, arguments: Vec::new(), child, folder };
        server.wait_until_it_listens();
        server
    }

    fn wait_until_it_listens(&self) {
        wait_until(START_TIMEOUT, "the store listens", || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the server. It loses what it holds.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended_already = child.kill();
            let _ended_already = child.wait();
        }
    }

    /// Starts the server again, on the same port.
    pub fn restart(&mut self) {
        self.kill();
        let port = self.port.to_string();
        let mut command = Command::new(program());
        // Its own folder, so that no configuration or dump of the machine is used.
        command.args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]);
        command.arg("--dir").arg(self.folder.path());
        if !self.arguments.iter().any(|it| it == "--port") {
            command.args(["--port", &port]);
        }
        command.args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("it can be started"));
        self.wait_until_it_listens();
    }

    /// Stops the server without ending it: it accepts connections and answers nothing.
    pub fn suspend(&self) {
        self.signal("-STOP");
    }

    /// Lets a suspended server go on.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let child = self.child.as_ref().expect("it runs");
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.expect("kill can be run").success());
    }

    /// The output of a command that `redis-cli` sends to the server.
    pub fn command(&self, words: &[&str]) -> String {
        let port = self.port.to_string();
        let program = ["valkey-cli", "redis-cli"].into_iter().find(|it| is_installed(it));
        let mut command = Command::new(program.expect("`redis-cli` is installed with the server"));
        let output = command.args(["-p", &port]).args(words).output().expect("it can be run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The server's program.
fn program() -> &'static str {
    PROGRAMS.into_iter().find(|it| is_installed(it)).expect(
        "neither `valkey-server` nor `redis-server` is installed; `cargo xtask test` installs one",
    )
}

/// Is a program of this name installed?
pub fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// A port that nothing listened at a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it is bound").port()
}
