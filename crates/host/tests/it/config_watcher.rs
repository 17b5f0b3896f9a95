//! Watching configuration files: every kind of change leads to the new configuration.

use std::fs;
use std::path::Path;

use switchboard::config::entry::server::TransportConfig;
use switchboard::config::merge::ScopeFilter;
use switchboard::config::permission::PermissionRules;
use switchboard::config::template::Environment;
use switchboard::sources::loader::{Configuration, LoadOptions, SettingSources, load};
use switchboard::sources::{ConfigWatcher, Paths};
use testkit::{Script, ScriptedProgram};

use crate::support::{TIMEOUT, TestHost, is_connected};

fn options(root: &Path) -> LoadOptions {
    let root = root.canonicalize().expect("it is there");
    fs::create_dir_all(root.join("project")).expect("a folder");
    LoadOptions {
        paths: Paths {
            config: root.join("home/config/switchboard"),
            data: root.join("home/data"),
            state: root.join("home/state"),
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

fn write(path: &Path, servers: &[&str]) {
    let members: Vec<String> =
        servers.iter().map(|name| format!("\"{name}\": {{\"command\": \"{name}\"}}")).collect();
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("{{\"mcpServers\": {{{}}}}}", members.join(", "))).expect("a file");
}

fn names(configuration: &Configuration) -> Vec<&str> {
    configuration.effective.servers.iter().map(|it| it.name.as_str()).collect()
}

/// Waits until a configuration has exactly these servers.
async fn until(watcher: &mut ConfigWatcher, expected: &[&str]) {
    let mut last = Vec::new();
    let waiting = async {
        loop {
            let configuration = watcher.next().await.expect("it follows");
            if names(&configuration) == expected {
                return;
            }
            last = names(&configuration).into_iter().map(str::to_owned).collect();
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    assert!(waited.is_ok(), "never {expected:?}, last {last:?}");
}

#[tokio::test]
async fn created_edited_replaced_and_deleted_files_and_folders_are_noticed() {
    let home = tempfile::tempdir().expect("a temp folder");
    let options = options(home.path());
    let user = options.paths.user_settings();
    let project = options.working_folder.join(".mcp.json");
    let first = load(&options);
    assert_eq!(names(&first), [""; 0]);
    let mut watcher = ConfigWatcher::start(options.clone(), &first).expect("it can be watched");
    // Created, in new folders.
    write(&user, &["a"]);
    until(&mut watcher, &["a"]).await;
    // Edited.
    write(&user, &["a", "b"]);
    until(&mut watcher, &["a", "b"]).await;
    // Replaced, as editors do.
    let draft = user.with_extension("draft");
    write(&draft, &["c"]);
    fs::rename(&draft, &user).expect("it takes its place");
    until(&mut watcher, &["c"]).await;
    // Another scope.
    write(&project, &["p"]);
    until(&mut watcher, &["c", "p"]).await;
    fs::remove_file(&project).expect("it goes");
    until(&mut watcher, &["c"]).await;
    // Deleted with its folder, and created again.
    fs::remove_dir_all(user.parent().expect("a folder")).expect("it goes");
    until(&mut watcher, &[]).await;
    write(&user, &["d"]);
    until(&mut watcher, &["d"]).await;
    write(&user, &["e"]);
    until(&mut watcher, &["e"]).await;
}

#[tokio::test]
async fn a_folder_that_is_recreated_is_still_watched() {
    let home = tempfile::tempdir().expect("a temp folder");
    let options = options(home.path());
    let user = options.paths.user_settings();
    write(&user, &["a"]);
    let first = load(&options);
    let mut watcher = ConfigWatcher::start(options, &first).expect("it can be watched");
    fs::remove_dir_all(user.parent().expect("a folder")).expect("it goes");
    write(&user, &["b"]);
    until(&mut watcher, &["b"]).await;
    write(&user, &["c"]);
    until(&mut watcher, &["c"]).await;
}

#[tokio::test]
async fn a_broken_file_keeps_its_last_valid_meaning_and_its_problem_is_reported() {
    let home = tempfile::tempdir().expect("a temp folder");
    let options = options(home.path());
    let user = options.paths.user_settings();
    let project = options.working_folder.join(".mcp.json");
    write(&user, &["a"]);
    write(&project, &["p"]);
    let text = r#"{"mcpServers": {"a": {"command": "a"}}, "permissions": {"deny": ["mcp__a"]}}"#;
    fs::write(&user, text).expect("a file");
    let first = load(&options);
    let mut watcher = ConfigWatcher::start(options, &first).expect("it can be watched");
    for (path, broken) in [(&user, "{\"mcpServers\": {"), (&project, "{"), (&user, "\0")] {
        fs::write(path, broken).expect("a file");
        let next = tokio::time::timeout(TIMEOUT, watcher.next()).await.expect("it is seen");
        let next = next.expect("it follows");
        assert_eq!(names(&next), ["a", "p"], "{broken:?}");
        assert_eq!(next.rules.entries().len(), 1, "{broken:?}");
        assert!(!next.effective.problems.is_empty(), "{broken:?} is reported");
    }
    // A repaired file counts again, and a deleted one does not.
    write(&user, &["b"]);
    until(&mut watcher, &["b", "p"]).await;
    fs::remove_file(&project).expect("it goes");
    until(&mut watcher, &["b"]).await;
}

#[tokio::test]
async fn a_broken_administrators_file_locks_out_other_sources() {
    let home = tempfile::tempdir().expect("a temp folder");
    let options = options(home.path());
    let managed = options.paths.managed_servers();
    write(&managed, &["a"]);
    let first = load(&options);
    let mut watcher = ConfigWatcher::start(options, &first).expect("it can be watched");
    fs::write(&managed, "{").expect("a file");
    until(&mut watcher, &[]).await;
}

#[tokio::test]
async fn watched_changes_can_be_applied_and_the_hosts_own_files_are_ignored() {
    let test_host = TestHost::new();
    let options = options(test_host.folder.path());
    let user = options.paths.user_settings();
    let first = load(&options);
    let mut watcher = ConfigWatcher::start(options, &first).expect("it can be watched");
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    fs::create_dir_all(user.parent().expect("a folder")).expect("a folder");
    fs::write(&user, format!("{{\"mcpServers\": {{\"s\": {entry}}}}}")).expect("a file");
    let applying = async {
        loop {
            let configuration = watcher.next().await.expect("it follows");
            test_host.host.apply(&configuration.effective).await;
            if !configuration.effective.servers.is_empty() {
                return;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, applying).await.expect("it is picked up");
    test_host.view_when("s", is_connected).await;
    test_host.stop().await;
}

#[tokio::test]
async fn a_plugin_of_a_folder_is_followed_with_its_folders_expanded_again() {
    let home = tempfile::tempdir().expect("a temp folder");
    let options = options(home.path());
    let lab = options.working_folder.join("lab");
    let plugin = lab.join("p");
    fs::create_dir_all(lab.join(".claude-plugin")).expect("a folder");
    fs::create_dir_all(&plugin).expect("a folder");
    let entry = r#"{"name": "p", "source": "./p"}"#;
    let marketplace =
        format!(r#"{{"name": "lab", "owner": {{"name": "A"}}, "plugins": [{entry}]}}"#);
    fs::write(lab.join(".claude-plugin/marketplace.json"), marketplace).expect("a file");
    let definition = |argument: &str| {
        let servers = format!(
            r#"{{"s": {{"command": "x", "args": ["${{CLAUDE_PLUGIN_ROOT}}/{argument}"]}}}}"#
        );
        fs::write(plugin.join(".mcp.json"), servers).expect("a file");
    };
    definition("one");
    fs::create_dir_all(options.paths.plugin_store()).expect("a folder");
    let known = serde_json::json!({"lab": {
        "source": {"source": "directory", "path": lab}, "installLocation": lab, "lastUpdated": "now",
    }});
    fs::write(options.paths.known_marketplaces(), known.to_string()).expect("a file");
    let first = load(&options);
    let mut watcher = ConfigWatcher::start(options.clone(), &first).expect("it can be watched");
    let installed = serde_json::json!({"version": 2, "plugins": {"p@lab": [{
        "scope": "user", "installPath": plugin, "version": "1", "installedAt": "now", "lastUpdated": "now",
        "entry": {"name": "p", "source": "./p"},
    }]}});
    fs::write(options.paths.installed_plugins(), installed.to_string()).expect("a file");
    until(&mut watcher, &["plugin:p:s"]).await;
    for argument in ["two", "three"] {
        definition(argument);
        let expected = format!("{}/{argument}", plugin.display());
        let waiting = async {
            loop {
                let configuration = watcher.next().await.expect("it follows");
                let server =
                    configuration.effective.servers.iter().find(|it| it.name == "plugin:p:s");
                let spec = server.and_then(|it| it.spec.as_ref());
                let TransportConfig::Stdio(stdio) = &spec.expect("it is defined").transport else {
                    panic!("it is a program")
                };
                if stdio.args[0].to_unresolved_string() == expected {
                    return;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, waiting).await.expect("the change is noticed");
    }
}
