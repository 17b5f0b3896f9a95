//! Who is measured, in the order of the tables. Our own clients are this program under another word.

use std::ffi::OsString;

use super::ours::{self, Kept};
use super::question::{Question, Transport};
use super::rivals::Rivals;
use super::{by_hand, floor, server};
use crate::failure::Failure;

/// The word that makes this program one of the clients.
pub const WORD: &str = "__client";

/// A client under test.
#[derive(Debug)]
pub struct Client {
    /// Who it is.
    pub who: Who,
    /// How many calls it is asked for.
    pub pace: Pace,
    /// What begins its command.
    pub command: Vec<OsString>,
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Bytes there and back.
    Floor,
    /// What one would write by hand.
    ByHand,
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

impl Who {
    /// Its name in tables.
    pub fn label(self, transport: Transport) -> &'static str {
        match (self, transport) {
            (Who::Floor, Transport::Stdio) => "floor: bare pipes",
            (Who::Floor, Transport::Http) => "floor: bare TCP",
            (Who::ByHand, Transport::Stdio) => "written by hand, `serde_json` over pipes",
            (Who::ByHand, Transport::Http) => "written by hand, hyper",
            (Who::Ours, _) => "**switchboard**, result raw",
            (Who::OursDecoded, _) => "switchboard, result decoded",
            (Who::Rmcp, _) => "Rust SDK (rmcp 3.8.0)",
            (Who::TypescriptV1, _) => "TypeScript SDK 1.32.2",
            (Who::TypescriptV2, _) => "TypeScript SDK 2.4.0",
            (Who::Python, _) => "Python SDK 2.3.0",
        }
    }
}

/// Everybody.
pub fn all(rivals: &Rivals) -> Result<Vec<Client>, Failure> {
    let own = server::own_program()?;
    let ours = |name: &str| vec![own.clone().into(), WORD.into(), name.into()];
    let native = |who, command| Client { who, pace: Pace::Native, command };
    let rival = |who, pace, command: &Vec<OsString>| Client { who, pace, command: command.clone() };
    Ok(vec![
        native(Who::Floor, ours("floor")),
        native(Who::ByHand, ours("by-hand")),
        native(Who::Ours, ours("raw")),
        native(Who::OursDecoded, ours("decoded")),
        rival(Who::Rmcp, Pace::Sdk, &rivals.rmcp),
        rival(Who::TypescriptV1, Pace::Script, &rivals.typescript_v1),
        rival(Who::TypescriptV2, Pace::Script, &rivals.typescript_v2),
        rival(Who::Python, Pace::Script, &rivals.python),
    ])
}

/// The other side of a question to one of our own clients.
pub fn run(words: &[OsString]) -> Result<(), Failure> {
    let (name, words) = words.split_first().ok_or(Failure::Question)?;
    let question = Question::parse(words)?;
    let cost = match (name.to_str().unwrap_or_default(), question.transport) {
        ("floor", Transport::Stdio) => floor::over_pipe(&question),
        ("floor", Transport::Http) => floor::over_tcp(&question),
        ("by-hand", Transport::Stdio) => by_hand::over_stdio(&question),
        ("by-hand", Transport::Http) => by_hand::over_http(&question),
        ("raw", _) => ours::run(&question, Kept::Raw),
        ("decoded", _) => ours::run(&question, Kept::Decoded),
        (unknown, _) => Err(Failure::UnknownWord(unknown.to_owned())),
    };
    println!("{}", cost?.to_json());
    Ok(())
}
