//! Reads a settings file: servers, policy lists and switched-off servers. Permission rules are left to
//! `permission`, which reads them out of the same file.

pub mod connector_account;
pub mod hooks;
pub mod identity_provider;
pub mod model;
pub(crate) mod permissions;
pub mod principals;
pub(crate) mod section;
use std::sync::Arc;

use crate::document::{LineIndex, Member, Node, Span, Value, strip_bom};
use crate::file::layer::{
    Layer, Naming, find_member, read_servers, read_top_level, report_unknown_keys,
};
use crate::pattern::url_pattern::UrlPattern;
use crate::permission::PermissionRules;
use crate::policy::{AllowList, Authority, Matcher, MatcherKind, Policy, PolicyRule};
use crate::problem::{PolicyList, Problem, ProblemKind, ProblemSubject, Reporter};
use crate::settings::connector_account::ConnectorAccount;
use crate::settings::hooks::ElicitationHook;
use crate::settings::identity_provider::IdentityProvider;
use crate::settings::model::ModelSettings;
use crate::settings::principals::Principals;
use crate::source::{Origin, Source};
use crate::template::Template;

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
    pub description: &'static str,
}

pub(crate) const fn settings_key(
    name: &'static str,
    value: &'static str,
    managed: bool,
    about: &'static str,
) -> SettingsKey {
    SettingsKey { name, value, managed, description: about }
}

/// Every key of a settings file.
pub const SETTINGS_KEYS: &[SettingsKey] = &[
    settings_key(
        "mcpServers",
        "object",
        false,
        "servers by name (an administrator's are in `managed-mcp.json`)",
    ),
    settings_key(
        "allowedMcpServers",
        "array",
        true,
        "only servers that an entry matches may run; an empty list allows nothing",
    ),
    settings_key(
        "deniedMcpServers",
        "array",
        true,
        "servers that an entry matches may not run, whatever else allows them",
    ),
    settings_key(
        "allowManagedMcpServersOnly",
        "boolean",
        true,
        "in managed settings: of the allow lists, only the managed one counts",
    ),
    settings_key(
        "disabledMcpServers",
        "array of strings",
        false,
        "names of servers that are switched off",
    ),
    settings_key("permissions", "object", true, "which tools may be called, and which ask first"),
    settings_key(
        "principals",
        "object",
        true,
        "what clients of `swb serve --pool` may do besides, by their names; `*` is everybody",
    ),
    settings_key(
        "hooks",
        "object",
        true,
        "commands that answer servers' questions before you are asked",
    ),
    settings_key(
        "identityProvider",
        "object",
        true,
        "who vouches for you at servers with `oauth.xaa`",
    ),
    settings_key("connectorAccount", "object", true, "the account whose connectors you use"),
    settings_key(
        "model",
        "object",
        true,
        "the language model that answers you, and servers that ask for one",
    ),
    settings_key(
        "theme",
        "string",
        false,
        "the screen's colours: `dark` or `light`; else what the terminal says",
    ),
    settings_key(
        "project",
        "string",
        false,
        "in local settings: the project they belong to, for people; written by `swb`",
    ),
    settings_key("$schema", "string", true, "ignored"),
];

/// A server's name in `disabledMcpServers`, and where it stands.
#[derive(Debug, Clone)]
pub struct DisabledServer {
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
    pub disabled: Vec<DisabledServer>,
    /// Its permission rules.
    pub permissions: PermissionRules,
    /// Rules for clients of a gateway.
    pub principals: Principals,
    /// Commands that answer servers' questions.
    pub hooks: Vec<ElicitationHook>,
    /// Who vouches for people.
    pub identity_provider: Option<IdentityProvider>,
    /// The account whose connectors are used.
    pub connector_account: Option<ConnectorAccount>,
    /// The language model to use.
    pub model: Option<ModelSettings>,
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
            permissions: PermissionRules::default(),
            principals: Principals::default(),
            hooks: Vec::new(),
            identity_provider: None,
            connector_account: None,
            model: None,
            theme: None,
        }
    }

    /// Settings that could not be read: lists may be in there, so nothing may run until they can.
    pub fn failed(source: &Arc<Source>, kind: ProblemKind) -> Settings {
        let mut settings = Settings::empty(source);
        settings.layer = Layer::failed(source, kind);
        settings.policy.unreadable = Some(source.clone());
        settings.permissions = PermissionRules::unreadable(source);
        settings
    }

    /// Reads a project's file: its servers, and of its rules those that restrict. Whoever wrote the project does
    /// not decide what may be called on this machine, but may well say what may not.
    pub fn read_project(source: &Arc<Source>, text: &str) -> Settings {
        let text = strip_bom(text);
        let lines = LineIndex::new(text);
        let mut reporter = Reporter::new(source, &lines);
        let mut settings = Settings::empty(source);
        match read_top_level(text, &mut reporter) {
            Some(members) => {
                let rules = crate::settings::permissions::read_project(&members, &mut reporter);
                settings.permissions = rules;
                settings.layer.definitions = read_servers(&members, Naming::Plain, &mut reporter);
                report_unknown_keys(
                    &members,
                    &["mcpServers", "permissions", "$schema"],
                    &mut reporter,
                );
            }
            None if text.contains(crate::settings::permissions::KEY) => {
                settings.permissions = PermissionRules::unreadable(source);
            }
            None => {}
        }
        settings.layer.problems = reporter.problems;
        settings
    }

    /// Reads a settings file. Where its lists cannot be made out, nothing may run: a list that is not
    /// understood must not be a list that is not there.
    pub fn read(source: &Arc<Source>, text: &str, authority: Authority) -> Settings {
        let text = strip_bom(text);
        let lines = LineIndex::new(text);
        let mut reporter = Reporter::new(source, &lines);
        let mut settings = Settings::empty(source);
        let members = read_top_level(text, &mut reporter);
        if let Some(members) = &members {
            let mut reader = Reader { authority, reporter: &mut reporter };
            settings.policy = reader.policy(members);
            settings.permissions =
                crate::settings::permissions::read(members, authority, reader.reporter);
            settings.principals = principals::read(members, authority, reader.reporter);
            settings.hooks = hooks::read(members, reader.reporter);
            settings.identity_provider = identity_provider::read(members, reader.reporter);
            settings.connector_account = connector_account::read(members, reader.reporter);
            settings.model = model::read(members, reader.reporter);
            if authority == Authority::User {
                settings.disabled = reader.disabled(members);
                settings.theme = reader.theme(members);
                settings.layer.definitions = read_servers(members, Naming::Plain, &mut reporter);
            }
            report_unknown_keys(members, &known_keys(authority), &mut reporter);
        } else if authority == Authority::Administrator && reporter.problems.is_empty() {
            let span = Span { start: 0, end: 0 };
            reporter.report(span, ProblemSubject::default(), ProblemKind::Empty);
        }
        settings.layer.problems = reporter.problems;
        if members.is_none() && !settings.layer.problems.is_empty() {
            settings.permissions = PermissionRules::unreadable(source);
        }
        let is_unreadable = match members {
            Some(_) => settings.layer.problems.iter().any(is_list_unreadable),
            None => match authority {
                Authority::Administrator => true,
                Authority::User => POLICY_LIST_KEYS.iter().any(|list| text.contains(list)),
            },
        };
        if is_unreadable {
            settings.policy.unreadable = Some(source.clone());
        }
        settings
    }
}

/// The keys whose loss would let something run that should not.
const POLICY_LIST_KEYS: [&str; 4] =
    ["allowedMcpServers", "deniedMcpServers", "allowManagedMcpServersOnly", "disabledMcpServers"];

/// Is a whole list lost? A single bad entry is not: the others still count.
fn is_list_unreadable(problem: &Problem) -> bool {
    let is_list = problem.key.as_deref().is_some_and(|key| POLICY_LIST_KEYS.contains(&key));
    is_list && matches!(problem.kind, ProblemKind::WrongType { .. } | ProblemKind::DuplicateKey)
}

/// The keys that count in settings of the given authority.
fn known_keys(authority: Authority) -> Vec<&'static str> {
    let counts = |key: &&SettingsKey| match authority {
        Authority::User => true,
        Authority::Administrator => key.managed,
    };
    SETTINGS_KEYS.iter().filter(counts).map(|key| key.name).collect()
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
        let member = find_member(members, KEY)?;
        if self.authority == Authority::User {
            let subject = ProblemSubject { server: None, key: KEY };
            self.reporter.report(member.key_span, subject, ProblemKind::ManagedOnly);
            return None;
        }
        let Value::Bool(value) = member.node.value else {
            self.report_wrong_type(&member.node, KEY, "true or false");
            return None;
        };
        value.then(|| self.reporter.origin(member.key_span))
    }

    fn disabled(&mut self, members: &[Member]) -> Vec<DisabledServer> {
        const KEY: &str = "disabledMcpServers";
        let Some((_, nodes)) = self.list(members, KEY) else { return Vec::new() };
        let mut names = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            match &node.value {
                Value::String(name) => {
                    let origin = self.reporter.origin(node.span);
                    names.push(DisabledServer { name: name.clone(), origin });
                }
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => {
                    self.report_wrong_type(node, &format!("{KEY}[{index}]"), "a string")
                }
            }
        }
        names
    }

    fn theme(&mut self, members: &[Member]) -> Option<Theme> {
        const KEY: &str = "theme";
        let member = find_member(members, KEY)?;
        match &member.node.value {
            Value::Null => return None,
            Value::String(text) if text == "dark" => return Some(Theme::Dark),
            Value::String(text) if text == "light" => return Some(Theme::Light),
            Value::String(_)
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {}
        }
        self.report_wrong_type(&member.node, KEY, "`dark` or `light`");
        None
    }

    fn list<'m>(
        &mut self,
        members: &'m [Member],
        key: &str,
    ) -> Option<(&'m Member, Vec<&'m Node>)> {
        let member = find_member(members, key)?;
        if self.authority == Authority::User && member.node.value == Value::Null {
            return None;
        }
        let Value::Array(elements) = &member.node.value else {
            self.report_wrong_type(&member.node, key, "an array");
            return None;
        };
        Some((member, elements.iter().collect()))
    }

    fn report_wrong_type(&mut self, node: &Node, key: &str, expected: &'static str) {
        let kind = ProblemKind::WrongType { expected, found: node.kind() };
        self.reporter.report(node.span, ProblemSubject { server: None, key }, kind);
    }

    fn rules(&mut self, nodes: &[&Node], key: &str, list: PolicyList) -> Vec<PolicyRule> {
        let mut rules = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let matcher = parse_matcher(node).unwrap_or_else(|span| {
                let key = format!("{key}[{index}]");
                let subject = ProblemSubject { server: None, key: &key };
                self.reporter.report(span, subject, ProblemKind::InvalidPolicyEntry(list));
                Matcher::Invalid(intended_kinds(node))
            });
            rules.push(PolicyRule { matcher, origin: self.reporter.origin(node.span) });
        }
        rules
    }
}

/// What an entry that makes no sense was about.
fn intended_kinds(node: &Node) -> Vec<MatcherKind> {
    let Value::Object(members) = &node.value else { return Vec::new() };
    let about = |member: &Member| match member.key.as_str() {
        "serverCommand" => Some(MatcherKind::Command),
        "serverUrl" => Some(MatcherKind::Url),
        _ => None,
    };
    members.iter().filter_map(about).collect()
}

/// Reads one policy entry, or says what part of it makes no sense.
fn parse_matcher(node: &Node) -> Result<Matcher, Span> {
    let Value::Object(members) = &node.value else { return Err(node.span) };
    let [member] = &members[..] else { return Err(node.span) };
    match (member.key.as_str(), &member.node.value) {
        ("serverName", Value::String(name)) => Ok(Matcher::Name(name.clone())),
        ("serverCommand", Value::Array(parts)) if !parts.is_empty() => {
            let part = |part: &Node| match &part.value {
                Value::String(text) => Ok(Template::parse(text)),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => Err(part.span),
            };
            Ok(Matcher::Command(parts.iter().map(part).collect::<Result<_, _>>()?))
        }
        ("serverUrl", Value::String(pattern)) => {
            UrlPattern::parse(pattern).map(Matcher::Url).ok_or(member.node.span)
        }
        _ => Err(member.key_span),
    }
}
