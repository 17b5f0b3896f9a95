//! Who is measured, in the order of the tables. Our own clients are this program under another word.

use std::ffi::OsString;

use super::load_request::{LoadRequest, Transport};
use super::sdk_clients::SdkClients;
use super::switchboard_client;
use super::switchboard_client::ResultHandling;
use super::{baseline, hand_written};
use crate::child_server;
use crate::failure::Failure;

/// The word that makes this program one of the clients.
pub const SUBCOMMAND: &str = "__client";

/// A client under test.
#[derive(Debug)]
pub struct Client {
    /// Who it is.
    pub kind: ClientKind,
    /// How many calls it is asked for.
    pub pace: Pace,
    /// What begins its command.
    pub command: Vec<OsString>,
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// Bytes there and back.
    Baseline,
    /// What one would write by hand.
    HandWritten,
    /// Ours, the result raw.
    Ours,
    /// Ours, the result read into types.
    OursDecoded,
    /// The official Rust SDK.
    Rmcp,
    /// The official TypeScript SDK, version 1.
    TypescriptV1,
    /// The official TypeScript SDK, version 2.
    TypescriptV2,
    /// The official Python SDK.
    Python,
}

/// How quick a client is, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Tens of thousands of calls take a second.
    Native,
    /// Thousands do.
    Sdk,
    /// Hundreds do.
    Script,
}

impl ClientKind {
    /// Its name in tables.
    pub fn label(self, transport: Transport) -> &'static str {
        match (self, transport) {
            (ClientKind::Baseline, Transport::Stdio) => "floor: bare pipes",
            (ClientKind::Baseline, Transport::Http) => "floor: bare TCP",
            (ClientKind::HandWritten, Transport::Stdio) => {
                "written by hand, `serde_json` over pipes"
            }
            (ClientKind::HandWritten, Transport::Http) => "written by hand, hyper",
            (ClientKind::Ours, _) => "**switchboard**, result raw",
            (ClientKind::OursDecoded, _) => "switchboard, result decoded",
            (ClientKind::Rmcp, _) => "Rust SDK (rmcp 3.8.0)",
            (ClientKind::TypescriptV1, _) => "TypeScript SDK 1.32.2",
            (ClientKind::TypescriptV2, _) => "TypeScript SDK 2.4.0",
            (ClientKind::Python, _) => "Python SDK 2.3.0",
        }
    }
}

/// Everybody.
pub fn all(rivals: &SdkClients) -> Result<Vec<Client>, Failure> {
    let own = child_server::own_program()?;
    let ours = |name: &str| vec![own.clone().into(), SUBCOMMAND.into(), name.into()];
    let native = |who, command| Client { kind: who, pace: Pace::Native, command };
    let rival =
        |who, pace, command: &Vec<OsString>| Client { kind: who, pace, command: command.clone() };
    Ok(vec![
        native(ClientKind::Baseline, ours("floor")),
        native(ClientKind::HandWritten, ours("by-hand")),
        native(ClientKind::Ours, ours("raw")),
        native(ClientKind::OursDecoded, ours("decoded")),
        rival(ClientKind::Rmcp, Pace::Sdk, &rivals.rmcp),
        rival(ClientKind::TypescriptV1, Pace::Script, &rivals.typescript_v1),
        rival(ClientKind::TypescriptV2, Pace::Script, &rivals.typescript_v2),
        rival(ClientKind::Python, Pace::Script, &rivals.python),
    ])
}

/// The other side of a question to one of our own clients.
pub fn run(words: &[OsString]) -> Result<(), Failure> {
    let (name, words) = words.split_first().ok_or(Failure::InvalidRequest)?;
    let question = LoadRequest::parse(words)?;
    let cost = match (name.to_str().unwrap_or_default(), question.transport) {
        ("floor", Transport::Stdio) => baseline::over_pipe(&question),
        ("floor", Transport::Http) => baseline::over_tcp(&question),
        ("by-hand", Transport::Stdio) => hand_written::over_stdio(&question),
        ("by-hand", Transport::Http) => hand_written::over_http(&question),
        ("raw", _) => switchboard_client::run(&question, ResultHandling::Raw),
        ("decoded", _) => switchboard_client::run(&question, ResultHandling::Decoded),
        (unknown, _) => Err(Failure::UnknownArgument(unknown.to_owned())),
    };
    println!("{}", cost?.to_json());
    Ok(())
}
