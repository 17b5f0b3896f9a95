//! Configuration files of every supported kind: our own, and those of other hosts in JSON with comments and in TOML.
//! Edits are checked by `edits`.

mod adoptions;
mod edits;

use std::path::Path;

use serde_json::{Map, Value as Json};
use switchboard_config::display::is_unprintable;
use switchboard_config::document::{Document, LineIndex, Node, Value, strip_bom};
use switchboard_config::file::layer::{FileShape, Layer, Naming, ServerDefinition};
use switchboard_config::import::{self, ConfigDirs, HostApp, ImportNote, ImportOutcome, Platform};
use switchboard_config::policy::Authority;
use switchboard_config::problem::{Problem, ProblemKind, Severity};
use switchboard_config::scope::Scope;
use switchboard_config::settings::Settings;
use switchboard_config::source::Source;

/// - Every parse error is reported with a position, and the message contains neither control characters nor values.
/// - Settings that cannot be parsed allow nothing.
/// - Imported servers can be written to our settings and read again, and the import notes contain no value.
/// - An edit changes what it names and nothing else: see `edits`.
/// - An adopted file runs Switchboard, and adopting it again finds nothing to move: see `adoptions`.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let values = SecretValues::of(text);
    for problem in problems(text) {
        is_safe_to_show(text, &values, &problem);
    }
    fails_closed(text);
    for found in read_imports(text) {
        round_trips(&found);
        notes_show_no_value(&found, &values);
    }
    edits::check(text);
    adoptions::check(text);
}

fn problems(text: &str) -> Vec<Problem> {
    let source = |scope| Source::file(scope, "file.json");
    let project = source(Scope::Project);
    let mut layers = vec![
        Layer::read(&project, text, Naming::Plain, FileShape::Wrapped),
        Layer::read(&source(Scope::Dynamic), text, Naming::Plain, FileShape::WrappedOrBare),
        Layer::read(&source(Scope::Plugin), text, Naming::Plugin("tools"), FileShape::Manifest),
        Settings::read_project(&project, text).layer,
        Settings::read(&source(Scope::User), text, Authority::User).layer,
        Settings::read(&source(Scope::Enterprise), text, Authority::Administrator).layer,
    ];
    let mut problems = Vec::new();
    for layer in &mut layers {
        layer.definitions.iter().for_each(error_is_explained);
        problems.append(&mut layer.problems);
        for definition in &mut layer.definitions {
            problems.append(&mut definition.problems);
        }
    }
    problems
}

fn error_is_explained(definition: &ServerDefinition) {
    let ServerDefinition { server_name: checked, entry, problems, .. } = definition;
    let has_error = problems.iter().any(|problem| problem.severity() == Severity::Error);
    assert!(entry.is_some() || has_error, "a server is left out without a reason");
    assert!(checked.is_ok() || has_error, "a name is no name without a reason");
}

fn is_safe_to_show(text: &str, values: &SecretValues, problem: &Problem) {
    let mut shown_texts = vec![problem.kind.to_string()];
    shown_texts.extend(problem.hint());
    if let Some(excerpt) = &problem.excerpt {
        let shown = excerpt.line.chars().count();
        assert!(excerpt.column <= shown && excerpt.width >= 1, "an excerpt misses its place");
        shown_texts.push(excerpt.line.clone());
    }
    for shown_texts in &shown_texts {
        assert!(!shown_texts.contains(is_unprintable), "{shown_texts:?} is not for a terminal");
        let secret = values.secrets.iter().find(|secret| shown_texts.contains(secret.as_str()));
        assert_eq!(secret, None, "{shown_texts:?} shows a value");
    }
    if let Some(position) = problem.origin.position {
        let text = strip_bom(text);
        let count = text.matches('\n').count() + 1;
        assert!((1..=count).contains(&position.line), "line {} of {count}", position.line);
        let line = text.split('\n').nth(position.line - 1).unwrap_or_default();
        let columns = line.chars().count() + 1;
        assert!((1..=columns).contains(&position.column), "{position:?} of {columns} columns");
    }
}

/// Values that no message may contain.
struct SecretValues {
    secrets: Vec<String>,
}

impl SecretValues {
    /// Strings that are long enough not to occur by chance, and that are not names.
    fn of(text: &str) -> SecretValues {
        let (mut texts, mut names) = (Vec::new(), Vec::new());
        if let Ok(Document { root: Some(root), .. }) = Document::parse(strip_bom(text)) {
            collect(&root, &mut texts, &mut names);
        }
        let is_secret = |text: &String| {
            let letters = text.chars().filter(char::is_ascii_alphabetic).count();
            let digits = text.chars().filter(char::is_ascii_digit).count();
            let is_word = !text.contains(|c: char| c.is_whitespace() || c == '`');
            is_word
                && letters >= 6
                && digits >= 3
                && !names.iter().any(|name: &String| name.contains(text))
        };
        texts.retain(is_secret);
        SecretValues { secrets: texts }
    }
}

fn collect(node: &Node, texts: &mut Vec<String>, names: &mut Vec<String>) {
    match &node.value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(elements) => elements.iter().for_each(|it| collect(it, texts, names)),
        Value::Object(members) => {
            for member in members {
                names.push(member.key.clone());
                collect(&member.node, texts, names);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A file that is not valid settings may have contained deny rules.
fn fails_closed(text: &str) {
    let lines = LineIndex::new(strip_bom(text));
    assert_eq!(lines.position(0).line, 1);
    let source = Source::file(Scope::Enterprise, "managed-settings.json");
    let settings = Settings::read(&source, text, Authority::Administrator);
    let is_syntax = |problem: &Problem| matches!(problem.kind, ProblemKind::Syntax(_));
    if settings.layer.problems.iter().any(is_syntax) {
        assert!(settings.policy.unreadable.is_some(), "what an administrator denied is lost");
    }
}

fn read_imports(text: &str) -> Vec<ImportOutcome> {
    let project = Path::new("project");
    let folders = ConfigDirs {
        home: Path::new("home"),
        config: Path::new("config"),
        project,
        platform: Platform::Linux,
    };
    let files = HostApp::ALL.into_iter().flat_map(|peer| import::config_files(peer, &folders));
    files.filter_map(|file| import::read(&file, text, project).ok()).collect()
}

fn round_trips(found: &ImportOutcome) {
    for server in &found.servers {
        let named: Map<String, Json> =
            Map::from_iter([("imported".to_owned(), Json::Object(server.entry.clone()))]);
        let written = Json::Object(Map::from_iter([("mcpServers".to_owned(), named.into())]));
        let source = Source::file(Scope::User, "settings.json");
        let layer = Layer::read(&source, &written.to_string(), Naming::Plain, FileShape::Wrapped);
        assert!(layer.problems.is_empty(), "what was imported is no file of ours: {layer:?}");
        assert_eq!(layer.definitions.len(), 1, "what was imported is no server");
    }
}

/// Notes contain names and keys unescaped; the code that prints them escapes them.
fn notes_show_no_value(found: &ImportOutcome, values: &SecretValues) {
    for note in found.notes.iter().chain(found.servers.iter().flat_map(|it| &it.notes)) {
        match note {
            // These name the target of a reference.
            ImportNote::Rewritten { .. }
            | ImportNote::VariableRequired { .. }
            | ImportNote::InputBecameVariable { .. }
            | ImportNote::FileReferenced { .. } => continue,
            ImportNote::KeyDropped { .. }
            | ImportNote::KeyNotRead { .. }
            | ImportNote::DollarEscaped { .. }
            | ImportNote::ReferenceNotTranslated { .. }
            | ImportNote::ContainerKept
            | ImportNote::TrustDropped
            | ImportNote::TransportAssumed { .. }
            | ImportNote::DisabledBy { .. }
            | ImportNote::DisabledInProject
            | ImportNote::OtherProjects { .. }
            | ImportNote::ServerSkipped { .. } => {}
        }
        let shown_texts = note.to_string();
        let secret = values.secrets.iter().find(|secret| shown_texts.contains(secret.as_str()));
        assert_eq!(secret, None, "{shown_texts:?} shows a value");
    }
}
