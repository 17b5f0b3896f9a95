//! The servers of a run, good and bad: their behaviour, location, configuration and calls.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use testkit::real_servers;
use testkit::real_servers::ServerTransport;
use testkit::{Quirk, Script};

use crate::random::SeededRandom;
use crate::verdict::checker::ATTEMPT_TIMEOUT;
use crate::verdict::history::Expectation;

/// The timeout of calls that are expected to fail, in milliseconds.
const FAILING_CALL_TIMEOUT_MS: u64 = 4_000;
/// The timeout for servers that start slowly, on a busy machine, in milliseconds.
const SLOW_START_TIMEOUT_MS: u64 = 60_000;
/// The method with faulty responses.
const CALL_METHOD: &str = "tools/call";
/// The server that is added and removed.
pub const TRANSIENT: &str = "guest";
/// The server whose entry changes.
pub const CHANGING: &str = "delta";
/// The server that requires a login.
pub const SIGNED_IN: &str = "signed";

/// The server that loses its sessions while calls are in flight.
pub const FORGETFUL: &str = "forgetful";

/// Where a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A program that `swb` starts.
    LocalProgram,
    /// On the remote network, with this transport of the scripted server.
    Remote(&'static str),
    /// In this process, with a login.
    BehindLogin,
    /// A third-party program that `swb` starts.
    RealProgram,
}

/// One server.
#[derive(Debug, Clone)]
pub struct TestServer {
    /// Its name.
    pub name: &'static str,
    /// Its expected behaviour.
    pub expectation: Expectation,
    /// Where it runs.
    pub placement: Placement,
    /// The script of the server.
    pub script: Script,
    /// How often it is called, relative to the others.
    weight: u64,
}

impl TestServer {
    fn new(name: &'static str, placement: Placement, script: Script) -> TestServer {
        TestServer {
            name,
            expectation: Expectation::Reliable,
            placement,
            script: script.name(name),
            weight: 10,
        }
    }

    fn unreliable(mut self, weight: u64) -> TestServer {
        (self.expectation, self.weight) = (Expectation::Unreliable, weight);
        self
    }

    /// The tool and the arguments of a call with this canary.
    pub fn call(&self, canary: &str, dice: &mut SeededRandom) -> (String, Json) {
        let (tool, arguments) = match (self.placement, self.name) {
            (Placement::RealProgram, _) => ("echo", json!({"message": canary})),
            (Placement::LocalProgram, "crasher") if dice.below(4) == 0 => {
                ("crash", json!({"text": canary}))
            }
            (Placement::LocalProgram | Placement::Remote(_) | Placement::BehindLogin, _) => {
                ("echo", json!({"text": canary}))
            }
        };
        (format!("mcp__{}__{tool}", self.name), arguments)
    }
}

/// All servers, with their journals in this folder.
pub fn all_servers(journals: &Path) -> Vec<TestServer> {
    let (program, http) = (Placement::LocalProgram, Placement::Remote("--http"));
    let hard_to_stop = Script::both()
        .quirk(Quirk::ForksGrandchildren { n: 1 })
        .quirk(Quirk::IgnoresSigterm)
        .quirk(Quirk::IgnoresStdinClose);
    let noisy = Script::legacy()
        .quirk(Quirk::FloodsStdoutWithGarbage { lines: 20 })
        .quirk(Quirk::FloodsStderr { bytes: 200_000 })
        .quirk(Quirk::PrintsBeforeProtocol);
    let on_calls = |quirk| Script::legacy().quirk(quirk).quirks_on(CALL_METHOD);
    let mut all = vec![
        TestServer::new("alpha", program, Script::legacy()),
        TestServer::new("beta", program, Script::modern()),
        TestServer::new("gamma", program, hard_to_stop),
        TestServer::new(CHANGING, program, Script::legacy()),
        TestServer::new("slow", program, on_calls(Quirk::AnswersLate { ms: 300 })),
        TestServer::new("twice", program, on_calls(Quirk::AnswersTwice)),
        TestServer::new("noisy", program, noisy),
        TestServer::new("everything", Placement::RealProgram, Script::legacy()),
        TestServer::new("north", http, Script::legacy()),
        TestServer::new("south", http, Script::modern()),
        TestServer::new("west", Placement::Remote("--sse"), Script::legacy()),
        TestServer::new("east", Placement::Remote("--ws"), Script::legacy()),
        TestServer::new(SIGNED_IN, Placement::BehindLogin, Script::both()),
        TestServer::new(FORGETFUL, http, Script::legacy().quirk(Quirk::DropsSession { after: 25 }))
            .unreliable(10),
        TestServer::new("crasher", program, Script::legacy()).unreliable(4),
        TestServer::new("half", program, on_calls(Quirk::TruncatesAnswer)).unreliable(1),
        TestServer::new("mute", program, on_calls(Quirk::NeverAnswers)).unreliable(1),
        TestServer::new("liar", program, on_calls(Quirk::WrongIds)).unreliable(1),
    ];
    for member in &mut all {
        let journal = journals.join(member.name);
        member.script = member.script.clone().journal(journal);
    }
    all
}

/// The servers of the sessions that use the shared host.
pub fn shared_servers(journals: &Path) -> Vec<TestServer> {
    let program = Placement::LocalProgram;
    let slow = Script::legacy().quirk(Quirk::AnswersLate { ms: 300 }).quirks_on(CALL_METHOD);
    let mut all = vec![
        TestServer::new("shared-legacy", program, Script::legacy()),
        TestServer::new("shared-modern", program, Script::modern()),
        TestServer::new("shared-slow", program, slow),
    ];
    for member in &mut all {
        member.script = member.script.clone().journal(journals.join(member.name));
    }
    all
}

/// The server that is added and removed.
pub fn transient_server() -> TestServer {
    TestServer::new(TRANSIENT, Placement::LocalProgram, Script::legacy())
}

/// A random server, by weight.
pub fn pick<'a>(members: &'a [TestServer], dice: &mut SeededRandom) -> &'a TestServer {
    let mut left = dice.below(members.iter().map(|it| it.weight).sum());
    let found = members.iter().find(|it| {
        let is_it = left < it.weight;
        left = left.saturating_sub(it.weight);
        is_it
    });
    found.unwrap_or(&members[0])
}

/// A server's entry; `url` is its address, for remote servers.
pub fn config_entry(member: &TestServer, url: &str, edition: &str) -> Json {
    let timeout = match (member.placement, member.name) {
        (_, "mute" | "liar") => FAILING_CALL_TIMEOUT_MS,
        (Placement::RealProgram, _) => SLOW_START_TIMEOUT_MS,
        (Placement::LocalProgram | Placement::Remote(_) | Placement::BehindLogin, _) => {
            ATTEMPT_TIMEOUT.as_millis() as u64
        }
    };
    // Servers use the actual clock: only that of `swb` is changed.
    let env = json!({"LD_PRELOAD": "", "SWB_FAULTS_EDITION": edition});
    match member.placement {
        Placement::LocalProgram => {
            let program = testkit::scripted::program();
            json!({"command": program, "args": [member.script.to_json()], "env": env, "timeout": timeout, "connectTimeout": timeout})
        }
        Placement::RealProgram => {
            let server = real_servers::everything(ServerTransport::Stdio);
            let args: Vec<_> = server.args.iter().map(|it| it.to_string_lossy()).collect();
            json!({"command": server.command.to_string_lossy(), "args": args, "env": env, "timeout": timeout, "connectTimeout": timeout})
        }
        Placement::Remote(how) => {
            json!({"type": how.trim_start_matches('-'), "url": url, "timeout": timeout, "connectTimeout": timeout})
        }
        Placement::BehindLogin => {
            json!({"type": "http", "url": url, "timeout": timeout, "connectTimeout": timeout})
        }
    }
}

/// Settings with these entries.
pub fn settings(entries: &Map<String, Json>) -> String {
    format!("{:#}\n", json!({"mcpServers": entries}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_called_eventually() {
        let members = all_servers(Path::new("journals"));
        let mut dice = SeededRandom::new(1, 1);
        for member in &members {
            assert!((0..10_000).any(|_| pick(&members, &mut dice).name == member.name));
        }
    }
}
