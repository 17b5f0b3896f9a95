//! Merges layers into servers: which definition of a name wins, what the policy decides, whether the user
//! approved it, and which definitions are the same server. Definitions that lose stay visible with the reason.

mod duplicates;
mod effective;
mod expansion;
mod plugin_context;
mod resolver;
mod rule_names;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::approvals::Approvals;
use crate::file::Layer;
use crate::policy::Policy;
use crate::program::ProgramFinder;
use crate::settings::DisabledServer;
use crate::source::Source;
use crate::template::Environment;
use duplicates::mark_duplicates;
use plugin_context::PluginContext;
use resolver::Resolver;
use rule_names::mark_name_clashes;

pub use effective::{EffectiveConfig, Exclusion, PendingReason, ResolvedServer, ServerState};

/// Everything that decides which servers run.
#[derive(Debug, Clone, Default)]
pub struct MergeInputs {
    /// The layers; of two layers of one scope the earlier wins.
    pub layers: Vec<Layer>,
    /// Allow and deny lists.
    pub policy: Policy,
    /// Servers that settings disable.
    pub disabled: Vec<DisabledServer>,
    /// The user's decisions on project servers.
    pub approvals: Approvals,
    /// The variables that entries may use.
    pub environment: Environment,
    /// Finds the programs of commands; without it, no command has one.
    pub programs: Option<Arc<dyn ProgramFinder>>,
    /// The project that local settings belong to, where their relative paths start.
    pub project_root: Option<PathBuf>,
    /// The managed server file, if it exists: then it is the only source.
    pub exclusive_source: Option<Arc<Source>>,
    /// Which scopes count.
    pub scope_filter: ScopeFilter,
    /// Which entries of type `sdk` name a server that the embedding program hosts.
    pub sdk_entries: SdkEntries,
}

/// Which scopes count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScopeFilter {
    /// All scopes.
    #[default]
    All,
    /// `--strict-mcp-config`: only the dynamic scope.
    DynamicOnly,
}

/// Which entries of type `sdk` the embedding program itself wrote. They stay in use beside a managed server file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SdkEntries {
    /// Those of its own layers.
    #[default]
    OfProgramLayers,
    /// Those of `--mcp-config` too, because the program chose the command line.
    OfCommandLineToo,
}

/// Decides the state of every definition.
pub fn resolve(inputs: MergeInputs) -> EffectiveConfig {
    let MergeInputs {
        layers,
        policy,
        disabled,
        approvals,
        environment,
        programs,
        project_root,
        exclusive_source,
        scope_filter,
        sdk_entries,
    } = inputs;
    let resolver = Resolver {
        policy,
        disabled,
        approvals,
        environment,
        programs,
        project_root,
        exclusive_source,
        scope_filter,
        sdk_entries,
    };
    let mut problems = Vec::new();
    let mut servers = Vec::new();
    for layer in layers {
        problems.extend(layer.problems);
        let mut environment = Cow::Borrowed(&resolver.environment);
        for (name, value) in &layer.variables {
            environment = Cow::Owned(environment.with(name, value));
        }
        let plugin = layer.plugin.as_ref().map(|origin| PluginContext::new(origin, &environment));
        let resolved = layer
            .definitions
            .into_iter()
            .map(|it| resolver.resolve_definition(it, &environment, plugin.as_ref()));
        servers.extend(resolved);
    }
    servers.sort_by(|a, b| (&a.name, a.scope()).cmp(&(&b.name, b.scope())));
    resolver.mark_shadowed(&mut servers);
    mark_duplicates(&mut servers);
    mark_name_clashes(&mut servers);
    EffectiveConfig { servers, problems, exclusive_source: resolver.exclusive_source }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::approvals::{ApprovalDecision, ApprovedServer};
    use crate::entry::{ProgramBinding, StartFolder};
    use crate::file::{FileShape, Naming};
    use crate::permission::RuleEntry;
    use crate::program::ProgramQuery;
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::source::Authority;

    /// A scenario: sources by scope (`project:near` names the file), each with the text under `mcpServers`.
    #[derive(Default)]
    struct Scenario {
        inputs: MergeInputs,
    }

    impl Scenario {
        fn with(mut self, place: &str, servers: &str) -> Scenario {
            let (scope, file) = place.split_once(':').unwrap_or((place, place));
            let scope = Scope::parse(scope).expect("a scope");
            let plugin = if file.contains('/') { "a" } else { file };
            let naming =
                if scope == Scope::Plugin { Naming::Plugin(plugin) } else { Naming::Plain };
            let text = format!("{{\"mcpServers\": {{{servers}}}}}");
            let source = Source::file(scope, file);
            if scope == Scope::Enterprise {
                self.inputs.exclusive_source = Some(source.clone());
            }
            self.inputs.layers.push(Layer::read(&source, &text, naming, FileShape::Wrapped));
            self
        }

        fn settings(mut self, text: &str) -> Scenario {
            let source = Source::file(Scope::User, "settings");
            let settings = Settings::read(&source, text, Authority::User);
            self.inputs.policy = settings.policy;
            self.inputs.disabled = settings.disabled;
            self
        }

        /// Approves the current definition in the project file `file`.
        fn approve(mut self, file: &str, name: &str) -> Scenario {
            let source = Source::file(Scope::Project, file).to_string();
            let approved = self.approvable(file, name).expect("it is defined");
            self.inputs.approvals.record(&source, name, ApprovalDecision::Approved(approved));
            self
        }

        fn approvable(&self, file: &str, name: &str) -> Option<ApprovedServer> {
            let servers = resolve(self.inputs.clone()).servers;
            let is_meant =
                |it: &&ResolvedServer| it.name == name && it.origin.source.to_string() == file;
            servers.iter().find(is_meant)?.approvable()
        }

        fn set(mut self, name: &str, value: &str) -> Scenario {
            self.inputs.environment = self.inputs.environment.with(name, value);
            self
        }

        #[track_caller]
        fn check(self, expected: &[&str]) {
            let effective = resolve(self.inputs);
            let line = |server: &ResolvedServer| {
                let state = match &server.state {
                    ServerState::Ready => "ready".to_owned(),
                    ServerState::Pending(why) => format!("pending {why:?}"),
                    ServerState::Rejected => "rejected".to_owned(),
                    ServerState::Refused(_) => "refused".to_owned(),
                    ServerState::Disabled(by) => format!("disabled by {}", by.source),
                    ServerState::Shadowed { by } => format!("shadowed by {}", by.source),
                    ServerState::Duplicate { of, .. } => format!("duplicate of {of}"),
                    ServerState::Excluded(Exclusion::ManagedFile(_)) => {
                        "excluded by the managed file".to_owned()
                    }
                    ServerState::Excluded(Exclusion::Strict) => "excluded by strict".to_owned(),
                    ServerState::NeedsConfig(keys) => format!("needs {}", keys.join(", ")),
                    ServerState::Invalid => "invalid".to_owned(),
                };
                format!("{} {} {state}", server.name, server.origin.source)
            };
            assert_eq!(effective.servers.iter().map(line).collect::<Vec<_>>(), expected);
        }
    }

    const X: &str = r#""s": {"command": "x"}"#;

    #[test]
    fn the_highest_scope_wins_and_the_others_stay_visible() {
        Scenario::default()
            .with("user", X)
            .with("project:p", X)
            .with("local", X)
            .with("dynamic", r#""s": {"command": "x", "disabled": true}"#)
            .check(&[
                "s dynamic disabled by dynamic",
                "s p shadowed by dynamic",
                "s local shadowed by dynamic",
                "s user shadowed by dynamic",
            ]);
    }

    #[test]
    fn project_beats_local_beats_user_and_the_nearest_project_file_wins() {
        Scenario::default()
            .with("project:near", X)
            .with("project:far", X)
            .with("local", X)
            .with("user", X)
            .approve("near", "s")
            .check(&[
                "s near ready",
                "s far shadowed by near",
                "s local shadowed by near",
                "s user shadowed by near",
            ]);
    }

    #[test]
    fn a_bad_entry_never_hides_a_good_one_of_the_same_name() {
        Scenario::default()
            .with("local", r#""s": {"command": 1}"#)
            .with("user", X)
            .check(&["s local invalid", "s user ready"]);
    }

    #[test]
    fn a_managed_server_file_is_the_only_source_except_for_the_embedding_program() {
        Scenario::default()
            .with("enterprise", r#""corp": {"command": "c"}"#)
            .with("dynamic", r#""tool": {"type": "sdk"}, "own": {"command": "x"}"#)
            .with("user", X)
            .settings(r#"{"disabledMcpServers": ["corp"]}"#)
            .check(&[
                "corp enterprise ready",
                "own dynamic excluded by the managed file",
                "s user excluded by the managed file",
                "tool dynamic excluded by the managed file",
            ]);
        let mut embedded = Scenario::default().with("enterprise", r#""corp": {"command": "c"}"#);
        let program = Source::program(Scope::Dynamic, "editor");
        let text = r#"{"mcpServers": {"tool": {"type": "sdk"}, "own": {"command": "x"}}}"#;
        let layer = Layer::read(&program, text, Naming::Plain, FileShape::Wrapped);
        embedded.inputs.layers.push(layer);
        embedded.check(&[
            "corp enterprise ready",
            "own editor excluded by the managed file",
            "tool editor ready",
        ]);
    }

    #[test]
    fn a_program_that_chose_the_command_line_keeps_the_servers_that_it_names_there() {
        let mut scenario = Scenario::default()
            .with("enterprise", r#""corp": {"command": "c"}"#)
            .with("dynamic", r#""tool": {"type": "sdk"}, "own": {"command": "x"}"#);
        scenario.inputs.sdk_entries = SdkEntries::OfCommandLineToo;
        scenario.check(&[
            "corp enterprise ready",
            "own dynamic excluded by the managed file",
            "tool dynamic ready",
        ]);
    }

    #[test]
    fn an_approval_ends_when_the_command_runs_another_program() {
        #[derive(Debug)]
        struct Program(&'static str);
        impl ProgramFinder for Program {
            fn find(&self, query: &ProgramQuery<'_>) -> Option<PathBuf> {
                let folder = query.base_folder.unwrap_or(Path::new("/working-folder"));
                Some(folder.join(self.0))
            }
        }
        let mut scenario = Scenario::default().with("project:/p/.mcp.json", X).with("user", X);
        scenario.inputs.programs = Some(Arc::new(Program("bin/x")));
        let mut scenario = scenario.approve("/p/.mcp.json", "s");
        let server = &resolve(scenario.inputs.clone()).servers[0];
        assert!(server.is_ready());
        assert_eq!(server.program.as_deref(), Some(Path::new("/p/bin/x")));
        let spec = server.spec.as_ref().expect("it is valid");
        assert_eq!(spec.base_folder.as_deref(), Some(Path::new("/p")));
        assert_eq!(spec.program, ProgramBinding::File("/p/bin/x".into()));
        scenario.inputs.programs = Some(Arc::new(Program("evil/x")));
        scenario
            .check(&["s /p/.mcp.json pending ProgramChanged", "s user shadowed by /p/.mcp.json"]);
    }

    /// Finds nothing.
    #[derive(Debug)]
    struct NoPrograms;

    impl ProgramFinder for NoPrograms {
        fn find(&self, _query: &ProgramQuery<'_>) -> Option<PathBuf> {
            None
        }
    }

    #[test]
    fn an_approval_of_a_program_that_is_not_installed_approves_no_program() {
        let mut scenario = Scenario::default().with("project:/p/.mcp.json", X);
        scenario.inputs.programs = Some(Arc::new(NoPrograms));
        let scenario = scenario.approve("/p/.mcp.json", "s");
        let server = &resolve(scenario.inputs).servers[0];
        assert!(server.is_ready());
        let spec = server.spec.as_ref().expect("it is valid");
        assert_eq!(spec.program, ProgramBinding::NotFound);
    }

    #[test]
    fn a_rule_for_a_command_applies_to_the_program_that_it_was_compared_with_in_every_scope() {
        let program_of = |place: &str, settings: &str| {
            let mut scenario = Scenario::default().with(place, X).settings(settings);
            scenario.inputs.programs = Some(Arc::new(NoPrograms));
            let server = resolve(scenario.inputs).servers.remove(0);
            server.spec.expect("it is valid").program
        };
        let allow = r#"{"allowedMcpServers": [{"serverCommand": ["x"]}]}"#;
        let deny = r#"{"deniedMcpServers": [{"serverCommand": ["y"]}]}"#;
        for place in ["dynamic", "local", "user", "plugin:a", "project:p"] {
            for settings in [allow, deny] {
                assert_eq!(program_of(place, settings), ProgramBinding::NotFound, "{place}");
            }
        }
        // Nothing depends on the program.
        assert_eq!(program_of("user", "{}"), ProgramBinding::Unbound);
        let by_name = r#"{"allowedMcpServers": [{"serverName": "s"}]}"#;
        assert_eq!(program_of("user", by_name), ProgramBinding::Unbound);
        assert_eq!(program_of("enterprise", allow), ProgramBinding::Unbound);
    }

    #[test]
    fn relative_paths_start_at_the_folder_of_the_file_or_of_the_project() {
        let check = |place: &str, folder: Option<&str>, start: StartFolder| {
            let mut scenario = Scenario::default().with(place, X);
            scenario.inputs.project_root = Some("/srv/app".into());
            let spec = resolve(scenario.inputs).servers.remove(0).spec.expect("it is valid");
            assert_eq!(spec.base_folder.as_deref(), folder.map(Path::new), "{place}");
            assert_eq!(spec.start_folder, start, "{place}");
        };
        use StartFolder::{BaseFolder, WorkingFolder};
        check("project:/srv/app/sub/.mcp.json", Some("/srv/app/sub"), BaseFolder);
        check("local:/c/projects/1/settings.json", Some("/srv/app"), BaseFolder);
        check("user:/c/settings.json", Some("/c"), WorkingFolder);
        check("dynamic:/d/servers.json", Some("/d"), WorkingFolder);
        check("dynamic:/dev/fd/63", None, WorkingFolder);
        check("enterprise:/etc/swb/managed-mcp.json", Some("/etc/swb"), WorkingFolder);
        check("plugin:/l/p/.mcp.json", Some("/l/p"), WorkingFolder);
        check("plugin:/l/p/.claude-plugin/plugin.json", Some("/l/p"), WorkingFolder);
    }

    #[test]
    fn rules_in_an_entry_hold_for_its_server_and_allow_only_where_the_user_wrote_them() {
        let entry = r#""s": {"command": "x", "permissions": {"allow": ["read_*"], "deny": ["write(path=/etc/*)", "mcp__s__rm"]}}"#;
        let rules = |place: &str| {
            let effective = resolve(Scenario::default().with(place, entry).inputs);
            let entries = effective.entry_rules().entries().to_vec();
            let text = |it: &RuleEntry| format!("{} {}", it.effect, it.rule);
            entries.iter().map(text).collect::<Vec<_>>()
        };
        let deny = ["deny mcp__s__write(path=/etc/*)", "deny mcp__s__rm"];
        for place in ["user", "local", "dynamic", "enterprise"] {
            assert_eq!(rules(place), [&["allow mcp__s__read_*"], &deny[..]].concat(), "{place}");
        }
        assert_eq!(rules("project:p"), deny);
        let in_plugin = r#""s": {"command": "x", "permissions": {"deny": ["rm"]}}"#;
        let effective = resolve(Scenario::default().with("plugin:a", in_plugin).inputs);
        assert_eq!(effective.entry_rules().entries()[0].rule.to_string(), "mcp__plugin_a_s__rm");
    }

    #[test]
    fn an_invalid_rule_in_an_entry_is_an_error_with_its_line_and_leaves_the_server_out() {
        for (rules, message) in [
            (
                r#"{"deny": ["wri te"]}"#,
                "is not a valid rule: names may contain only letters, digits, `-` and `_`; until it is fixed, the server is left out",
            ),
            (
                r#"{"deny": ["mcp__other__x"]}"#,
                "is not a valid rule: a rule in a server's entry must name this server; until it is fixed, the server is left out",
            ),
            (
                r#"{"deny": ["a"], "deny": []}"#,
                "duplicate key; until one is removed, the server is left out",
            ),
            (r#"{"deny": "a"}"#, "expected an array of rules, found a string"),
        ] {
            let entry = format!("\n\"s\": {{\"command\": \"x\",\n\"permissions\": {rules}}}");
            let effective = resolve(Scenario::default().with("user", &entry).inputs);
            let server = &effective.servers[0];
            assert!(matches!(server.state, ServerState::Invalid), "{rules}");
            let problem = &server.problems[0];
            assert_eq!(problem.kind.to_string(), message);
            assert_eq!(problem.origin.position.map(|it| it.line), Some(3), "{rules}");
        }
    }

    #[test]
    fn strict_excludes_all_but_the_dynamic_scope_and_keeps_exclusive_control() {
        let mut strict =
            Scenario::default().with("dynamic", X).with("user", r#""u": {"command": "x"}"#);
        strict.inputs.scope_filter = ScopeFilter::DynamicOnly;
        strict.check(&["s dynamic ready", "u user excluded by strict"]);
        let mut locked = Scenario::default()
            .with("enterprise", r#""corp": {"command": "c"}"#)
            .with("dynamic", X);
        locked.inputs.scope_filter = ScopeFilter::DynamicOnly;
        locked.check(&["corp enterprise ready", "s dynamic excluded by the managed file"]);
    }

    #[test]
    fn a_project_server_needs_an_approval_and_again_after_any_change() {
        let scenario =
            |entry: &str| Scenario::default().with("project:p", &format!("\"s\": {entry}"));
        let first = r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}}"#;
        scenario(first).check(&["s p pending New"]);
        scenario(first).approve("p", "s").check(&["s p ready"]);
        let approvals = scenario(first).set("V", "1").approve("p", "s").inputs.approvals;
        for changed in [
            r#"{"command": "x", "args": ["b"], "env": {"K": "$V"}}"#,
            r#"{"command": "x", "args": ["a", ""], "env": {"K": "$V"}}"#,
            r#"{"command": "y", "args": ["a"], "env": {"K": "$V"}}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V "}}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V", "L": ""}}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}, "cwd": "/"}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}, "trust": true}"#,
            r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}, "sandbox": "off"}"#,
            r#"{"type": "http", "url": "https://x/"}"#,
        ] {
            let mut scenario = scenario(changed).set("V", "1");
            scenario.inputs.approvals = approvals.clone();
            scenario.check(&["s p pending Changed"]);
        }
        let mut other_value = scenario(first).set("V", "2");
        other_value.inputs.approvals = approvals.clone();
        other_value.check(&["s p pending Changed"]);
        let mut described =
            scenario(r#"{"command": "x", "args": ["a"], "env": {"K": "$V"}, "description": "d"}"#)
                .set("V", "1");
        described.inputs.approvals = approvals;
        described.check(&["s p ready"]);
    }

    #[test]
    fn approvals_of_remote_entries_cover_url_headers_and_oauth() {
        let scenario =
            |entry: &str| Scenario::default().with("project:p", &format!("\"s\": {entry}"));
        let first = r#"{"type": "http", "url": "https://h/a", "headers": {"A": "b"}}"#;
        let approvals = scenario(first).approve("p", "s").inputs.approvals;
        for changed in [
            r#"{"type": "http", "url": "https://h/b", "headers": {"A": "b"}}"#,
            r#"{"type": "http", "url": "https://h/a", "headers": {"A": "c"}}"#,
            r#"{"type": "http", "url": "https://h/a", "headers": {"A": "b"}, "headersHelper": "id"}"#,
            r#"{"type": "http", "url": "https://h/a", "headers": {"A": "b"}, "oauth": {"clientId": "x"}}"#,
            r#"{"type": "sse", "url": "https://h/a", "headers": {"A": "b"}}"#,
        ] {
            let mut scenario = scenario(changed);
            scenario.inputs.approvals = approvals.clone();
            scenario.check(&["s p pending Changed"]);
        }
    }

    #[test]
    fn a_rejected_project_server_does_not_shadow_others() {
        let mut scenario = Scenario::default().with("project:p", X).with("user", X);
        scenario.inputs.approvals.record("p", "s", ApprovalDecision::Rejected);
        scenario.check(&["s p rejected", "s user ready"]);
    }

    #[test]
    fn an_approval_in_one_project_file_does_not_apply_to_another() {
        let mut scenario = Scenario::default()
            .with("project:p", X)
            .approve("p", "s")
            .with("project:q", r#""t": {"command": "x"}"#);
        let stolen = scenario.approvable("p", "s").expect("it is there");
        scenario.inputs.approvals.record("p", "t", ApprovalDecision::Approved(stolen));
        scenario.check(&["s p ready", "t q pending New"]);
    }

    #[test]
    fn disabled_servers_name_the_source() {
        Scenario::default()
            .with("user", X)
            .settings(r#"{"disabledMcpServers": ["s"]}"#)
            .check(&["s user disabled by settings"]);
    }

    #[test]
    fn manual_beats_plugin_and_the_first_plugin_beats_the_second() {
        let db = |name: &str| format!(r#""{name}": {{"command": "db", "args": ["1"]}}"#);
        Scenario::default()
            .with("plugin:a", &db("one"))
            .with("plugin:b", &db("two"))
            .check(&["plugin:a:one a ready", "plugin:b:two b duplicate of plugin:a:one"]);
        Scenario::default()
            .with("plugin:a", &db("one"))
            .with("user", &db("mine"))
            .check(&["mine user ready", "plugin:a:one a duplicate of mine"]);
        Scenario::default()
            .with("plugin:a", &db("one"))
            .with("project:p", &db("theirs"))
            .check(&["plugin:a:one a ready", "theirs p pending New"]);
        Scenario::default()
            .with("user", &format!("{},{}", db("mine"), db("again")))
            .check(&["again user ready", "mine user ready"]);
    }

    #[test]
    fn an_enabled_manual_server_hides_a_duplicate_connector_and_a_disabled_one_does_not() {
        let connector = r#""claude.ai Vendor": {"type": "claudeai-proxy", "url": "https://proxy.example/?mcp_url=https%3A%2F%2Fmcp.vendor.example%2F"}"#;
        Scenario::default()
            .with("connectors", connector)
            .with("user", r#""vendor": {"type": "http", "url": "https://mcp.vendor.example"}"#)
            .check(&["claude.ai Vendor connectors duplicate of vendor", "vendor user ready"]);
        Scenario::default()
            .with("connectors", connector)
            .with("user", r#""vendor": {"type": "http", "url": "https://mcp.vendor.example", "disabled": true}"#)
            .check(&["claude.ai Vendor connectors ready", "vendor user disabled by user"]);
    }

    #[test]
    fn policy_reaches_every_scope() {
        Scenario::default()
            .with("dynamic", r#""a": {"command": "x"}"#)
            .with("connectors", r#""b": {"type": "http", "url": "https://x/"}"#)
            .with("project:p", r#""c": {"command": "x"}"#)
            .with("local", r#""d": {"command": "x"}"#)
            .with("user", r#""e": {"command": "x"}"#)
            .with("plugin:f", r#""f": {"command": "x"}"#)
            .settings(r#"{"allowedMcpServers": []}"#)
            .check(&[
                "a dynamic refused",
                "b connectors refused",
                "c p refused",
                "d local refused",
                "e user refused",
                "plugin:f:f f refused",
            ]);
        Scenario::default()
            .with("enterprise", X)
            .settings(r#"{"deniedMcpServers": [{"serverName": "s"}]}"#)
            .check(&["s enterprise refused"]);
    }

    #[test]
    fn a_missing_variable_is_only_a_warning() {
        let effective = resolve(
            Scenario::default()
                .with("user", r#""s": {"type": "http", "url": "https://$HOST/"}"#)
                .inputs,
        );
        let server = &effective.servers[0];
        assert!(matches!(server.state, ServerState::Ready));
        assert_eq!(server.problems[0].kind.to_string(), "the variable HOST is not set");
        Scenario::default()
            .with("user", r#""s": {"type": "http", "url": "$URL"}"#)
            .set("URL", "not a url")
            .check(&["s user invalid"]);
    }

    #[test]
    fn only_a_users_own_files_may_refer_to_secrets_and_never_in_the_host() {
        let header = r#""s": {"type": "http", "url": "https://h/", "headers": {"A": "${cmd:id}"}}"#;
        Scenario::default().with("user", header).check(&["s user ready"]);
        Scenario::default().with("local", header).check(&["s local ready"]);
        for scope in ["project:p", "dynamic", "enterprise", "connectors"] {
            let file = scope.split(':').next_back().expect("a file");
            Scenario::default().with(scope, header).check(&[&format!("s {file} invalid")]);
        }
        let host = r#""s": {"type": "http", "url": "https://${cmd:echo h}/x"}"#;
        Scenario::default().with("user", host).check(&["s user invalid"]);
        let path = r#""s": {"type": "http", "url": "https://h/${file:/t}"}"#;
        Scenario::default().with("user", path).check(&["s user ready"]);
    }

    #[test]
    fn debug_output_contains_no_secrets() {
        let scenario = Scenario::default()
            .with(
                "user",
                r#""a": {"command": "canary", "args": ["canary"], "env": {"K": "canary"}, "cwd": "canary", "x": "canary"},
                   "b": {"type": "http", "url": "https://canary/?canary", "headers": {"A": "canary"}, "headersHelper": "canary", "oauth": {"clientId": "canary", "clientSecret": "canary"}}"#,
            )
            .set("V", "canary");
        let before = format!("{:?}", scenario.inputs);
        let after = format!("{:?}", resolve(scenario.inputs));
        assert!(!before.contains("canary") && !after.contains("canary"), "{before}\n{after}");
        assert!(after.contains("\"a\"") && after.contains("\"b\""));
    }

    #[test]
    fn trust_counts_only_where_the_server_may_run() {
        let trusting = r#""s": {"command": "x", "trust": true}"#;
        let trusted = |scenario: Scenario| resolve(scenario.inputs).servers[0].is_trusted();
        assert!(trusted(Scenario::default().with("user", trusting)));
        assert!(!trusted(Scenario::default().with("project:p", trusting)));
        assert!(trusted(Scenario::default().with("project:p", trusting).approve("p", "s")));
    }
}
