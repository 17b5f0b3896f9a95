//! `swb disable`.

use crate::support::{USER, local_settings, scene, states};

#[test]
fn a_users_own_entry_is_disabled_in_place() {
    let scene = scene();
    scene.write_servers(USER, r#""a": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["disable", "a"]).expect_success(), @"`a` is disabled in ~/.config/switchboard/settings.json");
    assert!(
        scene.read(USER).contains("\"a\": {\"command\": \"x\", \"disabled\": true}"),
        "{}",
        scene.read(USER)
    );
    assert_eq!(states(&scene, &[]), ["a user disabled"]);
}

#[test]
fn a_project_or_plugin_server_is_disabled_for_this_user_only() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""a": {"command": "x"}"#).write_servers(
        "~/.local/share/switchboard/plugins/p/.mcp.json",
        r#""s": {"command": "y"}"#,
    );
    let before = scene.read(".mcp.json");
    scene.swb(&["disable", "a"]).expect_success();
    scene.swb(&["disable", "plugin:p:s", "--scope", "user"]).expect_success();
    assert_eq!(scene.read(".mcp.json"), before);
    assert_eq!(states(&scene, &[]), ["a project disabled", "plugin:p:s plugin disabled"]);
    let local = std::fs::read_to_string(local_settings(&scene)).expect("it was written");
    assert!(local.contains("\"disabledMcpServers\": [\"a\"]"), "{local}");
    assert!(scene.read(USER).contains("\"disabledMcpServers\": [\"plugin:p:s\"]"));
    scene.swb(&["enable", "a"]).expect_success();
    assert_eq!(states(&scene, &[])[0], "a project pending");
}

#[test]
fn with_the_project_scope_it_is_disabled_for_all_users() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""a": {"command": "x"}"#);
    scene.swb(&["disable", "a", "--scope", "project"]).expect_success();
    assert!(scene.read(".mcp.json").contains("\"disabled\": true"));
}

#[test]
fn disabling_keeps_the_approval() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""a": {"command": "x"}"#);
    scene.swb(&["approve", "a"]).expect_success();
    scene.swb(&["disable", "a", "--scope", "project"]).expect_success();
    scene.swb(&["enable", "a"]).expect_success();
    assert_eq!(states(&scene, &[]), ["a project ready"]);
}
