//! What could stand where somebody's cursor is: commands and flags from the table of arguments, servers from the
//! configuration, and tools, prompts and resources from what is remembered. Starts and connects nothing.

use std::path::PathBuf;

use clap::{Arg, Command, CommandFactory};
use serde_json::json;
use switchboard::catalogue::Item;
use switchboard::config::cascade::Server;
use switchboard::config::entry::ToolFilter;
use switchboard::config::permission::{self, Mode};
use switchboard::config::shown::printable;
use switchboard::load::Configuration;
use switchboard::pool::naming::{self, Origin, sanitised};
use switchboard::pool::tool::ToolKind;
use switchboard::pool::{self, Pool, Source};
use switchboard::remembered::Remembered;
use switchboard::wire::message::Payload;

use crate::arguments::Arguments;
use crate::outcome::Failure;
use crate::session::Session;

/// So much of a name is never changed, however long it is.
const UNCHANGED: usize = 31;

/// Something that could stand there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// What to type.
    pub value: String,
    /// What it is; may be empty.
    pub about: String,
}

impl Candidate {
    fn new(value: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate { value: value.into(), about: about.into() }
    }
}

/// Everything that could stand in the place of the last word. Nothing means that only a file can.
pub fn candidates(session: &Session, words: &[String]) -> Vec<Candidate> {
    let mut all = Arguments::command();
    all.build();
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let place = Place::find(&all, before);
    let mut found = place.candidates(session, current);
    // What a server or a file calls something must do nothing to a terminal.
    found.retain(|it| it.value.starts_with(current.as_str()) && printable(&it.value) == it.value);
    found.sort();
    found.dedup_by(|one, other| one.value == other.value);
    found
}

/// Where in a command line the last word stands.
struct Place<'c> {
    command: &'c Command,
    /// What was given to the command's own arguments so far.
    given: Vec<(&'c str, &'c str)>,
    positionals: usize,
    /// The option whose value the last word is.
    pending: Option<&'c Arg>,
    /// Was there a `--`?
    is_plain: bool,
}

impl<'c> Place<'c> {
    fn find(root: &'c Command, words: &'c [String]) -> Place<'c> {
        let mut place = Place {
            command: root,
            given: Vec::new(),
            positionals: 0,
            pending: None,
            is_plain: false,
        };
        for word in words {
            place.pass(word);
        }
        place
    }

    fn pass(&mut self, word: &'c str) {
        if let Some(option) = self.pending.take() {
            self.given.push((option.get_id().as_str(), word));
        } else if self.is_plain {
            self.positionals += 1;
        } else if word == "--" {
            self.is_plain = true;
        } else if word.starts_with('-') && word.len() > 1 {
            self.pending = self.option(word).filter(|_| !word.contains('='));
        } else if let Some(inner) =
            self.command.find_subcommand(word).filter(|_| self.positionals == 0)
        {
            self.command = inner;
            self.given.clear();
        } else {
            if let Some(argument) = self.positional(self.positionals) {
                self.given.push((argument.get_id().as_str(), word));
            }
            self.positionals += 1;
        }
    }

    /// The option that a word names, where it wants a value.
    fn option(&self, word: &str) -> Option<&'c Arg> {
        let name = word.split('=').next().unwrap_or(word);
        let is_named = |argument: &&Arg| match name.strip_prefix("--") {
            Some(long) => argument.get_long() == Some(long),
            None => argument.get_short().is_some() && argument.get_short() == name.chars().last(),
        };
        let found = self.command.get_arguments().find(is_named)?;
        found.get_action().takes_values().then_some(found)
    }

    /// The argument that has no name at this place; the last one may take all the rest.
    fn positional(&self, index: usize) -> Option<&'c Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let takes_many =
            |argument: &&&Arg| argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        all.get(index).or_else(|| all.last().filter(takes_many)).copied()
    }

    fn candidates(&self, session: &Session, current: &str) -> Vec<Candidate> {
        if let Some(option) = self.pending {
            return self.values(session, option, current);
        }
        if current.starts_with('-') && !self.is_plain {
            return match (self.option(current), current.split_once('=')) {
                (Some(option), Some((name, begun))) => self
                    .values(session, option, begun)
                    .into_iter()
                    .map(|it| Candidate { value: format!("{name}={}", it.value), ..it })
                    .collect(),
                (Some(_) | None, Some(_) | None) => self.flags(),
            };
        }
        let mut found = Vec::new();
        if self.positionals == 0 && !self.is_plain {
            let visible = self.command.get_subcommands().filter(|it| !it.is_hide_set());
            found.extend(visible.map(|it| Candidate::new(it.get_name(), about(it.get_about()))));
        }
        let more = usize::from(self.command.is_allow_missing_positional_set());
        for index in self.positionals..=self.positionals + more {
            if let Some(argument) = self.positional(index) {
                found.extend(self.values(session, argument, current));
            }
        }
        found
    }

    fn flags(&self) -> Vec<Candidate> {
        let visible = self.command.get_arguments().filter(|it| !it.is_hide_set());
        visible
            .filter_map(|it| {
                Some(Candidate::new(format!("--{}", it.get_long()?), about(it.get_help())))
            })
            .collect()
    }

    fn values(&self, session: &Session, argument: &Arg, current: &str) -> Vec<Candidate> {
        let possible = argument.get_possible_values();
        if !possible.is_empty() {
            let visible = possible.iter().filter(|it| !it.is_hide_set());
            return visible.map(|it| Candidate::new(it.get_name(), about(it.get_help()))).collect();
        }
        let id = argument.get_id().as_str();
        match (self.command.get_name(), id) {
            (_, "mode") => Mode::ALL.iter().map(|mode| Candidate::new(mode.id(), "")).collect(),
            ("man", "command") => {
                let all = Arguments::command();
                all.get_subcommands().map(|it| Candidate::new(it.get_name(), "")).collect()
            }
            (command, id) => {
                // A configuration that cannot be read completes nothing; the command itself will say why.
                let known = Known::read(session, current).ok();
                known.map(|it| it.values(command, id, &self.given)).unwrap_or_default()
            }
        }
    }
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// What is configured, and what is remembered of it.
struct Known<'a> {
    configuration: Configuration,
    folder: PathBuf,
    /// What was typed of the word so far.
    current: &'a str,
}

/// A server's name as exposed names and rules write it.
pub fn as_exposed(server: &Server) -> String {
    naming::prefix(&server.name, Origin::of(server.scope()))
}

impl Known<'_> {
    fn read<'a>(session: &Session, current: &'a str) -> Result<Known<'a>, Failure> {
        let configuration = session.load()?;
        Ok(Known { configuration, folder: session.machine.places.catalogues(), current })
    }

    /// What an argument of a command may be.
    fn values(&self, command: &str, id: &str, given: &[(&str, &str)]) -> Vec<Candidate> {
        let server = given.iter().find(|(id, _)| *id == "server").map(|(_, name)| *name);
        match (command, id) {
            ("call" | "explain", "tool") => self.tools(),
            ("add", "rules") => {
                let about = "all its tools";
                let whole = |it: &Server| Candidate::new(format!("mcp__{}", as_exposed(it)), about);
                self.servers().map(whole).chain(self.tools()).collect()
            }
            ("remove", "rule") => {
                let rules = self.configuration.rules.listed().iter();
                rules.map(|it| Candidate::new(it.rule.to_string(), it.effect.id())).collect()
            }
            ("search", "words") => self.of(None, |it| it.tools),
            ("prompt" | "complete", "prompt") => self.of(server, |it| it.prompts),
            ("read", "uri") | ("subscribe", "uris") => self.of(server, |it| it.resources),
            ("complete", "template") => self.of(server, |it| it.templates),
            (_, "server" | "servers" | "require") => self.names(),
            (
                "get" | "enable" | "disable" | "remove" | "logs" | "ping" | "reconnect" | "doctor"
                | "status" | "approve" | "reject" | "why" | "explain",
                "name" | "names",
            ) => self.names(),
            (_, _) => Vec::new(),
        }
    }

    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.configuration.effective.servers.iter().filter(|it| it.is_in_play())
    }

    fn remembered(&self, server: &Server) -> Remembered {
        let print = server.fingerprint.as_ref().filter(|_| server.is_ready());
        let read = |print| Remembered::read(&self.folder, &server.name, print);
        print.map(read).unwrap_or_default()
    }

    fn names(&self) -> Vec<Candidate> {
        self.servers().map(|it| Candidate::new(&it.name, it.scope().id())).collect()
    }

    /// One list of the server that was named before.
    fn of(&self, server: Option<&str>, list: impl Fn(Remembered) -> Vec<String>) -> Vec<Candidate> {
        let named = self.servers().filter(|it| server.is_none_or(|name| name == it.name));
        named
            .flat_map(|it| {
                let values = list(self.remembered(it)).into_iter();
                values.map(|value| Candidate::new(value, &it.name))
            })
            .collect()
    }

    /// Every tool that may be meant, by the name that it would be exposed under, under the rules.
    fn tools(&self) -> Vec<Candidate> {
        let servers: Vec<(&Server, Vec<Item>)> =
            self.servers().map(|it| (it, self.items(it))).collect();
        let none = ToolFilter::default();
        let sources = servers.iter().map(|(server, tools)| Source {
            server: &server.name,
            origin: Origin::of(server.scope()),
            tools,
            kind: ToolKind::Served,
            filter: server.spec.as_ref().map_or(&none, |spec| &spec.common.tools),
        });
        let hidden = |server: &str, tool: &str| {
            permission::hides(&self.configuration.rules, server, &sanitised(tool)).is_some()
        };
        let rules = pool::Rules { hidden: &hidden, built_in: switchboard::built_in::all() };
        let pool = Pool::default().next(sources, &rules);
        pool.tools().iter().map(|tool| Candidate::new(&tool.exposed, &tool.server)).collect()
    }

    /// The tools of a server that may be meant. Those that begin in another way are left out before anything is made
    /// of them: only tools that begin alike can want one name.
    fn items(&self, server: &Server) -> Vec<Item> {
        let prefix = format!("mcp__{}", as_exposed(server));
        let begins_alike = |name: &str| {
            let length = name.len().min(self.current.len()).min(UNCHANGED);
            name.as_bytes()[..length] == self.current.as_bytes()[..length]
        };
        if !begins_alike(&prefix) {
            return Vec::new();
        }
        let names = self.remembered(server).tools;
        let meant = names
            .into_iter()
            .filter(|name| begins_alike(&format!("{prefix}__{}", sanitised(name))));
        meant
            .map(|name| {
                let raw = json!({"name": name, "inputSchema": {"type": "object"}}).to_string();
                Item { name, raw: Payload::from_json(raw.into()) }
            })
            .collect()
    }
}
