//! A second network namespace with a link to ours, and the servers in it. Dropping it ends them all.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::Signal;

use crate::environment::relay;
use crate::environment::sandbox;
use crate::environment::system;
use crate::failure::Failure;
use crate::servers::{Placement, TestServer};

const LOCAL_INTERFACE: &str = "swb-near";
const REMOTE_INTERFACE: &str = "swb-far";
const LOCAL_ADDRESS: &str = "10.77.0.1/24";
const REMOTE_ADDRESS: &str = "10.77.0.2";

/// Which end of the link is taken down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEnd {
    /// The local end: the system reports at once that there is no route.
    Local,
    /// The remote end: packets are lost.
    Remote,
}

/// The namespace, its relay, and its servers.
#[derive(Debug)]
pub struct RemoteNetwork {
    relay: Child,
    relay_input: ChildStdin,
    relay_output: BufReader<ChildStdout>,
    servers: BTreeMap<&'static str, RemoteServer>,
}

#[derive(Debug)]
struct RemoteServer {
    member: TestServer,
    process: Child,
}

impl RemoteNetwork {
    /// Creates the namespace and the link.
    pub fn open() -> Result<RemoteNetwork, Failure> {
        let own = sandbox::own_program()?;
        let mut relay = Command::new("unshare");
        relay.arg("--net").arg(own).arg(relay::SUBCOMMAND);
        relay.stdin(Stdio::piped()).stdout(Stdio::piped());
        let relay = relay.spawn();
        let mut relay =
            relay.map_err(|error| Failure::from_io("no relay could be started", error))?;
        let orders = relay.stdin.take().expect("it is piped");
        let answers = BufReader::new(relay.stdout.take().expect("it is piped"));
        let mut remote = RemoteNetwork {
            relay,
            relay_input: orders,
            relay_output: answers,
            servers: BTreeMap::new(),
        };
        // The relay responds from inside its namespace, so the namespace exists from here on.
        remote.command_relay("fast")?;
        let number = remote.relay.id().to_string();
        system::run_tool(&[
            "ip",
            "link",
            "add",
            LOCAL_INTERFACE,
            "type",
            "veth",
            "peer",
            "name",
            REMOTE_INTERFACE,
        ])?;
        system::run_tool(&["ip", "link", "set", REMOTE_INTERFACE, "netns", &number])?;
        system::run_tool(&["ip", "address", "add", LOCAL_ADDRESS, "dev", LOCAL_INTERFACE])?;
        system::run_tool(&["ip", "link", "set", LOCAL_INTERFACE, "up"])?;
        let theirs = format!("{REMOTE_ADDRESS}/24");
        remote.run_inside(&["ip", "address", "add", &theirs, "dev", REMOTE_INTERFACE])?;
        remote.run_inside(&["ip", "link", "set", "lo", "up"])?;
        remote.run_inside(&["ip", "link", "set", REMOTE_INTERFACE, "up"])?;
        Ok(remote)
    }

    fn run_inside(&self, words: &[&str]) -> Result<(), Failure> {
        let net = format!("--net=/proc/{}/ns/net", self.relay.id());
        system::run_tool(&[&["nsenter", &net], words].concat())
    }

    /// Sends the relay an order and returns its response.
    fn command_relay(&mut self, command_line: &str) -> Result<String, Failure> {
        let mut answer = String::new();
        let told = writeln!(self.relay_input, "{command_line}")
            .and_then(|()| self.relay_output.read_line(&mut answer));
        match told {
            Ok(1..) => Ok(answer.trim().to_owned()),
            Ok(0) => Err(Failure::new(
                "the relay in the other network namespace ended; namespaces need root",
            )),
            Err(error) => Err(Failure::from_io("the relay does not answer", error)),
        }
    }

    /// Starts a server in the namespace and returns its URL.
    pub fn serve(&mut self, member: &TestServer) -> Result<String, Failure> {
        let port = self.command_relay(&format!("open {}", member.name))?;
        let (process, inner) = self.start(member)?;
        let (scheme, rest) = inner.split_once("://").unwrap_or_default();
        let (_, path) = rest.split_once('/').unwrap_or_default();
        self.servers.insert(member.name, RemoteServer { member: member.clone(), process });
        Ok(format!("{scheme}://{REMOTE_ADDRESS}:{port}/{path}"))
    }

    /// Starts a server's process and registers its port with the relay.
    fn start(&mut self, member: &TestServer) -> Result<(Child, String), Failure> {
        let Placement::Remote(how) = member.placement else {
            return Err(Failure::new(format!("`{}` is not remote", member.name)));
        };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.relay.id()));
        command.arg(testkit::scripted::program()).arg(how).arg(member.script.to_json());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child =
            child.map_err(|error| Failure::from_io("no remote server could be started", error))?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let read = output.read_line(&mut line);
        read.map_err(|error| {
            Failure::from_io("could not read the output of a remote server", error)
        })?;
        let url = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        let port = url.rsplit(':').next().and_then(|it| it.split('/').next()).unwrap_or_default();
        if port.is_empty() {
            return Err(Failure::new(format!("a remote server did not print its address: {line}")));
        }
        self.command_relay(&format!("to {} {port}", member.name))?;
        Ok((child, url))
    }

    /// Kills a server.
    pub fn kill(&mut self, name: &str) -> Result<(), Failure> {
        let Some(remote) = self.servers.get_mut(name) else { return Ok(()) };
        let killed = remote.process.kill().and_then(|()| remote.process.wait());
        killed
            .map(drop)
            .map_err(|error| Failure::from_io("a remote server could not be killed", error))
    }

    /// Starts a killed server again, at the same address.
    pub fn restart(&mut self, name: &str) -> Result<(), Failure> {
        let Some(member) = self.servers.get(name).map(|it| it.member.clone()) else {
            return Ok(());
        };
        let (process, _) = self.start(&member)?;
        if let Some(remote) = self.servers.get_mut(name) {
            remote.process = process;
        }
        Ok(())
    }

    /// Sends a server a signal.
    pub fn signal(&self, name: &str, signal: Signal) -> Result<(), Failure> {
        match self.servers.get(name) {
            Some(remote) => system::send_signal(remote.process.id(), signal).map(drop),
            None => Ok(()),
        }
    }

    /// Takes one end of the link down.
    pub fn link_down(&self, end: LinkEnd) -> Result<(), Failure> {
        match end {
            LinkEnd::Local => system::run_tool(&["ip", "link", "set", LOCAL_INTERFACE, "down"]),
            LinkEnd::Remote => self.run_inside(&["ip", "link", "set", REMOTE_INTERFACE, "down"]),
        }
    }

    /// Takes the link up again.
    pub fn link_up(&self, end: LinkEnd) -> Result<(), Failure> {
        match end {
            LinkEnd::Local => system::run_tool(&["ip", "link", "set", LOCAL_INTERFACE, "up"]),
            LinkEnd::Remote => self.run_inside(&["ip", "link", "set", REMOTE_INTERFACE, "up"]),
        }
    }

    /// Makes the link slow, or fast again.
    pub fn set_speed(&mut self, word: &'static str) -> Result<(), Failure> {
        match self.command_relay(word)?.as_str() {
            "done" => Ok(()),
            said => Err(Failure::new(format!("the relay does not know `{word}`: {said}"))),
        }
    }

    /// The process ids of the relay and the servers.
    pub fn pids(&self) -> Vec<u32> {
        let servers = self.servers.values().map(|it| it.process.id());
        servers.chain([self.relay.id()]).collect()
    }
}

impl Drop for RemoteNetwork {
    fn drop(&mut self) {
        let servers = self.servers.values_mut().map(|it| &mut it.process);
        for child in servers.chain([&mut self.relay]) {
            let _has_ended = child.kill();
            let _has_ended = child.wait();
        }
    }
}
