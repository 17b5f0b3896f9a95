//! `swb approvals`: calls of a gateway's clients that wait for whoever runs it, and the answers to them.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::calling::{Consented, Holds};
use switchboard::config::shown::printable;
use switchboard_gateway::Waiting;

use crate::approval_lines;
use crate::control;
use crate::exit::Exit;
use crate::live::{self, Interrupts};
use crate::outcome::{Done, Failure};
use crate::person::{SAID_NO, SAID_NOTHING};
use crate::proposal::Proposal;
use crate::report::{self, Reader};
use crate::session::Session;
use crate::table::{self, Cell, Yielding};

/// How often running gateways are asked while somebody watches.
const LOOK: Duration = Duration::from_millis(500);

/// Arguments of `swb approvals`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Approvals {
    /// What to do; without it, what waits is listed.
    #[command(subcommand)]
    pub verb: Option<ApprovalsVerb>,
    /// Stay, and be asked about one call after the other as they come
    #[arg(long, short)]
    pub watch: bool,
}

/// What to answer.
#[derive(Debug, Subcommand)]
pub enum ApprovalsVerb {
    /// Let a call run
    Allow(Allow),
    /// Do not let a call run
    Deny(Deny),
}

/// Arguments of `swb approvals allow`.
#[derive(Debug, Args)]
pub struct Allow {
    /// The call's number, as the list has it
    #[arg(value_parser = Number::parse)]
    pub number: Number,
    /// And the same tool for the same client, while the gateway runs
    #[arg(long)]
    pub session: bool,
    /// And the same tool for every client, as a rule in the settings of the gateway's project
    #[arg(long, conflicts_with = "session")]
    pub always: bool,
}

/// Arguments of `swb approvals deny`.
#[derive(Debug, Args)]
pub struct Deny {
    /// The call's number, as the list has it
    #[arg(value_parser = Number::parse)]
    pub number: Number,
    /// Why, for whoever called
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Which call is meant: `3`, or `4711.3` where several gateways run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    process: Option<u32>,
    number: u64,
}

impl Number {
    fn parse(text: &str) -> Result<Number, String> {
        let bad = || "it is a number of the list".to_owned();
        let (process, number) = match text.split_once('.') {
            Some((process, number)) => (Some(process.parse().map_err(|_| bad())?), number),
            None => (None, text),
        };
        Ok(Number { process, number: number.parse().map_err(|_| bad())? })
    }
}

/// A call, and the process that it waits in.
#[derive(Debug)]
struct Entry {
    process: u32,
    waiting: Waiting,
}

/// Runs the command.
pub fn run(arguments: &Approvals, session: &Session) -> Result<Done, Failure> {
    match (&arguments.verb, arguments.watch) {
        (Some(ApprovalsVerb::Allow(allow)), _) => allowed(allow, session),
        (Some(ApprovalsVerb::Deny(deny)), _) => {
            let entry = found(&entries(session)?, deny.number)?;
            let request = match &deny.reason {
                Some(reason) => {
                    approval_lines::decide(&entry.waiting, &Consented::No(reason.clone()))
                }
                None => Some(json!({"approvals": "deny", "number": entry.waiting.number})),
            };
            decided(session, &entry, request, "denied")
        }
        (None, true) => watch(session),
        (None, false) => Ok(listed(session, &entries(session)?)),
    }
}

fn unheard(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failure, "running programs cannot be spoken to").because(error)
}

/// Everything that waits, the longest first.
fn entries(session: &Session) -> Result<Vec<Entry>, Failure> {
    let folder = session.machine.places.running();
    let said = control::ask_all(&folder, &approval_lines::list()).map_err(unheard)?;
    let mut entries: Vec<Entry> = said
        .iter()
        .flat_map(|said| {
            let calls = said.answer["waiting"].as_array().map(Vec::as_slice).unwrap_or_default();
            calls.iter().filter_map(approval_lines::read).map(|waiting| (said.process, waiting))
        })
        .map(|(process, waiting)| Entry { process, waiting })
        .collect();
    entries.sort_by_key(|it| (it.waiting.since, it.process, it.waiting.number));
    Ok(entries)
}

fn listed(session: &Session, entries: &[Entry]) -> Done {
    if session.wants_json() {
        let calls: Vec<Json> = entries.iter().map(Entry::json).collect();
        return super::json(&json!({"waiting": calls}));
    }
    if entries.is_empty() {
        return Done::text("Nothing waits.\n");
    }
    let is_alone = entries.iter().all(|it| it.process == entries[0].process);
    let header = ["NUMBER", "CLIENT", "SERVER", "TOOL", "ARGUMENTS", "WAITS", "WHY"];
    let row = |entry: &Entry| {
        let Entry { process, waiting } = entry;
        let number = match is_alone {
            true => waiting.number.to_string(),
            false => format!("{process}.{}", waiting.number),
        };
        let waits = waiting.since.elapsed().unwrap_or_default().as_secs();
        vec![
            Cell::plain(number),
            Cell::plain(printable(&waiting.caller)),
            Cell::plain(printable(&waiting.server)),
            Cell::plain(printable(&waiting.tool)),
            Cell::plain(printable(&waiting.arguments.to_string())),
            Cell::plain(format!("{waits} s")),
            Cell::plain(printable(&waiting.because)),
        ]
    };
    let rows: Vec<Vec<Cell>> = entries.iter().map(row).collect();
    let yielding = [Yielding::Back(4), Yielding::Back(6), Yielding::Back(3)];
    Done::text(table::render(&header, &rows, session.machine.terminal.width, &yielding))
}

impl Entry {
    fn json(&self) -> Json {
        let mut json = approval_lines::written(&self.waiting);
        json["process"] = self.process.into();
        json
    }
}

fn found(entries: &[Entry], number: Number) -> Result<Entry, Failure> {
    let is_meant = |it: &&Entry| {
        it.waiting.number == number.number
            && number.process.is_none_or(|wanted| it.process == wanted)
    };
    let mut meant = entries.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(entry), None) => Ok(Entry { process: entry.process, waiting: entry.waiting.clone() }),
        (Some(one), Some(other)) => {
            let number = number.number;
            let message = format!("several gateways have a call {number}");
            let hint = format!("`{}.{number}` or `{}.{number}`", one.process, other.process);
            Err(Failure::new(Exit::Conflict, &message).hint(&hint))
        }
        (None, _) => Err(gone(number.number)),
    }
}

fn gone(number: u64) -> Failure {
    Failure::new(Exit::NotFound, &format!("no call {number} waits"))
        .hint("`swb approvals` lists those that do")
}

fn allowed(allow: &Allow, session: &Session) -> Result<Done, Failure> {
    let entry = found(&entries(session)?, allow.number)?;
    let who = String::new();
    let holds =
        match (allow.session || allow.always, Proposal::of_waiting(&entry.waiting).of_tool()) {
            (false, _) => Holds::Once,
            (true, Some(suggestion)) if allow.session => Holds::Session(suggestion.rule.clone()),
            (true, Some(suggestion)) => Holds::Always(suggestion.rule.clone()),
            (true, None) => {
                let message = "no rule would answer such a call: another one wants it asked";
                let hint = format!("`swb approvals allow {}` allows it once", entry.waiting.number);
                return Err(Failure::new(Exit::Usage, message).hint(&hint));
            }
        };
    let request = approval_lines::decide(&entry.waiting, &Consented::Yes { who, holds });
    decided(session, &entry, request, "allowed")
}

fn decided(
    session: &Session,
    entry: &Entry,
    request: Option<Json>,
    word: &str,
) -> Result<Done, Failure> {
    let number = entry.waiting.number;
    if !is_taken(session, entry, request)? {
        return Err(gone(number));
    }
    if session.wants_json() {
        return Ok(super::json(&json!({word: entry.json()})));
    }
    let (server, tool) = (printable(&entry.waiting.server), printable(&entry.waiting.tool));
    let caller = printable(&entry.waiting.caller);
    Ok(Done::text(format!("`{tool}` of `{server}` is {word} for {caller}.\n")))
}

/// Did the answer come in time?
fn is_taken(session: &Session, entry: &Entry, request: Option<Json>) -> Result<bool, Failure> {
    let Some(request) = request else { return Ok(false) };
    let folder = session.machine.places.running();
    let said = control::ask_one(&folder, entry.process, &request).map_err(unheard)?;
    Ok(said.is_some_and(|it| it["decided"].is_object()))
}

/// Asks about one call after the other, until somebody has enough.
fn watch(session: &Session) -> Result<Done, Failure> {
    if !session.person.is_there() && !session.wants_json() {
        let message = "--watch: nobody is here to be asked";
        return Err(Failure::new(Exit::Usage, message)
            .hint("`swb approvals --watch --json` tells a program of every call that waits"));
    }
    let runtime = live::runtime()?;
    let watched = runtime.block_on(async {
        let mut interrupts = Interrupts::hear();
        tokio::select! {
            watched = watching(session) => watched,
            () = interrupts.next() => Ok(()),
        }
    });
    // A thread may still wait for a line that nobody types.
    runtime.shutdown_background();
    watched.map(|()| Done::default())
}

async fn watching(session: &Session) -> Result<(), Failure> {
    let mut seen: Vec<(u32, u64)> = Vec::new();
    if !session.wants_json() {
        report::aside("Waiting for calls that need an answer. Ctrl-C ends it.\n");
    }
    loop {
        let entries = entries(session)?;
        seen.retain(|it| entries.iter().any(|entry| entry.key() == *it));
        let new = entries.into_iter().find(|it| !seen.contains(&it.key()));
        let Some(entry) = new else {
            tokio::time::sleep(LOOK).await;
            continue;
        };
        seen.push(entry.key());
        match session.wants_json() {
            true => {
                if report::say(&super::json_line(&entry.json())) == Reader::Gone {
                    return Ok(());
                }
            }
            false => {
                if asked(session, &entry).await? == Person::Gone {
                    return Ok(());
                }
            }
        }
    }
}

impl Entry {
    fn key(&self) -> (u32, u64) {
        (self.process, self.waiting.number)
    }
}

/// Is somebody still there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Person {
    There,
    Gone,
}

/// Asks about one call, unless it is withdrawn meanwhile.
async fn asked(session: &Session, entry: &Entry) -> Result<Person, Failure> {
    let proposal = Proposal::of_waiting(&entry.waiting);
    let decision = tokio::select! {
        decision = session.person.consented(&proposal) => decision,
        withdrawn = withdrawn(session, entry) => {
            report::aside("\n(the call is over)\n");
            return withdrawn.map(|()| Person::There);
        }
    };
    let request = match decision {
        // The call goes on waiting: somebody else may answer.
        Consented::No(reason) if reason == SAID_NOTHING => return Ok(Person::Gone),
        Consented::No(reason) if reason == SAID_NO => {
            Some(json!({"approvals": "deny", "number": entry.waiting.number}))
        }
        decision @ (Consented::Yes { .. } | Consented::No(_)) => {
            approval_lines::decide(&entry.waiting, &decision)
        }
    };
    if !is_taken(session, entry, request)? {
        report::aside("(too late: the call is over)\n");
    }
    Ok(Person::There)
}

async fn withdrawn(session: &Session, entry: &Entry) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(LOOK).await;
        if !entries(session)?.iter().any(|it| it.key() == entry.key()) {
            return Ok(());
        }
    }
}
