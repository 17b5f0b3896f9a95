//! Reads a settings file: servers, policy lists and switched-off servers. Permission rules are left to
//! `permission`, which reads them out of the same file.

use std::sync::Arc;

use crate::account::{self, Account};
use crate::document::{Lines, Member, Node, Span, Value, without_mark};
use crate::hooks::{self, Hook};
use crate::identity_provider::{self, IdentityProvider};
use crate::layer::{Layer, Naming, find, report_foreign, servers_under, top_level};
use crate::model_choice::{self, ModelChoice};
use crate::permission::{self, Rules};
use crate::policy::{AllowList, Authority, Matcher, Needed, Policy, Rule};
use crate::principals::{self, Principals};
use crate::problem::{PolicyList, Problem, ProblemKind, Reporter, Subject};
use crate::source::{Origin, Source};
use crate::template::Template;
use crate::url_pattern::UrlPattern;

/// A key of a settings file, for reading, for warnings and for the reference page.
#[derive(Debug, Clone, Copy)]
pub struct SettingsKey {
    /// The key.
    pub name: &'static str,
    /// What belongs there.
    pub value: &'static str,
    /// Does it count in managed settings?
    pub managed: bool,
    /// What it does.
    pub about: &'static str,
}

pub(crate) const fn key(
    name: &'static str,
    value: &'static str,
    managed: bool,
    about: &'static str,
) -> SettingsKey {
    SettingsKey { name, value, managed, about }
}

/// Every key of a settings file.
pub const KEYS: &[SettingsKey] = &[
    key(
        "mcpServers",
        "object",
        false,
        "servers by name (an administrator's are in `managed-mcp.json`)",
    ),
    key(
        "allowedMcpServers",
        "array",
        true,
        "only servers that an entry matches may run; an empty list allows nothing",
    ),
    key(
        "deniedMcpServers",
        "array",
        true,
        "servers that an entry matches may not run, whatever else allows them",
    ),
    key(
        "allowManagedMcpServersOnly",
        "boolean",
        true,
        "in managed settings: of the allow lists, only the managed one counts",
    ),
    key("disabledMcpServers", "array of strings", false, "names of servers that are switched off"),
    key("permissions", "object", true, "which tools may be called, and which ask first"),
    key(
        "principals",
        "object",
        true,
        "what clients of `swb serve --pool` may do besides, by their names; `*` is everybody",
    ),
    key("hooks", "object", true, "commands that answer servers' questions before you are asked"),
    key("identityProvider", "object", true, "who vouches for you at servers with `oauth.xaa`"),
    key("connectorAccount", "object", true, "the account whose connectors you use"),
    key(
        "model",
        "object",
        true,
        "the language model that answers you, and servers that ask for one",
    ),
    key(
        "theme",
        "string",
        false,
        "the screen's colours: `dark` or `light`; else what the terminal says",
    ),
    key(
        "project",
        "string",
        false,
        "in local settings: the project they belong to, for people; written by `swb`",
    ),
    key("$schema", "string", true, "ignored"),
];

/// A server's name in `disabledMcpServers`, and where it stands.
#[derive(Debug, Clone)]
pub struct SwitchedOff {
    /// The name.
    pub name: String,
    /// Where.
    pub origin: Origin,
}

/// What a settings file says.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its servers, and the problems of the whole file.
    pub layer: Layer,
    /// Its part of the policy.
    pub policy: Policy,
    /// Servers it switches off.
    pub disabled: Vec<SwitchedOff>,
    /// Its permission rules.
    pub permissions: Rules,
    /// Rules for clients of a gateway.
    pub principals: Principals,
    /// Commands that answer servers' questions.
    pub hooks: Vec<Hook>,
    /// Who vouches for people.
    pub identity_provider: Option<IdentityProvider>,
    /// The account whose connectors are used.
    pub account: Option<Account>,
    /// The language model to use.
    pub model: Option<ModelChoice>,
    /// The screen's colours.
    pub theme: Option<Theme>,
}

/// What a screen's background is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Dark.
    Dark,
    /// Light.
    Light,
}

impl Settings {
    /// Settings that say nothing.
    pub fn empty(source: &Arc<Source>) -> Settings {
        Settings {
            layer: Layer::empty(source),
            policy: Policy::default(),
            disabled: Vec::new(),
            permissions: Rules::default(),
            principals: Principals::default(),
            hooks: Vec::new(),
            identity_provider: None,
            account: None,
            model: None,
            theme: None,
        }
    }

    /// Settings that could not be read: lists may be in there, so nothing may run until they can.
    pub fn failed(source: &Arc<Source>, kind: ProblemKind) -> Settings {
        let mut settings = Settings::empty(source);
        settings.layer = Layer::failed(source, kind);
        settings.policy.unreadable = Some(source.clone());
        settings.permissions = Rules::lost(source);
        settings
    }

    /// Reads a project's file: its servers, and of its rules those that restrict. Whoever wrote the project does
    /// not decide what may be called on this machine, but may well say what may not.
    pub fn read_project(source: &Arc<Source>, text: &str) -> Settings {
        let text = without_mark(text);
        let lines = Lines::of(text);
        let mut reporter = Reporter::new(source, &lines);
        let mut settings = Settings::empty(source);
        match top_level(text, &mut reporter) {
            Some(members) => {
                let rules = permission::reading::read_project(&members, &mut reporter);
                settings.permissions = rules;
                settings.layer.definitions = servers_under(&members, Naming::Plain, &mut reporter);
                report_foreign(&members, &["mcpServers", "permissions", "$schema"], &mut reporter);
            }
            None if text.contains(permission::reading::KEY) => {
                settings.permissions = Rules::lost(source);
            }
            None => {}
        }
        settings.layer.problems = reporter.problems;
        settings
    }

    /// Reads a settings file. Where its lists cannot be made out, nothing may run: a list that is not
    /// understood must not be a list that is not there.
    pub fn read(source: &Arc<Source>, text: &str, authority: Authority) -> Settings {
        let text = without_mark(text);
        let lines = Lines::of(text);
        let mut reporter = Reporter::new(source, &lines);
        let mut settings = Settings::empty(source);
        let members = top_level(text, &mut reporter);
        if let Some(members) = &members {
            let mut reader = Reader { authority, reporter: &mut reporter };
            settings.policy = reader.policy(members);
            settings.permissions = permission::reading::read(members, authority, reader.reporter);
            settings.principals = principals::read(members, authority, reader.reporter);
            settings.hooks = hooks::read(members, reader.reporter);
            settings.identity_provider = identity_provider::read(members, reader.reporter);
            settings.account = account::read(members, reader.reporter);
            settings.model = model_choice::read(members, reader.reporter);
            if authority == Authority::Person {
                settings.disabled = reader.disabled(members);
                settings.theme = reader.theme(members);
                settings.layer.definitions = servers_under(members, Naming::Plain, &mut reporter);
            }
            report_foreign(members, &known(authority), &mut reporter);
        } else if authority == Authority::Administrator && reporter.problems.is_empty() {
            let span = Span { start: 0, end: 0 };
            reporter.report(span, Subject::default(), ProblemKind::Empty);
        }
        settings.layer.problems = reporter.problems;
        if members.is_none() && !settings.layer.problems.is_empty() {
            settings.permissions = Rules::lost(source);
        }
        let is_lost = match members {
            Some(_) => settings.layer.problems.iter().any(is_about_lists),
            None => match authority {
                Authority::Administrator => true,
                Authority::Person => LISTS.iter().any(|list| text.contains(list)),
            },
        };
        if is_lost {
            settings.policy.unreadable = Some(source.clone());
        }
        settings
    }
}

/// The keys whose loss would let something run that should not.
const LISTS: [&str; 4] =
    ["allowedMcpServers", "deniedMcpServers", "allowManagedMcpServersOnly", "disabledMcpServers"];

/// Is a whole list lost? A single bad entry is not: the others still count.
fn is_about_lists(problem: &Problem) -> bool {
    let is_list = problem.key.as_deref().is_some_and(|key| LISTS.contains(&key));
    is_list && matches!(problem.kind, ProblemKind::WrongType { .. } | ProblemKind::Doubled)
}

/// The keys that count in settings of the given authority.
fn known(authority: Authority) -> Vec<&'static str> {
    let counts = |key: &&SettingsKey| match authority {
        Authority::Person => true,
        Authority::Administrator => key.managed,
    };
    KEYS.iter().filter(counts).map(|key| key.name).collect()
}

struct Reader<'r, 'l> {
    authority: Authority,
    reporter: &'r mut Reporter<'l>,
}

impl Reader<'_, '_> {
    fn policy(&mut self, members: &[Member]) -> Policy {
        let mut policy = Policy::default();
        if let Some((member, nodes)) = self.list(members, "allowedMcpServers") {
            policy.allow.push(AllowList {
                rules: self.rules(&nodes, "allowedMcpServers", PolicyList::Allowed),
                origin: self.reporter.origin(member.key_span),
                authority: self.authority,
            });
        }
        if let Some((_, nodes)) = self.list(members, "deniedMcpServers") {
            policy.deny = self.rules(&nodes, "deniedMcpServers", PolicyList::Denied);
        }
        policy.managed_only = self.managed_only(members);
        policy
    }

    fn managed_only(&mut self, members: &[Member]) -> Option<Origin> {
        const KEY: &str = "allowManagedMcpServersOnly";
        let member = find(members, KEY)?;
        if self.authority == Authority::Person {
            let subject = Subject { server: None, key: KEY };
            self.reporter.report(member.key_span, subject, ProblemKind::ManagedOnly);
            return None;
        }
        let Value::Bool(value) = member.node.value else {
            self.wrong(&member.node, KEY, "true or false");
            return None;
        };
        value.then(|| self.reporter.origin(member.key_span))
    }

    fn disabled(&mut self, members: &[Member]) -> Vec<SwitchedOff> {
        const KEY: &str = "disabledMcpServers";
        let Some((_, nodes)) = self.list(members, KEY) else { return Vec::new() };
        let mut names = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            match &node.value {
                Value::Text(name) => {
                    let origin = self.reporter.origin(node.span);
                    names.push(SwitchedOff { name: name.clone(), origin });
                }
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => self.wrong(node, &format!("{KEY}[{index}]"), "a string"),
            }
        }
        names
    }

    fn theme(&mut self, members: &[Member]) -> Option<Theme> {
        const KEY: &str = "theme";
        let member = find(members, KEY)?;
        match &member.node.value {
            Value::Null => return None,
            Value::Text(text) if text == "dark" => return Some(Theme::Dark),
            Value::Text(text) if text == "light" => return Some(Theme::Light),
            Value::Text(_)
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {}
        }
        self.wrong(&member.node, KEY, "`dark` or `light`");
        None
    }

    fn list<'m>(
        &mut self,
        members: &'m [Member],
        key: &str,
    ) -> Option<(&'m Member, Vec<&'m Node>)> {
        let member = find(members, key)?;
        if self.authority == Authority::Person && member.node.value == Value::Null {
            return None;
        }
        let Value::Array(elements) = &member.node.value else {
            self.wrong(&member.node, key, "an array");
            return None;
        };
        Some((member, elements.iter().collect()))
    }

    fn wrong(&mut self, node: &Node, key: &str, expected: &'static str) {
        let kind = ProblemKind::WrongType { expected, found: node.kind() };
        self.reporter.report(node.span, Subject { server: None, key }, kind);
    }

    fn rules(&mut self, nodes: &[&Node], key: &str, list: PolicyList) -> Vec<Rule> {
        let mut rules = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let matcher = matcher(node).unwrap_or_else(|span| {
                let key = format!("{key}[{index}]");
                let subject = Subject { server: None, key: &key };
                self.reporter.report(span, subject, ProblemKind::PolicyEntry(list));
                Matcher::Broken(meant(node))
            });
            rules.push(Rule { matcher, origin: self.reporter.origin(node.span) });
        }
        rules
    }
}

/// What an entry that makes no sense was about.
fn meant(node: &Node) -> Vec<Needed> {
    let Value::Object(members) = &node.value else { return Vec::new() };
    let about = |member: &Member| match member.key.as_str() {
        "serverCommand" => Some(Needed::Command),
        "serverUrl" => Some(Needed::Url),
        _ => None,
    };
    members.iter().filter_map(about).collect()
}

/// Reads one policy entry, or says what part of it makes no sense.
fn matcher(node: &Node) -> Result<Matcher, Span> {
    let Value::Object(members) = &node.value else { return Err(node.span) };
    let [member] = &members[..] else { return Err(node.span) };
    match (member.key.as_str(), &member.node.value) {
        ("serverName", Value::Text(name)) => Ok(Matcher::Name(name.clone())),
        ("serverCommand", Value::Array(parts)) if !parts.is_empty() => {
            let part = |part: &Node| match &part.value {
                Value::Text(text) => Ok(Template::parse(text)),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => Err(part.span),
            };
            Ok(Matcher::Command(parts.iter().map(part).collect::<Result<_, _>>()?))
        }
        ("serverUrl", Value::Text(pattern)) => {
            UrlPattern::parse(pattern).map(Matcher::Url).ok_or(member.node.span)
        }
        _ => Err(member.key_span),
    }
}
