//! A second network namespace with a link to ours, and the servers that live in it. Dropping it ends them all.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::Signal;

use crate::cast::{Member, Stage};
use crate::failure::Failure;
use crate::place;
use crate::relay;
use crate::system;

const OURS: &str = "swb-near";
const THEIRS: &str = "swb-far";
const OUR_ADDRESS: &str = "10.77.0.1/24";
const THEIR_ADDRESS: &str = "10.77.0.2";

/// Which end of the link goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Ours: the system knows at once that there is no way.
    Ours,
    /// Theirs: nothing comes back.
    Theirs,
}

/// The namespace, its relay, and its servers.
#[derive(Debug)]
pub struct FarSide {
    relay: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    servers: BTreeMap<&'static str, Far>,
}

#[derive(Debug)]
struct Far {
    member: Member,
    process: Child,
}

impl FarSide {
    /// Makes the namespace and the link.
    pub fn open() -> Result<FarSide, Failure> {
        let own = place::own_program()?;
        let mut relay = Command::new("unshare");
        relay.arg("--net").arg(own).arg(relay::WORD);
        relay.stdin(Stdio::piped()).stdout(Stdio::piped());
        let relay = relay.spawn();
        let mut relay = relay.map_err(|error| Failure::of("no relay could be started", error))?;
        let orders = relay.stdin.take().expect("it is piped");
        let answers = BufReader::new(relay.stdout.take().expect("it is piped"));
        let mut far = FarSide { relay, orders, answers, servers: BTreeMap::new() };
        // It answers from inside its namespace, so that it is there from here on.
        far.order("fast")?;
        let number = far.relay.id().to_string();
        system::run(&["ip", "link", "add", OURS, "type", "veth", "peer", "name", THEIRS])?;
        system::run(&["ip", "link", "set", THEIRS, "netns", &number])?;
        system::run(&["ip", "address", "add", OUR_ADDRESS, "dev", OURS])?;
        system::run(&["ip", "link", "set", OURS, "up"])?;
        let theirs = format!("{THEIR_ADDRESS}/24");
        far.inside(&["ip", "address", "add", &theirs, "dev", THEIRS])?;
        far.inside(&["ip", "link", "set", "lo", "up"])?;
        far.inside(&["ip", "link", "set", THEIRS, "up"])?;
        Ok(far)
    }

    fn inside(&self, words: &[&str]) -> Result<(), Failure> {
        let net = format!("--net=/proc/{}/ns/net", self.relay.id());
        system::run(&[&["nsenter", &net], words].concat())
    }

    /// Tells the relay something, and gives its answer.
    fn order(&mut self, order: &str) -> Result<String, Failure> {
        let mut answer = String::new();
        let told =
            writeln!(self.orders, "{order}").and_then(|()| self.answers.read_line(&mut answer));
        match told {
            Ok(1..) => Ok(answer.trim().to_owned()),
            Ok(0) => Err(Failure::because(
                "the relay in the other network namespace ended; namespaces need root",
            )),
            Err(error) => Err(Failure::of("the relay does not answer", error)),
        }
    }

    /// Starts a server there, and says where it is reached from here.
    pub fn serve(&mut self, member: &Member) -> Result<String, Failure> {
        let port = self.order(&format!("open {}", member.name))?;
        let (process, inner) = self.start(member)?;
        let (scheme, rest) = inner.split_once("://").unwrap_or_default();
        let (_, path) = rest.split_once('/').unwrap_or_default();
        self.servers.insert(member.name, Far { member: member.clone(), process });
        Ok(format!("{scheme}://{THEIR_ADDRESS}:{port}/{path}"))
    }

    /// Starts a server's process, and has the relay know it.
    fn start(&mut self, member: &Member) -> Result<(Child, String), Failure> {
        let Stage::Remote(how) = member.stage else {
            return Err(Failure::because(format!("`{}` is not remote", member.name)));
        };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.relay.id()));
        command.arg(testkit::scripted::program()).arg(how).arg(member.script.json());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child =
            child.map_err(|error| Failure::of("no remote server could be started", error))?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let read = output.read_line(&mut line);
        read.map_err(|error| Failure::of("a remote server says nothing", error))?;
        let url = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        let port = url.rsplit(':').next().and_then(|it| it.split('/').next()).unwrap_or_default();
        if port.is_empty() {
            return Err(Failure::because(format!(
                "a remote server does not say where it is: {line}"
            )));
        }
        self.order(&format!("to {} {port}", member.name))?;
        Ok((child, url))
    }

    /// Kills a server.
    pub fn kill(&mut self, name: &str) -> Result<(), Failure> {
        let Some(far) = self.servers.get_mut(name) else { return Ok(()) };
        let killed = far.process.kill().and_then(|()| far.process.wait());
        killed.map(drop).map_err(|error| Failure::of("a remote server could not be killed", error))
    }

    /// Starts a killed server again, at the same address.
    pub fn revive(&mut self, name: &str) -> Result<(), Failure> {
        let Some(member) = self.servers.get(name).map(|it| it.member.clone()) else {
            return Ok(());
        };
        let (process, _) = self.start(&member)?;
        if let Some(far) = self.servers.get_mut(name) {
            far.process = process;
        }
        Ok(())
    }

    /// Sends a server a signal.
    pub fn signal(&self, name: &str, signal: Signal) -> Result<(), Failure> {
        match self.servers.get(name) {
            Some(far) => system::signal(far.process.id(), signal).map(drop),
            None => Ok(()),
        }
    }

    /// Takes one end of the link down.
    pub fn cut(&self, end: End) -> Result<(), Failure> {
        match end {
            End::Ours => system::run(&["ip", "link", "set", OURS, "down"]),
            End::Theirs => self.inside(&["ip", "link", "set", THEIRS, "down"]),
        }
    }

    /// Takes it up again.
    pub fn join(&self, end: End) -> Result<(), Failure> {
        match end {
            End::Ours => system::run(&["ip", "link", "set", OURS, "up"]),
            End::Theirs => self.inside(&["ip", "link", "set", THEIRS, "up"]),
        }
    }

    /// Makes the link slow, or fast again.
    pub fn pace(&mut self, word: &'static str) -> Result<(), Failure> {
        match self.order(word)?.as_str() {
            "done" => Ok(()),
            said => Err(Failure::because(format!("the relay does not know `{word}`: {said}"))),
        }
    }

    /// The processes of it.
    pub fn processes(&self) -> Vec<u32> {
        let servers = self.servers.values().map(|it| it.process.id());
        servers.chain([self.relay.id()]).collect()
    }
}

impl Drop for FarSide {
    fn drop(&mut self) {
        let servers = self.servers.values_mut().map(|it| &mut it.process);
        for child in servers.chain([&mut self.relay]) {
            let _has_ended = child.kill();
            let _has_ended = child.wait();
        }
    }
}
