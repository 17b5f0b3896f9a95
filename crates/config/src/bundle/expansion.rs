//! From a manifest and the user's values to the command that runs: overrides of the platform, folders and options.

use std::path::Path;

use serde_json::{Map, Value as Json};

use super::manifest::{BundleCommand, BundleManifest};
use super::platform::BundlePlatform;
use super::problem::BundleProblem;
use crate::entry::StdioConfig;
use crate::template::Template;
use crate::user_config::{EffectiveOptions, OptionInputs, OptionProblem, ValueSyntax};

/// The folders that a bundle may refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFolders {
    /// `${__dirname}`: the unpacked bundle.
    pub bundle: String,
    /// `${HOME}`
    pub home: String,
    /// `${DESKTOP}`
    pub desktop: String,
    /// `${DOCUMENTS}`
    pub documents: String,
    /// `${DOWNLOADS}`
    pub downloads: String,
}

impl BundleFolders {
    /// The usual folders of a user with this home folder.
    pub fn new(bundle: &Path, home: &Path) -> BundleFolders {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        BundleFolders {
            bundle: text(bundle),
            home: text(home),
            desktop: text(&home.join("Desktop")),
            documents: text(&home.join("Documents")),
            downloads: text(&home.join("Downloads")),
        }
    }

    fn variables(&self, platform: BundlePlatform) -> Vec<(String, String)> {
        let separator = platform.separator();
        [
            ("__dirname", self.bundle.as_str()),
            ("HOME", &self.home),
            ("DESKTOP", &self.desktop),
            ("DOCUMENTS", &self.documents),
            ("DOWNLOADS", &self.downloads),
            ("pathSeparator", separator),
            ("/", separator),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }
}

/// What decides the command of a bundle, besides its manifest.
#[derive(Debug, Clone, Copy)]
pub struct BundleInputs<'a> {
    /// The folders that it may refer to.
    pub folders: &'a BundleFolders,
    /// The platform that it runs on.
    pub platform: BundlePlatform,
    /// The user's values for its options.
    pub given: &'a Map<String, Json>,
    /// How the user's values are read.
    pub syntax: ValueSyntax,
}

/// What a bundle and the user's values make.
#[derive(Debug, Clone)]
pub struct ExpandedBundle {
    /// The command, or why there is none.
    pub outcome: BundleOutcome,
    /// Problems with options and with references to them.
    pub problems: Vec<OptionProblem>,
}

/// The command of a bundle, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleOutcome {
    /// The command.
    Runs(StdioConfig<Template>),
    /// The user must set these options first.
    NeedsConfig(Vec<String>),
    /// It cannot run.
    Fails(BundleProblem),
}

impl BundleManifest {
    /// Makes the command. Nothing in the manifest is read as a variable of the environment or as a secret, only the
    /// user's values are, if their syntax says so.
    pub fn expand(&self, inputs: &BundleInputs<'_>) -> ExpandedBundle {
        let variables = inputs.folders.variables(inputs.platform);
        let options = self.user_config.effective(&OptionInputs {
            given: inputs.given,
            syntax: inputs.syntax,
            variables: &variables,
        });
        let mut problems = options.problems.clone();
        let outcome = self.outcome(inputs.platform, &options, &mut problems);
        ExpandedBundle { outcome, problems }
    }

    fn outcome(
        &self,
        platform: BundlePlatform,
        options: &EffectiveOptions,
        problems: &mut Vec<OptionProblem>,
    ) -> BundleOutcome {
        let platforms = &self.compatibility.platforms;
        if !platforms.is_empty() && !platforms.iter().any(|it| it == platform.id()) {
            return BundleOutcome::Fails(BundleProblem::Platform(platform));
        }
        if options.needs_config() {
            return BundleOutcome::NeedsConfig(options.missing.clone());
        }
        let written = self.command_on(platform);
        let literal = |text: &String| Template::from_literal(text);
        let command = options.fill(&literal(&written.command), problems);
        if !command.secrets().is_empty() {
            return BundleOutcome::Fails(BundleProblem::SecretInCommand);
        }
        if command.as_literal().is_some_and(|it| it.trim().is_empty()) {
            return BundleOutcome::Fails(BundleProblem::EmptyCommand);
        }
        let args: Vec<Template> = written.args.iter().map(literal).collect();
        let args = options.fill_items(&args, problems);
        let env = written.env.iter();
        let env = env.map(|(name, value)| (name.clone(), options.fill(&literal(value), problems)));
        BundleOutcome::Runs(StdioConfig { command, args, env: env.collect(), cwd: None })
    }

    /// The command on a platform. What the platform overrides is replaced whole, not merged.
    pub fn command_on(&self, platform: BundlePlatform) -> BundleCommand {
        let mut command = self.server.command.clone();
        let found = self.server.overrides.iter().find(|(name, _)| name == platform.id());
        if let Some((_, parts)) = found {
            command.command = parts.command.clone().unwrap_or(command.command);
            command.args = parts.args.clone().unwrap_or(command.args);
            command.env = parts.env.clone().unwrap_or(command.env);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A manifest with this server and these options.
    fn manifest(server: Json, options: Json) -> BundleManifest {
        let json = json!({
            "manifest_version": "0.4", "name": "b", "version": "1", "description": "d",
            "author": {"name": "A"}, "server": server, "user_config": options,
        });
        BundleManifest::parse(&json.to_string()).expect("it is valid").0
    }

    fn expand(manifest: &BundleManifest, platform: BundlePlatform, given: &Json) -> ExpandedBundle {
        let folders = BundleFolders::new(Path::new("/b"), Path::new("/h"));
        let given = given.as_object().expect("an object");
        let syntax = ValueSyntax::Template;
        manifest.expand(&BundleInputs { folders: &folders, platform, given, syntax })
    }

    /// The command, its arguments and its variables on one line.
    fn line(expanded: &ExpandedBundle) -> String {
        match &expanded.outcome {
            BundleOutcome::Runs(stdio) => {
                let shown = |text: &Template| text.masked_with(str::to_owned);
                let mut words: Vec<String> = stdio
                    .env
                    .iter()
                    .map(|(name, value)| format!("{name}={}", shown(value)))
                    .collect();
                words.push(shown(&stdio.command));
                words.extend(stdio.args.iter().map(|it| format!("[{}]", shown(it))));
                words.join(" ")
            }
            BundleOutcome::NeedsConfig(keys) => format!("needs {}", keys.join(", ")),
            BundleOutcome::Fails(problem) => problem.to_string(),
        }
    }

    #[track_caller]
    fn check(server: Json, options: Json, given: Json, expected: &str) {
        let manifest = manifest(server, options);
        assert_eq!(line(&expand(&manifest, BundlePlatform::Linux, &given)), expected);
    }

    fn node(args: Json) -> Json {
        json!({"type": "node", "entry_point": "i.js", "mcp_config": {"command": "node", "args": args}})
    }

    fn option(more: Json) -> Json {
        let mut option = json!({"type": "string", "title": "t", "description": "d"});
        for (key, value) in more.as_object().expect("an object") {
            option[key] = value.clone();
        }
        json!({"k": option})
    }

    #[test]
    fn folders_and_separators_are_replaced_everywhere() {
        let args = json!([
            "${__dirname}${/}i.js",
            "${HOME}",
            "${DESKTOP}${pathSeparator}x",
            "${DOCUMENTS}",
            "${DOWNLOADS}",
            "${NOPE}"
        ]);
        check(
            node(args),
            json!({}),
            json!({}),
            "node [/b/i.js] [/h] [/h/Desktop/x] [/h/Documents] [/h/Downloads] [${NOPE}]",
        );
        let manifest = manifest(node(json!(["${/}${pathSeparator}"])), json!({}));
        assert_eq!(line(&expand(&manifest, BundlePlatform::Win32, &json!({}))), "node [\\\\]");
    }

    #[test]
    fn the_manifest_cannot_read_the_environment_or_secrets() {
        let args = json!([
            "$PATH",
            "${PATH}",
            "${cmd:touch x}",
            "${keychain:other}",
            "${file:/etc/passwd}",
            "$$"
        ]);
        let manifest = manifest(node(args), json!({}));
        let BundleOutcome::Runs(stdio) =
            expand(&manifest, BundlePlatform::Linux, &json!({})).outcome
        else {
            panic!("it runs")
        };
        assert!(stdio.args.iter().all(Template::is_literal));
        let defaults = option(json!({"default": "${cmd:touch x}$PATH"}));
        check(node(json!(["${user_config.k}"])), defaults, json!({}), "node [${cmd:touch x}$PATH]");
    }

    #[test]
    fn the_home_folder_in_a_default_is_expanded_and_in_a_value_it_is_a_variable() {
        let defaults = option(json!({"default": "${HOME}/notes"}));
        check(node(json!(["${user_config.k}"])), defaults, json!({}), "node [/h/notes]");
        let options = option(json!({}));
        check(
            node(json!(["${user_config.k}"])),
            options,
            json!({"k": "$& ${__dirname} $1"}),
            "node [$& ${__dirname} $1]",
        );
    }

    #[test]
    fn lists_expand_only_where_they_are_alone() {
        let options = option(json!({"multiple": true}));
        let args = json!(["a", "${user_config.k}", "--k=${user_config.k}"]);
        check(
            node(args.clone()),
            options.clone(),
            json!({"k": ["1", "2 3"]}),
            "node [a] [1] [2 3] [--k=${user_config.k}]",
        );
        check(
            node(args.clone()),
            options.clone(),
            json!({"k": []}),
            "node [a] [--k=${user_config.k}]",
        );
        let expanded =
            expand(&manifest(node(args), options), BundlePlatform::Linux, &json!({"k": ["1"]}));
        assert_eq!(expanded.problems.len(), 1, "{:?}", expanded.problems);
    }

    #[test]
    fn overrides_of_the_platform_replace_whole_parts() {
        let server = json!({"type": "node", "entry_point": "i.js", "mcp_config": {
            "command": "node", "args": ["a"], "env": {"A": "1", "B": "2"},
            "platform_overrides": {
                "linux": {"env": {"C": "3"}}, "win32": {"command": "node.exe", "args": []}, "darwin": {},
            },
        }});
        let manifest = manifest(server, json!({}));
        let on = |platform| line(&expand(&manifest, platform, &json!({})));
        assert_eq!(on(BundlePlatform::Linux), "C=3 node [a]");
        assert_eq!(on(BundlePlatform::Win32), "A=1 B=2 node.exe");
        assert_eq!(on(BundlePlatform::Darwin), "A=1 B=2 node [a]");
    }

    #[test]
    fn uv_has_a_command_of_its_own() {
        let server = json!({"type": "uv", "entry_point": "src/server.py"});
        check(server, json!({}), json!({}), "uv [run] [--directory] [/b] [src/server.py]");
        let server = json!({"type": "uv", "entry_point": "s.py", "mcp_config": {"command": "uvx", "args": ["s"]}});
        check(server, json!({}), json!({}), "uvx [s]");
    }

    #[test]
    fn what_a_bundle_cannot_start_with_is_an_outcome() {
        let required = option(json!({"required": true, "sensitive": true}));
        check(node(json!([])), required.clone(), json!({}), "needs k");
        check(
            node(json!(["${user_config.k}"])),
            required,
            json!({"k": "${keychain:x}"}),
            "node [${keychain:x}]",
        );
        let command = |text: &str| json!({"type": "binary", "entry_point": "run", "mcp_config": {"command": text}});
        let options = option(json!({}));
        check(
            command("${user_config.k}"),
            options.clone(),
            json!({"k": "${cmd:x}"}),
            "a secret option must not be the command that runs",
        );
        check(
            command("${user_config.k}"),
            options,
            json!({"k": ""}),
            "the bundle's command is empty",
        );
        let mut elsewhere = manifest(node(json!([])), json!({}));
        elsewhere.compatibility.platforms = vec!["darwin".to_owned()];
        let expanded = expand(&elsewhere, BundlePlatform::Linux, &json!({}));
        assert_eq!(line(&expanded), "the bundle does not run on linux");
        assert!(matches!(
            expand(&elsewhere, BundlePlatform::Darwin, &json!({})).outcome,
            BundleOutcome::Runs(_)
        ));
    }
}
