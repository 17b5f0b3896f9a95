//! Loading: every scope through the library's own types, without an environment or a home folder.

use std::fs;
use std::path::Path;

use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::merge::{ScopeFilter, ServerState};
use switchboard::config::permission::PermissionRules;
use switchboard::config::scope::Scope;
use switchboard::config::settings::audit::UnrecordedCalls;
use switchboard::config::source::Source;
use switchboard::config::template::Environment;
use switchboard::sources::Paths;
use switchboard::sources::loader::{
    Configuration, DynamicConfig, LoadOptions, SettingSources, SourceContent, SourceUse, load,
};

fn options(root: &Path) -> LoadOptions {
    fs::create_dir_all(root.join("project")).expect("a folder");
    LoadOptions {
        paths: Paths {
            config: root.join("config"),
            data: root.join("data"),
            state: root.join("state"),
            managed: root.join("managed"),
        },
        working_folder: root.join("project"),
        environment: Environment::default(),
        dynamic: Vec::new(),
        settings: None,
        rules: PermissionRules::default(),
        setting_sources: SettingSources::default(),
        scope_filter: ScopeFilter::All,
        sdk_entries: switchboard::config::merge::SdkEntries::OfProgramLayers,
        connectors: switchboard::sources::loader::ConnectorUse::Allowed,
        plugins: Vec::new(),
        embedded: Vec::new(),
        fallback: None,
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn embedded(scope: Scope, naming: Naming<'_>, servers: &str) -> Layer {
    let source = Source::program(scope, "the embedding program");
    let text = format!("{{\"mcpServers\": {{{servers}}}}}");
    Layer::read(&source, &text, naming, FileShape::Wrapped)
}

fn states(configuration: &Configuration) -> Vec<String> {
    let line = |server: &switchboard::config::merge::ResolvedServer| {
        let state = match &server.state {
            ServerState::Ready => "ready".to_owned(),
            ServerState::Duplicate { of, .. } => format!("same as {of}"),
            ServerState::Shadowed { by } => format!("shadowed by {}", by.scope()),
            ServerState::Pending(_)
            | ServerState::Rejected
            | ServerState::Refused(_)
            | ServerState::Disabled(_)
            | ServerState::Excluded(_)
            | ServerState::NeedsConfig(_)
            | ServerState::Invalid => format!("{:?}", server.state),
        };
        format!("{} {} {state}", server.name, server.scope())
    };
    configuration.effective.servers.iter().map(line).collect()
}

#[test]
fn an_embedding_program_brings_connectors_plugins_and_servers_of_its_own() {
    let home = tempfile::tempdir().expect("a temp folder");
    let mut options = options(home.path());
    write(
        &options.paths.user_settings(),
        r#"{"mcpServers": {"vendor": {"type": "http", "url": "https://mcp.vendor.example/"}, "db": {"command": "db"}}}"#,
    );
    options.embedded = vec![
        embedded(Scope::Dynamic, Naming::Plain, r#""ide": {"type": "sdk", "name": "ide"}"#),
        embedded(
            Scope::Connectors,
            Naming::Plain,
            r#""claude.ai Vendor": {"type": "connector-proxy", "url": "https://proxy.example/x?mcp_url=https%3A%2F%2Fmcp.vendor.example%2F"},
               "claude.ai Other": {"type": "connector-proxy", "url": "https://proxy.example/x?mcp_url=https%3A%2F%2Fmcp.other.example%2F"}"#,
        ),
        embedded(
            Scope::Plugin,
            Naming::Plugin("bundle"),
            r#""db": {"command": "db"}, "own": {"command": "own"}"#,
        ),
    ];
    assert_eq!(
        states(&load(&options)),
        [
            "claude.ai Other connectors ready",
            "claude.ai Vendor connectors same as vendor",
            "db user ready",
            "ide dynamic ready",
            "plugin:bundle:db plugin same as db",
            "plugin:bundle:own plugin ready",
            "vendor user ready",
        ]
    );
}

#[test]
fn connectors_rank_between_dynamic_and_project() {
    let home = tempfile::tempdir().expect("a temp folder");
    let mut options = options(home.path());
    write(&options.paths.user_settings(), r#"{"mcpServers": {"s": {"command": "user"}}}"#);
    options.embedded = vec![embedded(
        Scope::Connectors,
        Naming::Plain,
        r#""s": {"type": "http", "url": "https://h/"}"#,
    )];
    assert_eq!(states(&load(&options)), ["s connectors ready", "s user shadowed by connectors"]);
    options.dynamic =
        vec![DynamicConfig::Inline(r#"{"mcpServers": {"s": {"command": "d"}}}"#.to_owned())];
    assert_eq!(
        states(&load(&options)),
        ["s dynamic ready", "s connectors shadowed by dynamic", "s user shadowed by dynamic"]
    );
}

#[test]
fn unrecorded_calls_are_refused_where_the_administrators_folder_cannot_be_read() {
    let home = tempfile::tempdir().expect("a temp folder");
    let options = options(home.path());
    let text = r#"{"audit": {"unrecordedCalls": "allow", "keepDays": 1}}"#;
    write(&options.paths.user_settings(), text);
    assert_eq!(load(&options).audit.unrecorded_calls(), UnrecordedCalls::Allow);
    write(&options.paths.managed, "a file where the folder should be");
    let audit = load(&options).audit;
    assert_eq!(audit.unrecorded_calls(), UnrecordedCalls::Refuse);
    assert_eq!(audit.keep_days(), 30);
}

#[test]
fn every_inspected_source_is_recorded() {
    let home = tempfile::tempdir().expect("a temp folder");
    let options = options(home.path());
    write(&options.paths.user_settings(), r#"{"mcpServers": {"s": {"command": "x"}}}"#);
    write(&options.working_folder.join(".mcp.json"), "{");
    let configuration = load(&options);
    let found = |path: &Path| {
        configuration
            .sources
            .iter()
            .find(|it| it.source.path() == Some(path))
            .map(|it| it.content.clone())
    };
    assert_eq!(found(&options.paths.user_settings()), Some(SourceContent::Servers(1)));
    assert_eq!(found(&options.working_folder.join(".mcp.json")), Some(SourceContent::Failure));
    assert_eq!(found(&options.paths.managed_servers()), Some(SourceContent::Nothing));
}

#[test]
fn variables_come_from_the_caller_alone() {
    let home = tempfile::tempdir().expect("a temp folder");
    let mut options = options(home.path());
    write(&options.paths.user_settings(), r#"{"mcpServers": {"s": {"command": "$HOME/run"}}}"#);
    let warned = |options: &LoadOptions| load(options).effective.servers[0].problems.len();
    assert_eq!(warned(&options), 1);
    options.environment = options.environment.with("HOME", "/somewhere");
    assert_eq!(warned(&options), 0);
}

#[test]
fn a_plugin_has_the_servers_of_its_manifest_and_of_its_server_file() {
    let home = tempfile::tempdir().expect("a temp folder");
    let options = options(home.path());
    let plugins = options.paths.plugins();
    let manifest = r#"{"name": "x", "version": "1.0", "mcpServers": {"s": {"command": "${SWITCHBOARD_PLUGIN_ROOT}/run"}}}"#;
    write(&plugins.join("one/plugin.json"), manifest);
    write(&plugins.join("two/.claude-plugin/plugin.json"), manifest);
    write(&plugins.join("three/.mcp.json"), r#"{"own": {"command": "x"}}"#);
    write(&plugins.join("three/plugin.json"), manifest);
    let configuration = load(&options);
    assert_eq!(
        states(&configuration),
        [
            "plugin:one:s plugin ready",
            "plugin:three:own plugin ready",
            "plugin:three:s plugin ready",
            "plugin:two:s plugin ready",
        ]
    );
    assert!(configuration.effective.problems.is_empty(), "{:?}", configuration.effective.problems);
    assert!(configuration.effective.servers.iter().all(|server| server.problems.is_empty()));
}

#[test]
fn settings_of_the_command_line_rank_above_the_users_and_below_the_administrators() {
    let home = tempfile::tempdir().expect("a temp folder");
    let mut options = options(home.path());
    let mode = |mode: &str| format!(r#"{{"permissions": {{"defaultMode": "{mode}"}}}}"#);
    write(&options.paths.user_settings(), &mode("plan"));
    let effective = |options: &LoadOptions| {
        load(options).rules.default_mode().map(|(mode, _)| mode.id().to_owned())
    };
    assert_eq!(effective(&options).as_deref(), Some("plan"));
    options.settings = Some(DynamicConfig::Inline(mode("bypassPermissions")));
    assert_eq!(effective(&options).as_deref(), Some("bypass"));
    let file = home.path().join("extra.json");
    write(&file, &mode("acceptEdits"));
    options.settings = Some(DynamicConfig::File(file));
    assert_eq!(effective(&options).as_deref(), Some("acceptEdits"));
    write(&options.paths.managed_settings(), &mode("dontAsk"));
    assert_eq!(effective(&options).as_deref(), Some("dontAsk"));
}

#[test]
fn only_the_chosen_sources_are_loaded_and_the_administrators_always() {
    let home = tempfile::tempdir().expect("a temp folder");
    let mut options = options(home.path());
    let servers = |name: &str| {
        let deny = format!(r#""permissions": {{"deny": ["mcp__{name}"]}}"#);
        format!(r#"{{{deny}, "mcpServers": {{"{name}": {{"command": "{name}"}}}}}}"#)
    };
    write(&options.paths.user_settings(), &servers("user"));
    write(&options.paths.local_settings(&options.working_folder), &servers("local"));
    write(&options.working_folder.join(".mcp.json"), &servers("project"));
    write(&options.paths.managed_settings(), r#"{"permissions": {"deny": ["mcp__managed"]}}"#);
    let mut check = |sources: SettingSources, names: &[&str]| {
        options.setting_sources = sources;
        let loaded = load(&options);
        let found = loaded.effective.servers.iter().map(|it| it.name.as_str());
        assert_eq!(found.collect::<Vec<_>>(), names);
        let mut denied: Vec<String> =
            loaded.rules.entries().iter().map(|it| it.rule.to_string()).collect();
        denied.sort();
        let expected = names.iter().chain(["managed"].iter()).map(|it| format!("mcp__{it}"));
        let mut expected: Vec<String> = expected.collect();
        expected.sort();
        assert_eq!(denied, expected);
    };
    use SourceUse::{Ignored, Loaded};
    let sources = |user, project, local| SettingSources { user, project, local };
    check(SettingSources::default(), &["local", "project", "user"]);
    check(sources(Loaded, Ignored, Ignored), &["user"]);
    check(sources(Ignored, Loaded, Ignored), &["project"]);
    check(sources(Ignored, Ignored, Loaded), &["local"]);
    check(sources(Ignored, Ignored, Ignored), &[]);
}

#[test]
fn rules_of_the_command_line_may_have_the_notation_of_agent_sdks_and_those_of_files_may_not() {
    let home = tempfile::tempdir().expect("a temp folder");
    let mut options = options(home.path());
    let text = r#"{"permissions": {"allow": ["Bash(git:*)", "mcp__s", "WebFetch"]}}"#;
    options.settings = Some(DynamicConfig::Inline(text.to_owned()));
    let rules = |configuration: &Configuration| -> Vec<String> {
        configuration.rules.entries().iter().map(|it| it.rule.to_string()).collect()
    };
    let loaded = load(&options);
    assert_eq!(rules(&loaded), ["mcp__switchboard__Bash(command^=git)", "mcp__s"]);
    assert!(loaded.effective.problems.is_empty(), "{:?}", loaded.effective.problems);
    options.settings = None;
    write(&options.paths.user_settings(), text);
    let loaded = load(&options);
    assert_eq!(rules(&loaded), ["mcp__s"]);
    assert_eq!(loaded.effective.problems.len(), 2);
}
