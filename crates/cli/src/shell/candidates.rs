//! Completion candidates: commands and options from the clap table, servers from the configuration, and tools,
//! prompts and resources from the completion cache. Starts no server.

use std::path::PathBuf;

use clap::{Arg, Command};
use serde_json::json;
use switchboard::catalogue::{CompletionCache, ListItem};
use switchboard::config::display::printable;
use switchboard::config::entry::server::ToolFilter;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::permission::{self, PermissionMode};
use switchboard::pool::naming::{NameOrigin, sanitise};
use switchboard::pool::{self, Pool, ServerTools, ToolKind};
use switchboard::sources::loader::Configuration;
use switchboard::wire::jsonrpc::message::Payload;

use crate::invocation::Invocation;
use crate::invocation::lookup::exposed_server_name;
use crate::outcome::Failure;

/// This many bytes of an exposed name are never truncated.
const MIN_UNTRUNCATED: usize = 31;

/// A completion candidate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The value to insert.
    pub value: String,
    /// Its description; may be empty.
    pub description: String,
}

impl Candidate {
    fn new(value: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate { value: value.into(), description: about.into() }
    }
}

/// Candidates for the last word. An empty list means file names.
pub fn complete(invocation: &Invocation, root: &Command, words: &[String]) -> Vec<Candidate> {
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let position = CursorPosition::locate(root, before);
    let mut found = position.candidates(invocation, current);
    // Names that come from servers or files must not hold control characters.
    found.retain(|it| it.value.starts_with(current.as_str()) && printable(&it.value) == it.value);
    found.sort();
    found.dedup_by(|one, other| one.value == other.value);
    found
}

/// The position of the last word in a command line.
struct CursorPosition<'c> {
    root: &'c Command,
    command: &'c Command,
    /// Values of the command's arguments so far.
    parsed: Vec<(&'c str, &'c str)>,
    positionals: usize,
    /// The option whose value is completed.
    pending: Option<&'c Arg>,
    /// Was there a `--`?
    is_after_double_dash: bool,
}

impl<'c> CursorPosition<'c> {
    fn locate(root: &'c Command, words: &'c [String]) -> CursorPosition<'c> {
        let mut position = CursorPosition {
            root,
            command: root,
            parsed: Vec::new(),
            positionals: 0,
            pending: None,
            is_after_double_dash: false,
        };
        for word in words {
            position.consume(word);
        }
        position
    }

    fn consume(&mut self, word: &'c str) {
        if let Some(option) = self.pending.take() {
            self.parsed.push((option.get_id().as_str(), word));
        } else if self.is_after_double_dash {
            self.positionals += 1;
        } else if word == "--" {
            self.is_after_double_dash = true;
        } else if word.starts_with('-') && word.len() > 1 {
            self.pending = self.option(word).filter(|_| !word.contains('='));
        } else if let Some(inner) =
            self.command.find_subcommand(word).filter(|_| self.positionals == 0)
        {
            self.command = inner;
            self.parsed.clear();
        } else {
            if let Some(argument) = self.positional(self.positionals) {
                self.parsed.push((argument.get_id().as_str(), word));
            }
            self.positionals += 1;
        }
    }

    /// The option that a word names, if it takes a value.
    fn option(&self, word: &str) -> Option<&'c Arg> {
        let name = word.split('=').next().unwrap_or(word);
        let is_named = |argument: &&Arg| match name.strip_prefix("--") {
            Some(long) => long_names(argument).any(|it| it == long),
            None => argument.get_short().is_some() && argument.get_short() == name.chars().last(),
        };
        let found = self.command.get_arguments().find(is_named)?;
        found.get_action().takes_values().then_some(found)
    }

    /// The positional argument at this index; the last one may take several values.
    fn positional(&self, index: usize) -> Option<&'c Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let takes_many =
            |argument: &&&Arg| argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        all.get(index).or_else(|| all.last().filter(takes_many)).copied()
    }

    fn candidates(&self, invocation: &Invocation, current: &str) -> Vec<Candidate> {
        if let Some(option) = self.pending {
            return self.values(invocation, option, current);
        }
        if current.starts_with('-') && !self.is_after_double_dash {
            return match (self.option(current), current.split_once('=')) {
                (Some(option), Some((name, typed))) => self
                    .values(invocation, option, typed)
                    .into_iter()
                    .map(|it| Candidate { value: format!("{name}={}", it.value), ..it })
                    .collect(),
                (Some(_) | None, Some(_) | None) => self.flags(),
            };
        }
        let mut found = Vec::new();
        if self.positionals == 0 && !self.is_after_double_dash {
            let visible = self.command.get_subcommands().filter(|it| !it.is_hide_set());
            found.extend(
                visible.map(|it| Candidate::new(it.get_name(), first_help_line(it.get_about()))),
            );
        }
        let more = usize::from(self.command.is_allow_missing_positional_set());
        for index in self.positionals..=self.positionals + more {
            if let Some(argument) = self.positional(index) {
                found.extend(self.values(invocation, argument, current));
            }
        }
        found
    }

    fn flags(&self) -> Vec<Candidate> {
        let visible = self.command.get_arguments().filter(|it| !it.is_hide_set());
        let names = |it: &'c Arg| {
            let about = first_help_line(it.get_help());
            long_names(it).map(move |name| Candidate::new(format!("--{name}"), about.clone()))
        };
        visible.flat_map(names).collect()
    }

    fn values(&self, invocation: &Invocation, argument: &Arg, current: &str) -> Vec<Candidate> {
        let possible = argument.get_possible_values();
        if !possible.is_empty() {
            let visible = possible.iter().filter(|it| !it.is_hide_set());
            return visible
                .map(|it| Candidate::new(it.get_name(), first_help_line(it.get_help())))
                .collect();
        }
        let id = argument.get_id().as_str();
        match (self.command.get_name(), id) {
            (_, "mode" | "permission_mode") => {
                PermissionMode::ALL.iter().map(|mode| Candidate::new(mode.id(), "")).collect()
            }
            ("man", "command") => {
                self.root.get_subcommands().map(|it| Candidate::new(it.get_name(), "")).collect()
            }
            (command, id) => {
                // Without a readable configuration there are no candidates; the command itself reports the error.
                let source = CompletionSource::load(invocation, current).ok();
                source.map(|it| it.values(command, id, &self.parsed)).unwrap_or_default()
            }
        }
    }
}

/// The long names of an option: its own and those that help shows beside it.
fn long_names(argument: &Arg) -> impl Iterator<Item = &str> {
    argument.get_long().into_iter().chain(argument.get_visible_aliases().into_iter().flatten())
}

fn first_help_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The configuration, and the folder of the completion cache.
struct CompletionSource<'a> {
    configuration: Configuration,
    folder: PathBuf,
    /// The typed part of the word.
    current: &'a str,
}

impl CompletionSource<'_> {
    fn load<'a>(
        invocation: &Invocation,
        current: &'a str,
    ) -> Result<CompletionSource<'a>, Failure> {
        let configuration = invocation.load_with_problems()?;
        Ok(CompletionSource {
            configuration,
            folder: invocation.env.paths.completion_cache(),
            current,
        })
    }

    /// Values for an argument of a command.
    fn values(&self, command: &str, id: &str, parsed: &[(&str, &str)]) -> Vec<Candidate> {
        let server = parsed.iter().find(|(id, _)| *id == "server").map(|(_, name)| *name);
        match (command, id) {
            ("call" | "describe" | "explain" | "accept", "tool") => self.tools(),
            ("add", "rules") => {
                let about = "all its tools";
                let whole = |it: &ResolvedServer| {
                    Candidate::new(format!("mcp__{}", exposed_server_name(it)), about)
                };
                self.servers().map(whole).chain(self.tools()).collect()
            }
            ("remove", "rule") => {
                let rules = self.configuration.rules.entries().iter();
                rules.map(|it| Candidate::new(it.rule.to_string(), it.effect.id())).collect()
            }
            ("search", "words") => self.cached_values(None, |it| it.tools),
            ("prompt" | "complete", "prompt") => self.cached_values(server, |it| it.prompts),
            ("read", "uri") | ("subscribe", "uris") => {
                self.cached_values(server, |it| it.resources)
            }
            ("complete", "template") => self.cached_values(server, |it| it.templates),
            (_, "server" | "servers" | "require") => self.server_names(),
            (
                "get" | "enable" | "disable" | "remove" | "logs" | "ping" | "reconnect" | "doctor"
                | "status" | "approve" | "reject" | "why" | "explain",
                "name" | "names",
            ) => self.server_names(),
            (_, _) => Vec::new(),
        }
    }

    fn servers(&self) -> impl Iterator<Item = &ResolvedServer> {
        self.configuration.effective.servers.iter().filter(|it| it.is_selected())
    }

    fn cached(&self, server: &ResolvedServer) -> CompletionCache {
        let print = server.fingerprint.as_ref().filter(|_| server.is_ready());
        let read = |print| CompletionCache::load(&self.folder, &server.name, print);
        print.map(read).unwrap_or_default()
    }

    fn server_names(&self) -> Vec<Candidate> {
        self.servers().map(|it| Candidate::new(&it.name, it.scope().id())).collect()
    }

    /// One cached list of the server that was named before.
    fn cached_values(
        &self,
        server: Option<&str>,
        list: impl Fn(CompletionCache) -> Vec<String>,
    ) -> Vec<Candidate> {
        let named = self.servers().filter(|it| server.is_none_or(|name| name == it.name));
        named
            .flat_map(|it| {
                let values = list(self.cached(it)).into_iter();
                values.map(|value| Candidate::new(value, &it.name))
            })
            .collect()
    }

    /// Tools by their exposed name, without those that rules hide.
    fn tools(&self) -> Vec<Candidate> {
        let servers: Vec<(&ResolvedServer, Vec<ListItem>)> =
            self.servers().map(|it| (it, self.matching_tools(it))).collect();
        let none = ToolFilter::default();
        let sources = servers.iter().map(|(server, tools)| ServerTools {
            server: &server.name,
            origin: NameOrigin::of(server.scope()),
            tools,
            kind: ToolKind::Server,
            filter: server.spec.as_ref().map_or(&none, |spec| &spec.common.tools),
        });
        let hidden = |server: &str, tool: &str| {
            permission::tool_hidden_by(&self.configuration.rules, server, &sanitise(tool)).is_some()
        };
        let rules =
            pool::PoolRules { hidden: &hidden, built_in: switchboard::builtin_tool_definitions() };
        let pool = Pool::default().next_revision(sources, &rules);
        pool.tools().iter().map(|tool| Candidate::new(&tool.exposed_name, &tool.server)).collect()
    }

    /// Cached tools of a server that start like the typed word. The others are dropped first, because only tools with
    /// the same beginning can have the same exposed name.
    fn matching_tools(&self, server: &ResolvedServer) -> Vec<ListItem> {
        let prefix = format!("mcp__{}", exposed_server_name(server));
        let shares_prefix = |name: &str| {
            let length = name.len().min(self.current.len()).min(MIN_UNTRUNCATED);
            name.as_bytes()[..length] == self.current.as_bytes()[..length]
        };
        if !shares_prefix(&prefix) {
            return Vec::new();
        }
        let names = self.cached(server).tools;
        let meant = names
            .into_iter()
            .filter(|name| shares_prefix(&format!("{prefix}__{}", sanitise(name))));
        meant
            .map(|name| {
                let raw = json!({"name": name, "inputSchema": {"type": "object"}}).to_string();
                ListItem { name, raw: Payload::from_json(raw.into()) }
            })
            .collect()
    }
}
