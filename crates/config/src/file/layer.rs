//! Reads the text of one source into a layer: the servers it defines, each with its problems.
//! An invalid entry never hides the valid ones.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::bundle_entry::{BundleEntry, decode_bundle_entry, names_bundle};
use super::entry_decoder::decode_entry;
use super::entry_permissions::{EntryServer, read_entry};
use crate::document::{Document, LineIndex, Member, Node, Span, Value, find_member, strip_bom};
use crate::entry::{
    NameError, ReservedNames, ServerEntry, ServerName, TransportConfig, TransportKind,
};
use crate::permission::{RuleEntry, rule_name};
use crate::plugin::{PluginOrigin, PluginProblem};
use crate::problem::{Problem, ProblemKind, ProblemSubject, Reporter, Severity};
use crate::schema::nearest;
use crate::scope::Scope;
use crate::source::{Origin, Source, SourceKind};

/// The servers of one source.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The source.
    pub source: Arc<Source>,
    /// Its servers, in the order of the text.
    pub definitions: Vec<ServerDefinition>,
    /// Problems of the source as a whole.
    pub problems: Vec<Problem>,
    /// Variables of this source only, such as the folder of a plugin.
    pub variables: Vec<(String, String)>,
    /// The plugin that its servers come from, if they come from one.
    pub plugin: Option<PluginOrigin>,
}

/// One server as a source defines it.
#[derive(Debug, Clone)]
pub struct ServerDefinition {
    /// The name as users see it; for a plugin's server, with the prefix.
    pub name: String,
    /// The same name, if it is valid.
    pub server_name: Result<ServerName, NameError>,
    /// The position of its key.
    pub origin: Origin,
    /// The entry, unless it contains an error.
    pub entry: Option<ServerEntry>,
    /// The bundle that the entry names instead of a command. Its manifest makes the entry; see
    /// [`ServerDefinition::expand_bundle`].
    pub bundle: Option<BundleEntry>,
    /// The options of the bundle or the plugin that the user must set before the server can start.
    pub needs_config: Vec<String>,
    /// The entry disables the server, though there is no entry until the options are set.
    pub(super) is_disabled_entry: bool,
    /// The permission rules of the entry, all of them for this server.
    pub rules: Vec<RuleEntry>,
    /// The problems of the entry.
    pub problems: Vec<Problem>,
}

/// How the names of a source are read.
#[derive(Debug, Clone, Copy)]
pub enum Naming<'a> {
    /// As written.
    Plain,
    /// With the name of the plugin as prefix.
    Plugin(&'a str),
    /// The same in a text that this program made, and not the plugin's author: an entry may name an installed bundle.
    PluginBundle(&'a str),
}

/// The position of the servers in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileShape {
    /// Under `mcpServers`.
    Wrapped,
    /// Under `mcpServers`, or at the top level.
    WrappedOrBare,
    /// Under `mcpServers`, next to keys of another application.
    Manifest,
}

impl Layer {
    /// Creates an empty layer.
    pub fn empty(source: &Arc<Source>) -> Layer {
        Layer {
            source: source.clone(),
            definitions: Vec::new(),
            problems: Vec::new(),
            variables: Vec::new(),
            plugin: None,
        }
    }

    /// Creates a layer for a source that could not be read.
    pub fn failed(source: &Arc<Source>, kind: ProblemKind) -> Layer {
        let problems = vec![Problem::for_source(source, kind)];
        Layer { problems, ..Layer::empty(source) }
    }

    /// Reads a file that contains only servers.
    pub fn read(source: &Arc<Source>, text: &str, naming: Naming<'_>, shape: FileShape) -> Layer {
        let text = strip_bom(text);
        let lines = LineIndex::new(text);
        let mut reporter = Reporter::new(source, &lines);
        let mut layer = Layer::empty(source);
        if let Some(members) = read_top_level(text, &mut reporter) {
            let bare = shape == FileShape::WrappedOrBare && !has_member(&members, "mcpServers");
            layer.definitions = match bare {
                true => read_definitions(&members, naming, &mut reporter),
                false => read_servers(&members, naming, &mut reporter),
            };
            if !bare && shape != FileShape::Manifest {
                report_unknown_keys(&members, &["mcpServers", "$schema"], &mut reporter);
            }
        }
        layer.problems = reporter.problems;
        layer
    }
}

/// Returns the members of the top-level object, or reports why there are none.
pub(crate) fn read_top_level(text: &str, reporter: &mut Reporter<'_>) -> Option<Vec<Member>> {
    let root = match Document::parse(text) {
        Ok(document) => document.root?,
        Err(error) => {
            reporter.report(
                error.span(),
                ProblemSubject::default(),
                ProblemKind::Syntax(error.clone()),
            );
            return None;
        }
    };
    if reporter.scope() == Scope::Enterprise && report_managed_duplicates(&root, reporter) {
        return None;
    }
    match root.value {
        Value::Object(members) => {
            let mut seen = HashSet::new();
            for member in members.iter().filter(|member| !seen.insert(member.key.as_str())) {
                let subject = ProblemSubject { server: None, key: &member.key };
                reporter.report(member.key_span, subject, ProblemKind::DuplicateKey);
            }
            Some(members)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let kind = ProblemKind::WrongType { expected: "an object", found: root.kind() };
            reporter.report(root.span, ProblemSubject::default(), kind);
            None
        }
    }
}

/// Reports the keys that are there twice, at every depth of an administrator's file. Which of them counts is a guess,
/// and a guess must not lift a restriction.
fn report_managed_duplicates(node: &Node, reporter: &mut Reporter<'_>) -> bool {
    let mut found = false;
    match &node.value {
        Value::Object(members) => {
            let mut seen = HashSet::new();
            for member in members {
                if !seen.insert(member.key.as_str()) {
                    let subject = ProblemSubject { server: None, key: &member.key };
                    reporter.report(member.key_span, subject, ProblemKind::DuplicateManagedKey);
                    found = true;
                }
                found |= report_managed_duplicates(&member.node, reporter);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                found |= report_managed_duplicates(element, reporter);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

/// Reads the servers under `mcpServers`, if the key exists.
pub(crate) fn read_servers(
    members: &[Member],
    naming: Naming<'_>,
    reporter: &mut Reporter<'_>,
) -> Vec<ServerDefinition> {
    let Some(member) = find_member(members, "mcpServers") else { return Vec::new() };
    match &member.node.value {
        Value::Object(servers) => read_definitions(servers, naming, reporter),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let found = member.node.kind();
            let kind = ProblemKind::WrongType { expected: "an object of servers", found };
            let subject = ProblemSubject { server: None, key: "mcpServers" };
            reporter.report(member.node.span, subject, kind);
            Vec::new()
        }
    }
}

/// Warns about unknown keys, and names the application that a foreign format belongs to.
pub(crate) fn report_unknown_keys(
    members: &[Member],
    known: &[&'static str],
    reporter: &mut Reporter<'_>,
) {
    let wrapped = has_member(members, "mcpServers");
    for member in members.iter().filter(|it| !known.contains(&it.key.as_str())) {
        let kind = match member.key.as_str() {
            "servers" if !wrapped => ProblemKind::ForeignFormat {
                key: "servers",
                hint: "this is the format of VS Code: run `swb import vscode`",
            },
            "mcp" if !wrapped => ProblemKind::ForeignFormat {
                key: "mcp",
                hint: "this is the format of opencode: run `swb import opencode`",
            },
            other => ProblemKind::UnknownKey { nearest: nearest(other, known.iter().copied()) },
        };
        reporter.report(member.key_span, ProblemSubject { server: None, key: &member.key }, kind);
    }
}

fn has_member(members: &[Member], key: &str) -> bool {
    find_member(members, key).is_some()
}

fn read_definitions(
    members: &[Member],
    naming: Naming<'_>,
    reporter: &mut Reporter<'_>,
) -> Vec<ServerDefinition> {
    let last: HashMap<&str, usize> =
        members.iter().enumerate().map(|(index, member)| (member.key.as_str(), index)).collect();
    let mut definitions = Vec::with_capacity(last.len());
    let mut seen = HashSet::new();
    for (index, member) in members.iter().enumerate() {
        if !seen.insert(member.key.as_str()) {
            let subject = ProblemSubject { server: Some(&member.key), key: "" };
            reporter.report(member.key_span, subject, ProblemKind::DuplicateKey);
        }
        if last.get(member.key.as_str()) == Some(&index) {
            definitions.push(read_definition(member, naming, reporter));
        }
    }
    definitions
}

/// Reads one server. Its problems are stored with it, not with the file.
fn read_definition(
    member: &Member,
    naming: Naming<'_>,
    reporter: &mut Reporter<'_>,
) -> ServerDefinition {
    let before = reporter.problems.len();
    let origin = reporter.origin(member.key_span);
    let key = member.key.as_str();
    let (mut entry, bundle) = match (names_bundle(&member.node), naming) {
        (true, Naming::Plain | Naming::PluginBundle(_)) => {
            (None, decode_bundle_entry(key, &member.node, reporter))
        }
        // The variables and options beside the hash are the user's, and may name secrets.
        (true, Naming::Plugin(_)) => {
            let subject = ProblemSubject { server: Some(key), key: "bundle" };
            let kind = ProblemKind::Plugin(PluginProblem::InstalledBundle);
            reporter.report(member.key_span, subject, kind);
            (None, None)
        }
        (false, Naming::Plain | Naming::Plugin(_) | Naming::PluginBundle(_)) => {
            (decode_entry(key, &member.node, reporter), None)
        }
    };
    let kind = entry.as_ref().map(|it| it.transport.kind());
    if let Some(kind) = kind
        && !is_transport_allowed(&origin, kind)
    {
        let span = span_of_type(&member.node).unwrap_or(member.key_span);
        let subject = ProblemSubject { server: Some(key), key: "type" };
        reporter.report(span, subject, ProblemKind::RuntimeOnlyTransport(kind));
        entry = None;
    }
    let reserved = reserved_names(entry.as_ref(), &origin);
    let checked = parse_name(key, naming, origin.scope(), reserved);
    if let Err(error) = &checked {
        let subject = ProblemSubject { server: Some(key), key: "" };
        reporter.report(member.key_span, subject, ProblemKind::InvalidServerName(error.clone()));
    }
    let name = match naming {
        Naming::Plain => key.to_owned(),
        Naming::Plugin(plugin) | Naming::PluginBundle(plugin) => format!("plugin:{plugin}:{key}"),
    };
    let server = EntryServer { key, rule_name: rule_name(&name), scope: origin.scope() };
    let before_rules = reporter.problems.len();
    let rules = read_entry(&server, &member.node, reporter);
    let is_error = |problem: &Problem| problem.severity() == Severity::Error;
    let has_error = reporter.problems[before_rules..].iter().any(is_error);
    let (entry, bundle) = (entry.filter(|_| !has_error), bundle.filter(|_| !has_error));
    let problems = reporter.problems.split_off(before);
    let needs_config = Vec::new();
    ServerDefinition {
        name,
        server_name: checked,
        origin,
        entry,
        bundle,
        needs_config,
        is_disabled_entry: false,
        rules,
        problems,
    }
}

/// Reserved names are for servers inside a program, and for IDEs that the program itself has found.
fn reserved_names(entry: Option<&ServerEntry>, origin: &Origin) -> ReservedNames {
    let is_of_program = matches!(origin.source.kind, SourceKind::Program(_));
    match entry.map(|it| &it.transport) {
        Some(TransportConfig::Sdk { .. }) => ReservedNames::Allowed,
        Some(TransportConfig::SseIde(_) | TransportConfig::WsIde(_)) if is_of_program => {
            ReservedNames::Allowed
        }
        Some(
            TransportConfig::SseIde(_)
            | TransportConfig::WsIde(_)
            | TransportConfig::Stdio(_)
            | TransportConfig::Http(_)
            | TransportConfig::Sse(_)
            | TransportConfig::Ws(_)
            | TransportConfig::ConnectorProxy(_),
        )
        | None => ReservedNames::Refused,
    }
}

fn parse_name(
    key: &str,
    naming: Naming<'_>,
    scope: Scope,
    reserved: ReservedNames,
) -> Result<ServerName, NameError> {
    match (naming, scope) {
        (Naming::Plugin(plugin) | Naming::PluginBundle(plugin), _) => {
            ServerName::for_plugin(plugin, key)
        }
        (Naming::Plain, Scope::Connectors) => ServerName::for_connector(key),
        (
            Naming::Plain,
            Scope::Enterprise
            | Scope::Dynamic
            | Scope::Project
            | Scope::Local
            | Scope::User
            | Scope::Plugin,
        ) => ServerName::parse(key, reserved),
    }
}

/// Some transports exist only while a program runs, so only scopes of running programs may contain them.
fn is_transport_allowed(origin: &Origin, kind: TransportKind) -> bool {
    let scope = origin.scope();
    match kind {
        TransportKind::Stdio | TransportKind::Sse | TransportKind::Http | TransportKind::Ws => true,
        TransportKind::Sdk | TransportKind::SseIde | TransportKind::WsIde => {
            scope == Scope::Dynamic
        }
        TransportKind::ConnectorProxy => scope == Scope::Dynamic || scope == Scope::Connectors,
    }
}

fn span_of_type(node: &Node) -> Option<Span> {
    match &node.value {
        Value::Object(members) => find_member(members, "type").map(|member| member.node.span),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(scope: Scope, text: &str) -> Layer {
        Layer::read(&Source::file(scope, ".mcp.json"), text, Naming::Plain, FileShape::Wrapped)
    }

    /// Lists servers with their state and problems, one per line.
    fn summary(layer: &Layer) -> Vec<String> {
        let problem = |it: &Problem| format!("  {}: {}", it.origin, it.kind);
        let mut lines: Vec<String> = layer.problems.iter().map(problem).collect();
        for it in &layer.definitions {
            let word = if it.entry.is_some() && it.server_name.is_ok() { "ok" } else { "bad" };
            lines.push(format!("{} {word}", it.name));
            lines.extend(it.problems.iter().map(problem));
        }
        lines
    }

    #[track_caller]
    fn check(scope: Scope, text: &str, expected: &[&str]) {
        assert_eq!(summary(&layer(scope, text)), expected);
    }

    #[test]
    fn a_bad_entry_leaves_the_good_ones_alone() {
        check(
            Scope::Project,
            "{\"mcpServers\": {\n\"a\": {\"command\": \"x\"},\n\"b\": {\"command\": 1},\n\"c d\": {\"command\": \"x\"},\n\"e\": {\"command\": \"y\"}}}",
            &[
                "a ok",
                "b bad",
                "  .mcp.json:3: expected a string, found a number",
                "c d bad",
                "  .mcp.json:4: a server name may contain only letters, digits, `-` and `_`",
                "e ok",
            ],
        );
    }

    #[test]
    fn reserved_names_are_refused_even_when_already_configured() {
        check(
            Scope::User,
            r#"{"mcpServers": {"browser": {"command": "x"}, "a__b": {"command": "x"}}}"#,
            &[
                "browser bad",
                "  .mcp.json:1: the name is reserved for a built-in server",
                "a__b bad",
                "  .mcp.json:1: `__` is not allowed in a server name: it separates server and tool in tool names",
            ],
        );
        check(
            Scope::Dynamic,
            r#"{"mcpServers": {"ide": {"type": "sdk", "name": "ide"}}}"#,
            &["ide ok"],
        );
    }

    #[test]
    fn servers_of_running_programs_cannot_come_from_files() {
        check(
            Scope::Project,
            r#"{"mcpServers": {"switchboard": {"type": "sdk"}}}"#,
            &[
                "switchboard bad",
                "  .mcp.json:1: servers of type `sdk` are registered by a running program, not kept in files",
                "  .mcp.json:1: the name is reserved for a built-in server",
            ],
        );
    }

    #[test]
    fn broken_texts_are_one_problem_each() {
        check(
            Scope::User,
            "{\n  \"mcpServers\": {,}\n}",
            &["  .mcp.json:2: not valid JSON: unexpected token in object"],
        );
        check(Scope::User, "[]", &["  .mcp.json:1: expected an object, found an array"]);
        check(
            Scope::User,
            "{\"mcpServers\": []}",
            &["  .mcp.json:1: expected an object of servers, found an array"],
        );
        check(Scope::User, "", &[]);
        check(Scope::User, "\u{feff}{}", &[]);
    }

    #[test]
    fn the_format_of_another_host_is_recognised() {
        let layer = layer(Scope::Project, r#"{"servers": {"a": {"command": "x"}}}"#);
        assert_eq!(
            layer.problems[0].hint().as_deref(),
            Some("this is the format of VS Code: run `swb import vscode`")
        );
    }

    #[test]
    fn of_a_duplicate_name_the_last_counts_with_a_warning() {
        let text = "{\"mcpServers\": {\"a\": {\"command\": \"1\"},\n\"a\": {\"command\": \"2\"}}}";
        check(Scope::User, text, &["  .mcp.json:2: duplicate key; the last one counts", "a ok"]);
        let layer = layer(Scope::User, text);
        let entry = layer.definitions[0].entry.as_ref().expect("it is whole");
        assert_eq!(entry.templates()[0].as_str(), "2");
    }

    #[test]
    fn a_plugins_file_may_be_the_bare_table() {
        for text in [r#"{"db": {"command": "x"}}"#, r#"{"mcpServers": {"db": {"command": "x"}}}"#] {
            let source = Source::file(Scope::Plugin, ".mcp.json");
            let layer =
                Layer::read(&source, text, Naming::Plugin("tools"), FileShape::WrappedOrBare);
            assert_eq!(summary(&layer), ["plugin:tools:db ok"]);
        }
    }
}
