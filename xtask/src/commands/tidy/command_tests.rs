//! Rule: each command is one file and has one test file of the same name.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::Tree;

const COMMANDS: &str = "crates/cli/src/commands/";
const TESTS: &str = "crates/cli/tests/it/";
/// Test files that belong to no single command.
const SHARED_TESTS: &[&str] = &[
    "hostile_bundle.rs",
    "ide_neovim.rs",
    "main.rs",
    "sdk_hosted.rs",
    "support.rs",
    "browser.rs",
    "channels.rs",
    "concurrent_edits.rs",
    "computer.rs",
    "demo_server.rs",
    "docs.rs",
    "embedding.rs",
    "fault_tolerance.rs",
    "hooks.rs",
    "hostile_plugins.rs",
    "hostile_registry.rs",
    "http_gateway.rs",
    "ide.rs",
    "json_output.rs",
    "login_flows.rs",
    "login_hostile.rs",
    "login_secrets.rs",
    "login_soak.rs",
    "login_support.rs",
    "malformed_files.rs",
    "print_sdk_options.rs",
    "process_cleanup.rs",
    "program_log.rs",
    "program_paths.rs",
    "real_servers.rs",
    "screen_calls.rs",
    "screen_conversation.rs",
    "screen_golden.rs",
    "screen_panel.rs",
    "screen_session.rs",
    "screen_start.rs",
    "sdk_python.rs",
    "sdk_scenarios.rs",
    "sdk_frames.rs",
    "sdk_protocol.rs",
    "sdk_support.rs",
    "sdk_typescript.rs",
    "secrets.rs",
    "serve_config.rs",
    "serve_isolation.rs",
    "serve_pool.rs",
    "sharing.rs",
    "serve_reconnect.rs",
    "serve_restart.rs",
    "serve_replicas.rs",
    "serve_roots.rs",
    "serve_tls.rs",
    "shared_host_walk.rs",
    "telemetry.rs",
    "ui_browser.rs",
    "ui_requests.rs",
    "terminal_prompts.rs",
    "terminal_safety.rs",
    "connectors.rs",
    "session_ingress.rs",
];

/// Finds commands without a test file and test files without a command.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let commands = names(tree, COMMANDS);
    let tests = names(tree, TESTS);
    let untested = commands.difference(&tests).map(|name| {
        let advice = format!("test the command in {TESTS}{name}");
        Finding::new(&format!("{COMMANDS}{name}"), 1, advice)
    });
    let orphaned =
        tests.difference(&commands).filter(|name| !SHARED_TESTS.contains(name)).map(|name| {
            let advice =
                format!("name it after the command it tests: {COMMANDS}{name} does not exist");
            Finding::new(&format!("{TESTS}{name}"), 1, advice)
        });
    untested.chain(orphaned).collect()
}

/// Files directly in the folder; deeper files are submodules of a command.
fn names<'a>(tree: &'a Tree, folder: &str) -> BTreeSet<&'a str> {
    let inside = tree.sources.iter().filter_map(|file| file.path.strip_prefix(folder));
    inside.filter(|name| !name.contains('/')).collect()
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    #[test]
    fn each_command_needs_a_test_file_and_each_test_file_a_command() {
        check(
            "command-tests",
            &[
                ("crates/cli/src/commands/add.rs", "//! A."),
                ("crates/cli/src/commands/list.rs", "//! A."),
                ("crates/cli/tests/it/list.rs", "//! A."),
                ("crates/cli/tests/it/remove.rs", "//! A."),
            ],
            &["crates/cli/src/commands/add.rs:1", "crates/cli/tests/it/remove.rs:1"],
        );
    }

    #[test]
    fn shared_test_files_and_submodules_of_commands_need_no_counterpart() {
        check(
            "command-tests",
            &[
                ("crates/cli/src/commands/list.rs", "//! A."),
                ("crates/cli/src/commands/list/table.rs", "//! A."),
                ("crates/cli/tests/it/list.rs", "//! A."),
                ("crates/cli/tests/it/main.rs", "//! A."),
                ("crates/cli/tests/it/secrets.rs", "//! A."),
                ("crates/cli/tests/it/support.rs", "//! A."),
            ],
            &[],
        );
    }
}
