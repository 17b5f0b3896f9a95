//! The servers of a plugin: pieces from several files become one layer, options are filled in, and the plugin's folders
//! become variables of the entries and of the servers' environment.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::bundle_entry::OptionValues;
use super::layer::{FileShape, Layer, Naming, ServerDefinition};
use crate::bundle::BundleHash;
use crate::entry::{RemoteConfig, StdioConfig, TransportConfig};
use crate::plugin::{
    InlineServers, PLUGIN_DATA, PLUGIN_ROOT, PROJECT_DIR, PluginManifest, PluginOrigin,
    PluginProblem, PluginValues,
};
use crate::problem::{Problem, ProblemKind};
use crate::source::{Origin, Source};
use crate::template::Template;
use crate::user_config::{EffectiveOptions, OptionInputs, OptionProblem, UserConfig, ValueSyntax};

/// The folders that the servers of a plugin may refer to.
#[derive(Debug, Clone, Copy)]
pub struct PluginFolders<'a> {
    /// The plugin's own folder.
    pub root: &'a Path,
    /// The folder for the plugin's data.
    pub data: &'a Path,
    /// The folder of the project.
    pub project: &'a Path,
    /// The user's home folder.
    pub home: &'a Path,
}

impl PluginFolders<'_> {
    /// The variables for the entries.
    fn variables(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [
            (PLUGIN_ROOT, self.root),
            (PLUGIN_DATA, self.data),
            (PROJECT_DIR, self.project),
            ("SWITCHBOARD_PLUGIN_ROOT", self.root),
        ]
        .map(|(name, path)| (name.to_owned(), text(path)))
        .to_vec()
    }
}

/// A server of a plugin that comes from a bundle.
#[derive(Debug, Clone, Copy)]
pub struct BundlePiece<'a> {
    /// The installed bundle.
    pub hash: &'a BundleHash,
    /// The server's name in the plugin.
    pub name: &'a str,
    /// The user's values for its options.
    pub values: &'a OptionValues,
}

impl BundlePiece<'_> {
    /// A layer with this server.
    pub fn layer(&self, source: &Arc<Source>, plugin: &str) -> Layer {
        let mut entry = json!({"bundle": self.hash.to_string(), "env": exported_variables()});
        if !self.values.0.is_empty() {
            entry["userConfig"] = Json::Object(self.values.0.clone());
        }
        let servers = Map::from_iter([(self.name.to_owned(), entry)]);
        layer_of(source, Naming::PluginBundle(plugin), servers)
    }
}

/// A layer with the servers of a manifest.
pub fn inline_layer(source: &Arc<Source>, plugin: &str, servers: &InlineServers) -> Layer {
    layer_of(source, Naming::Plugin(plugin), servers.0.clone())
}

fn layer_of(source: &Arc<Source>, naming: Naming<'_>, servers: Map<String, Json>) -> Layer {
    let text = json!({"mcpServers": servers}).to_string();
    let mut layer = Layer::read(source, &text, naming, FileShape::Wrapped);
    // The text is our own, so positions in it mean nothing.
    let forget = |problem: &mut Problem| {
        problem.origin.position = None;
        problem.excerpt = None;
    };
    layer.problems.iter_mut().for_each(forget);
    for definition in &mut layer.definitions {
        definition.origin.position = None;
        definition.problems.iter_mut().for_each(forget);
    }
    layer
}

/// The three folders as variables of a server's environment. They are expanded whenever the entry is.
fn exported_variables() -> Map<String, Json> {
    [PLUGIN_ROOT, PLUGIN_DATA, PROJECT_DIR]
        .map(|name| (name.to_owned(), Json::from(format!("${{{name}}}"))))
        .into_iter()
        .collect()
}

/// A plugin whose pieces were read.
#[derive(Debug)]
pub struct PluginServers<'a> {
    /// The plugin, and the key of the decisions on its servers.
    pub origin: PluginOrigin,
    /// Its folders.
    pub folders: PluginFolders<'a>,
    /// The source of the layer.
    pub source: Arc<Source>,
    /// The pieces, from the one that counts least to the one that counts most.
    pub pieces: Vec<Layer>,
    /// The options that the plugin asks its user for.
    pub user_config: &'a UserConfig,
    /// The user's values.
    pub values: &'a PluginValues<OptionValues>,
}

impl PluginServers<'_> {
    /// Makes one layer of the pieces. The second value is what is wrong with the options.
    pub fn into_layer(self) -> Layer {
        let variables = self.folders.variables();
        let mut known = variables.clone();
        known.push(("HOME".to_owned(), self.folders.home.to_string_lossy().into_owned()));
        let options = self.user_config.effective(&OptionInputs {
            given: &self.values.options.0,
            syntax: ValueSyntax::Template,
            variables: &known,
        });
        let mut layer = Layer::empty(&self.source);
        let mut positions: HashMap<String, usize> = HashMap::new();
        for piece in self.pieces {
            layer.problems.extend(piece.problems);
            for mut definition in piece.definitions {
                match positions.get(&definition.name) {
                    None => {
                        positions.insert(definition.name.clone(), layer.definitions.len());
                        layer.definitions.push(definition);
                    }
                    Some(position) => {
                        definition.report_plugin("", PluginProblem::ServerTwice);
                        layer.definitions[*position] = definition;
                    }
                }
            }
        }
        for definition in &mut layer.definitions {
            definition.apply_plugin(&options, &self.folders);
        }
        layer.variables = variables;
        layer.plugin = Some(self.origin);
        layer
    }
}

impl ServerDefinition {
    /// Fills in the options of the plugin and exports its folders.
    fn apply_plugin(&mut self, options: &EffectiveOptions, folders: &PluginFolders<'_>) {
        // Only the host itself names bundles, with values of the user.
        if self.bundle.is_some() {
            return;
        }
        let Some(mut entry) = self.entry.take() else { return };
        if entry.templates().iter().any(|text| !text.secrets().is_empty()) {
            // Only the user's own values may name secrets.
            self.report_kind(None, ProblemKind::SecretNotAllowed(self.origin.scope()));
            return;
        }
        if headers_helper(&entry.transport).is_some_and(|it| it.as_str().contains("${user_config."))
        {
            self.report_plugin("headersHelper", PluginProblem::OptionInShell);
            return;
        }
        for problem in &options.problems {
            let key = format!("userConfig.{}", problem.key);
            self.report_kind(Some(&key), ProblemKind::BundleOption(problem.clone()));
        }
        if options.needs_config() {
            self.is_disabled_entry = entry.disabled;
            self.needs_config = options.missing.clone();
            return;
        }
        let mut problems = Vec::new();
        entry.transport = filled(&entry.transport, options, folders, &mut problems);
        for problem in problems {
            let key = format!("userConfig.{}", problem.key);
            self.report_kind(Some(&key), ProblemKind::BundleOption(problem));
        }
        let has_secret_command = match &entry.transport {
            TransportConfig::Stdio(stdio) => !stdio.command.secrets().is_empty(),
            TransportConfig::Sse(_)
            | TransportConfig::Http(_)
            | TransportConfig::Ws(_)
            | TransportConfig::SseIde(_)
            | TransportConfig::WsIde(_)
            | TransportConfig::Sdk { .. }
            | TransportConfig::ConnectorProxy(_) => false,
        };
        if has_secret_command {
            self.report_kind(Some("command"), ProblemKind::SecretInCommand);
            return;
        }
        self.entry = Some(entry);
    }

    fn report_plugin(&mut self, key: &str, problem: PluginProblem) {
        self.report_kind(Some(key).filter(|it| !it.is_empty()), ProblemKind::Plugin(problem));
    }

    fn report_kind(&mut self, key: Option<&str>, kind: ProblemKind) {
        let (origin, server) = (self.origin.clone(), Some(self.name.clone()));
        let key = key.map(str::to_owned);
        self.problems.push(Problem { origin, server, key, kind, excerpt: None });
    }
}

fn headers_helper(transport: &TransportConfig<Template>) -> Option<&Template> {
    match transport {
        TransportConfig::Sse(it)
        | TransportConfig::Http(it)
        | TransportConfig::Ws(it)
        | TransportConfig::ConnectorProxy(it) => it.headers_helper.as_ref(),
        TransportConfig::Stdio(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. } => None,
    }
}

/// The transport with options filled in.
fn filled(
    transport: &TransportConfig<Template>,
    options: &EffectiveOptions,
    folders: &PluginFolders<'_>,
    problems: &mut Vec<OptionProblem>,
) -> TransportConfig<Template> {
    let remote = |it: RemoteConfig<Template>| RemoteConfig {
        headers_helper: it.headers_helper.map(|helper| with_folders(&helper, folders)),
        ..it
    };
    // Lists become several arguments, so that the arguments are filled before everything else.
    let transport = match transport {
        TransportConfig::Stdio(it) => {
            let args = options.fill_items(&it.args, problems);
            TransportConfig::Stdio(StdioConfig { args, ..it.clone() })
        }
        TransportConfig::Sse(_)
        | TransportConfig::Http(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. }
        | TransportConfig::ConnectorProxy(_) => transport.clone(),
    };
    let unfilled = match &transport {
        TransportConfig::Stdio(it) => Some(it.args.clone()),
        TransportConfig::Sse(_)
        | TransportConfig::Http(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. }
        | TransportConfig::ConnectorProxy(_) => None,
    };
    match transport.map(&mut |text: &Template| options.fill(text, problems)) {
        TransportConfig::Stdio(it) => {
            let mut env = it.env;
            for name in [PLUGIN_ROOT, PLUGIN_DATA, PROJECT_DIR] {
                if !env.iter().any(|(known, _)| known == name) {
                    env.push((name.to_owned(), Template::parse(&format!("${{{name}}}"))));
                }
            }
            // What was inserted into the arguments is not searched again.
            let args = unfilled.unwrap_or(it.args);
            TransportConfig::Stdio(StdioConfig { args, env, ..it })
        }
        TransportConfig::Sse(it) => TransportConfig::Sse(remote(it)),
        TransportConfig::Http(it) => TransportConfig::Http(remote(it)),
        TransportConfig::Ws(it) => TransportConfig::Ws(remote(it)),
        TransportConfig::ConnectorProxy(it) => TransportConfig::ConnectorProxy(remote(it)),
        other @ (TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. }) => other,
    }
}

/// A shell command that has the folders as variables. They are not inserted, because a shell would read what is in them.
fn with_folders(helper: &Template, folders: &PluginFolders<'_>) -> Template {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let folders = [
        (PLUGIN_ROOT, path(folders.root)),
        (PLUGIN_DATA, path(folders.data)),
        (PROJECT_DIR, path(folders.project)),
    ];
    if cfg!(windows) {
        let settings: String =
            folders.iter().map(|(name, value)| format!("set \"{name}={value}\" && ")).collect();
        return Template::from_literal(&format!("{settings}{}", helper.as_str()));
    }
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let settings: Vec<String> =
        folders.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    Template::from_literal(&format!("export {}; {}", settings.join(" "), helper.as_str()))
}

/// The problems of a manifest that leave nothing out, for its layer.
pub fn manifest_problems(manifest: &PluginManifest, source: &Arc<Source>) -> Vec<Problem> {
    let origin = Origin { source: source.clone(), position: None };
    let problem = |key: &str, kind| Problem {
        origin: origin.clone(),
        server: None,
        key: Some(key.to_owned()),
        kind,
        excerpt: None,
    };
    let options = manifest.option_problems.iter();
    let options = options.map(|it| problem("userConfig", ProblemKind::BundleOption(it.clone())));
    let channels = manifest
        .channel_problems
        .iter()
        .map(|it| problem("channels", ProblemKind::Plugin(PluginProblem::Channel(it.clone()))));
    options.chain(channels).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{MergeInputs, ResolvedServer, ServerState, resolve};
    use crate::plugin::PluginId;
    use crate::scope::Scope;
    use crate::template::Environment;

    fn resolved(
        entry: Json,
        options: Json,
        values: Json,
        key: Option<&str>,
        root: &str,
    ) -> ResolvedServer {
        let manifest =
            PluginManifest::parse(&json!({"name": "demo", "userConfig": options}).to_string())
                .expect("it is valid");
        let source = Source::file(Scope::Plugin, "/p/plugin.json");
        let servers = InlineServers(Map::from_iter([("s".to_owned(), entry)]));
        let values = PluginValues {
            options: OptionValues(values.as_object().expect("an object").clone()),
            ..PluginValues::default()
        };
        let folders = PluginFolders {
            root: Path::new(root),
            data: Path::new("/d"),
            project: Path::new("/w"),
            home: Path::new("/h"),
        };
        let layer = PluginServers {
            origin: PluginOrigin {
                id: PluginId::of_folder("demo"),
                approval_key: key.map(str::to_owned),
                root: root.into(),
            },
            folders,
            source: source.clone(),
            pieces: vec![inline_layer(&source, "demo", &servers)],
            user_config: &manifest.user_config,
            values: &values,
        }
        .into_layer();
        let environment = Environment::from_iter([("MODE".to_owned(), "fast".to_owned())]);
        let inputs = MergeInputs { layers: vec![layer], environment, ..MergeInputs::default() };
        resolve(inputs).servers.remove(0)
    }

    fn line(server: &ResolvedServer) -> String {
        let problems: Vec<String> = server.problems.iter().map(|it| it.kind.to_string()).collect();
        let state = if let ServerState::NeedsConfig(keys) = &server.state {
            format!("needs {}", keys.join(", "))
        } else if matches!(server.state, ServerState::Ready) {
            "ready".to_owned()
        } else {
            format!("{:?}", server.state)
        };
        let transport = server.spec.as_ref().map(|spec| {
            if let TransportConfig::Stdio(it) = &spec.transport {
                let mut words = vec![it.command.to_unresolved_string()];
                words.extend(it.args.iter().map(|it| it.to_unresolved_string()));
                let env = it.env.iter();
                words.extend(env.map(|(name, it)| format!("{name}={}", it.to_unresolved_string())));
                return words.join(" ");
            }
            if let TransportConfig::Http(it) = &spec.transport {
                let helper = it.headers_helper.as_ref().map(Template::as_str).unwrap_or_default();
                return format!("{} {helper}", it.url.to_unresolved_string());
            }
            format!("{:?}", spec.transport.kind())
        });
        format!("{state} {} {}", transport.unwrap_or_default(), problems.join("; "))
            .trim_end()
            .to_owned()
    }

    #[track_caller]
    fn check(entry: Json, values: Json, expected: &str) {
        let options = json!({
            "dirs": {"type": "directory", "title": "t", "description": "d", "multiple": true, "default": ["${HOME}/a", "${CLAUDE_PLUGIN_ROOT}/b"]},
            "token": {"type": "string", "title": "t", "description": "d", "sensitive": true, "default": "none"},
        });
        assert_eq!(line(&resolved(entry, options, values, None, "/p")), expected);
    }

    const EXPORTED: &str = "CLAUDE_PLUGIN_ROOT=/p CLAUDE_PLUGIN_DATA=/d CLAUDE_PROJECT_DIR=/w";

    #[test]
    fn folders_variables_and_options_are_filled_in_and_the_folders_are_exported() {
        check(
            json!({"command": "${CLAUDE_PLUGIN_ROOT}/run", "args": ["${user_config.dirs}", "--t=${user_config.token}", "${MODE}"], "env": {"A": "${CLAUDE_PLUGIN_DATA}/x"}}),
            json!({"token": "${keychain:t}"}),
            &format!("ready /p/run /h/a /p/b --t=${{keychain:t}} fast A=/d/x {EXPORTED}"),
        );
        // What a user typed is never searched for references again.
        check(
            json!({"command": "x", "args": ["${user_config.dirs}"]}),
            json!({"dirs": ["$${user_config.token}"]}),
            &format!("ready x ${{user_config.token}} {EXPORTED}"),
        );
    }

    #[test]
    fn a_helper_gets_the_folders_as_variables_and_never_an_option() {
        check(
            json!({"type": "http", "url": "https://h/${user_config.token}", "headersHelper": "\"${CLAUDE_PLUGIN_ROOT}/h.sh\""}),
            json!({"token": "${keychain:t}"}),
            "ready https://h/${keychain:t} export CLAUDE_PLUGIN_ROOT='/p' CLAUDE_PLUGIN_DATA='/d' CLAUDE_PROJECT_DIR='/w'; \"${CLAUDE_PLUGIN_ROOT}/h.sh\"",
        );
        check(
            json!({"type": "http", "url": "https://h/", "headersHelper": "echo ${user_config.token}"}),
            json!({}),
            "Invalid  may not contain options: a shell would run what is in them",
        );
    }

    #[test]
    fn a_plugin_itself_names_no_secret() {
        check(
            json!({"command": "x", "args": ["${cmd:cat /etc/passwd}"]}),
            json!({}),
            "Invalid  refers to a secret, which the plugin scope does not allow",
        );
        check(
            json!({"command": "${user_config.token}"}),
            json!({"token": "${keychain:t}"}),
            "Invalid  must not refer to a secret: the command that runs must be visible",
        );
    }

    #[test]
    fn a_missing_option_is_a_state() {
        let options =
            json!({"key": {"type": "string", "title": "t", "description": "d", "required": true}});
        let server =
            |values| resolved(json!({"command": "x"}), options.clone(), values, None, "/p");
        assert_eq!(line(&server(json!({}))), "needs key");
        assert_eq!(line(&server(json!({"key": "v"}))), format!("ready x {EXPORTED}"));
    }

    #[test]
    fn an_approval_depends_on_the_definition_and_the_options_but_not_on_the_folder_of_a_version() {
        let server = |arg: &str, root: &str| {
            let entry = json!({"command": "x", "args": ["${CLAUDE_PLUGIN_ROOT}/i.js", arg]});
            resolved(entry, json!({}), json!({}), Some("plugin demo"), root)
        };
        let (one, other) = (server("a", "/c/1"), server("a", "/c/2"));
        assert!(matches!(one.state, ServerState::Pending(_)), "{:?}", one.state);
        assert_eq!(one.approvable(), other.approvable());
        assert_ne!(one.fingerprint, other.fingerprint);
        assert_ne!(one.approvable(), server("b", "/c/1").approvable());
    }
}
