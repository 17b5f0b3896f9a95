//! The requests of clients to the shared host: one line of JSON, answered by one line. After a successful
//! [`Request::Attach`] the stream carries the messages of the Model Context Protocol.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use switchboard_wire::process::Program;

/// The version of this protocol. A host and a client of different versions do not work together.
pub const PROTOCOL: u32 = 1;

/// The largest request, in bytes: a program with its environment.
pub const MAX_LINE: usize = 4 * 1024 * 1024;

/// Identifies a build of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// The version.
    pub version: String,
    /// When the program file was written, in nanoseconds since 1970. The build that was installed last is the newest.
    pub written: u64,
}

impl Build {
    /// Whether this build was installed after another.
    pub fn is_newer_than(&self, other: &Build) -> bool {
        self.written > other.written
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Two builds of one version differ in their time; the lower digits are enough to tell them apart.
        write!(f, "{} (build {:08x})", self.version, (self.written / 1_000_000) as u32)
    }
}

/// A line of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestLine {
    /// The version of the protocol.
    pub protocol: u32,
    /// The build of the client.
    pub build: Build,
    /// The request. Absent if the versions differ so much that it cannot be read.
    #[serde(default)]
    pub request: Option<Request>,
}

/// A line of the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseLine {
    /// The version of the protocol.
    pub protocol: u32,
    /// The build of the host.
    pub build: Build,
    /// The response.
    pub response: Response,
}

/// What a client asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// Use a server.
    Attach(Box<AttachRequest>),
    /// How a program ended, after its stream closed.
    Exit {
        /// The number of the program.
        program: u64,
    },
    /// What runs.
    Status,
    /// Accept no more clients, give up the socket, and end when the last client has left.
    Retire,
    /// End all servers and exit.
    Stop,
}

/// A server to use.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachRequest {
    /// Clients with the same key use the same program.
    pub key: String,
    /// The server's name in the configuration of the client.
    pub server: String,
    /// The fingerprint of the server's entry.
    pub fingerprint: String,
    /// The sharing class, for users.
    pub class: String,
    /// The program, which is started if none runs with this key.
    pub program: ProgramLine,
    /// How long the program stays without clients, in seconds.
    pub idle_seconds: u64,
    /// Whether a program that runs already may be used.
    pub reuse: Reuse,
    /// The client.
    pub client: ClientInfo,
}

/// Whether a client takes a program that runs already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reuse {
    /// If there is one.
    Running,
    /// It wants a new one. Others keep the one that they have; later clients get the new one.
    Fresh,
}

/// Omits the program, which may have secrets.
impl fmt::Debug for AttachRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttachRequest({})", self.server)
    }
}

/// A client of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    /// The process.
    pub pid: u32,
    /// The command, such as `swb call`.
    pub command: String,
    /// Its working folder.
    pub folder: PathBuf,
}

/// A program as a line can carry it: texts that are not UTF-8 are lists of bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramLine {
    command: OsText,
    args: Vec<OsText>,
    env: Vec<(OsText, OsText)>,
    cwd: Option<OsText>,
}

/// A text of the operating system.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum OsText {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&OsStr> for OsText {
    fn from(text: &OsStr) -> OsText {
        match text.to_str() {
            Some(text) => OsText::Text(text.to_owned()),
            None => OsText::Bytes(text.as_bytes().to_vec()),
        }
    }
}

impl From<OsText> for OsString {
    fn from(text: OsText) -> OsString {
        match text {
            OsText::Text(text) => text.into(),
            OsText::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

impl From<&Program> for ProgramLine {
    fn from(program: &Program) -> ProgramLine {
        let Program { command, args, env, cwd } = program;
        let pair =
            |(name, value): &(OsString, OsString)| (OsText::from(&**name), OsText::from(&**value));
        ProgramLine {
            command: OsText::from(&**command),
            args: args.iter().map(|it| OsText::from(&**it)).collect(),
            env: env.iter().map(pair).collect(),
            cwd: cwd.as_ref().map(|it| OsText::from(it.as_os_str())),
        }
    }
}

impl From<ProgramLine> for Program {
    fn from(line: ProgramLine) -> Program {
        Program {
            command: line.command.into(),
            args: line.args.into_iter().map(OsString::from).collect(),
            env: line.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: line.cwd.map(|it| OsString::from(it).into()),
        }
    }
}

/// The answer of the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Response {
    /// The stream carries messages from now on.
    Attached {
        /// The number of the program, for [`Request::Exit`].
        program: u64,
        /// Its process id.
        pid: Option<u32>,
        /// The protocol era that other clients agreed on with the server: `legacy` or `modern`.
        era: Option<String>,
    },
    /// The program did not start, with the error number of the system.
    NotStarted {
        /// The error number.
        errno: Option<i32>,
    },
    /// The server belongs to another session.
    NotShareable {
        /// Why.
        reason: String,
    },
    /// The host is older than the client, or retires: it takes no new clients of this build.
    Outdated,
    /// How a program ended.
    Exit(Option<ExitLine>),
    /// What runs.
    Status(Box<HostStatus>),
    /// The host does what it was asked.
    Done,
    /// The request could not be read, or cannot be served at the moment.
    Invalid {
        /// Why.
        reason: String,
    },
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitLine {
    /// The wait status, if it exited by itself.
    pub status: Option<i32>,
    /// The end of its standard error output.
    pub stderr: String,
    /// The start of its first output that is not a message.
    pub malformed: Option<String>,
}

/// What a host runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// The process id of the host.
    pub pid: u32,
    /// When it started, in seconds since 1970.
    pub since: u64,
    /// Whether it takes no more clients.
    pub is_retiring: bool,
    /// The programs.
    pub programs: Vec<ProgramStatus>,
}

/// A program that a host runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramStatus {
    /// The server's name at the client that started it.
    pub server: String,
    /// The fingerprint of the server's entry.
    pub fingerprint: String,
    /// The sharing class.
    pub class: String,
    /// The process id.
    pub pid: Option<u32>,
    /// When it started, in seconds since 1970.
    pub since: u64,
    /// The folder that it runs in.
    pub folder: Option<PathBuf>,
    /// The client that started it, whose environment it has.
    pub started_by: ClientInfo,
    /// The clients that use it.
    pub clients: Vec<ClientInfo>,
    /// How many tools were called.
    pub calls: u64,
    /// For how many seconds it has had no client.
    pub idle_seconds: Option<u64>,
    /// After how many seconds without a client it is stopped.
    pub idle_limit_seconds: u64,
    /// Why it belongs to one session, if it does.
    pub session_bound: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_survives_the_line_byte_for_byte() {
        let odd = OsString::from_vec(vec![b'a', 0xff]);
        let program = Program {
            command: "sh".into(),
            args: vec![odd.clone(), "-c".into()],
            env: vec![("A".into(), odd)],
            cwd: Some("/srv".into()),
        };
        let line = serde_json::to_string(&ProgramLine::from(&program)).expect("JSON");
        let read: ProgramLine = serde_json::from_str(&line).expect("a program");
        assert!(Program::from(read) == program, "{line}");
    }

    #[test]
    fn the_build_that_was_written_last_is_the_newest() {
        let build = |written| Build { version: "1.0.0".to_owned(), written };
        assert!(build(2).is_newer_than(&build(1)) && !build(1).is_newer_than(&build(1)));
        assert_ne!(build(1_000_000).to_string(), build(2_000_000).to_string());
    }
}
