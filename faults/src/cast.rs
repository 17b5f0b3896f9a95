//! The servers of a run, good and bad: what each is, where it runs, how it is configured, and how it is called.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use testkit::real::{self, Via};
use testkit::{Quirk, Script};

use crate::dice::Dice;
use crate::history::Manner;
use crate::judge::ATTEMPT;

/// What a call that has to end in vain may take, in milliseconds.
const IN_VAIN: u64 = 4_000;
/// What a server that is slow to start may take on a busy machine, in milliseconds.
const HEAVY: u64 = 60_000;
/// The method whose answers go wrong.
const CALL: &str = "tools/call";
/// The server that comes and goes.
pub const GUEST: &str = "guest";
/// The server whose entry changes.
pub const CHANGING: &str = "delta";
/// The server that wants a login.
pub const SIGNED: &str = "signed";

/// The server that forgets its sessions, with calls under way in them.
pub const FORGETFUL: &str = "forgetful";

/// Where a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// As a program that `swb` starts.
    Program,
    /// On the other side of the link, over a transport that the scripted server calls so.
    Remote(&'static str),
    /// In our process, behind a login.
    Login,
    /// As a program of other people that `swb` starts.
    Real,
}

/// One server.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// What is expected of it.
    pub manner: Manner,
    /// Where it runs.
    pub stage: Stage,
    /// What it does.
    pub script: Script,
    /// How often it is called, next to the others.
    weight: u64,
}

impl Member {
    fn new(name: &'static str, stage: Stage, script: Script) -> Member {
        Member { name, manner: Manner::Good, stage, script: script.named(name), weight: 10 }
    }

    fn bad(mut self, weight: u64) -> Member {
        (self.manner, self.weight) = (Manner::Bad, weight);
        self
    }

    /// The tool and the arguments of a call with this canary.
    pub fn call(&self, canary: &str, dice: &mut Dice) -> (String, Json) {
        let (tool, arguments) = match (self.stage, self.name) {
            (Stage::Real, _) => ("echo", json!({"message": canary})),
            (Stage::Program, "crasher") if dice.roll(4) == 0 => ("crash", json!({"text": canary})),
            (Stage::Program | Stage::Remote(_) | Stage::Login, _) => {
                ("echo", json!({"text": canary}))
            }
        };
        (format!("mcp__{}__{tool}", self.name), arguments)
    }
}

/// All of them, with journals in a folder.
pub fn members(journals: &Path) -> Vec<Member> {
    let (program, http) = (Stage::Program, Stage::Remote("--http"));
    let stubborn = Script::both()
        .quirk(Quirk::ForksGrandchildren { n: 1 })
        .quirk(Quirk::IgnoresSigterm)
        .quirk(Quirk::IgnoresStdinClose);
    let noisy = Script::legacy()
        .quirk(Quirk::FloodsStdoutWithGarbage { lines: 20 })
        .quirk(Quirk::FloodsStderr { bytes: 200_000 })
        .quirk(Quirk::PrintsBeforeProtocol);
    let on_calls = |quirk| Script::legacy().quirk(quirk).quirks_on(CALL);
    let mut all = vec![
        Member::new("alpha", program, Script::legacy()),
        Member::new("beta", program, Script::modern()),
        Member::new("gamma", program, stubborn),
        Member::new(CHANGING, program, Script::legacy()),
        Member::new("slow", program, on_calls(Quirk::AnswersLate { ms: 300 })),
        Member::new("twice", program, on_calls(Quirk::AnswersTwice)),
        Member::new("noisy", program, noisy),
        Member::new("everything", Stage::Real, Script::legacy()),
        Member::new("north", http, Script::legacy()),
        Member::new("south", http, Script::modern()),
        Member::new("west", Stage::Remote("--sse"), Script::legacy()),
        Member::new("east", Stage::Remote("--ws"), Script::legacy()),
        Member::new(SIGNED, Stage::Login, Script::both()),
        Member::new(FORGETFUL, http, Script::legacy().quirk(Quirk::DropsSession { after: 25 }))
            .bad(10),
        Member::new("crasher", program, Script::legacy()).bad(4),
        Member::new("half", program, on_calls(Quirk::HalfALine)).bad(1),
        Member::new("mute", program, on_calls(Quirk::NeverAnswers)).bad(1),
        Member::new("liar", program, on_calls(Quirk::WrongIds)).bad(1),
    ];
    for member in &mut all {
        let journal = journals.join(member.name);
        member.script = member.script.clone().journal(journal);
    }
    all
}

/// The server that comes and goes.
pub fn guest() -> Member {
    Member::new(GUEST, Stage::Program, Script::legacy())
}

/// One of them, by weight.
pub fn pick<'a>(members: &'a [Member], dice: &mut Dice) -> &'a Member {
    let mut left = dice.roll(members.iter().map(|it| it.weight).sum());
    let found = members.iter().find(|it| {
        let is_it = left < it.weight;
        left = left.saturating_sub(it.weight);
        is_it
    });
    found.unwrap_or(&members[0])
}

/// A server's entry; `url` is where it is, for those that are somewhere.
pub fn entry(member: &Member, url: &str, mark: &str) -> Json {
    let timeout = match (member.stage, member.name) {
        (_, "mute" | "liar") => IN_VAIN,
        (Stage::Real, _) => HEAVY,
        (Stage::Program | Stage::Remote(_) | Stage::Login, _) => ATTEMPT.as_millis() as u64,
    };
    // Programs have a clock of their own: only ours is set.
    let env = json!({"LD_PRELOAD": "", "SWB_FAULTS_EDITION": mark});
    match member.stage {
        Stage::Program => {
            let program = testkit::scripted::program();
            json!({"command": program, "args": [member.script.json()], "env": env, "timeout": timeout})
        }
        Stage::Real => {
            let server = real::everything(Via::Stdio);
            let args: Vec<_> = server.args.iter().map(|it| it.to_string_lossy()).collect();
            json!({"command": server.command.to_string_lossy(), "args": args, "env": env, "timeout": timeout})
        }
        Stage::Remote(how) => {
            json!({"type": how.trim_start_matches('-'), "url": url, "timeout": timeout})
        }
        Stage::Login => json!({"type": "http", "url": url, "timeout": timeout}),
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
    fn every_server_is_called_sooner_or_later() {
        let members = members(Path::new("journals"));
        let mut dice = Dice::new(1, 1);
        for member in &members {
            assert!((0..10_000).any(|_| pick(&members, &mut dice).name == member.name));
        }
    }
}
