//! `swb enable`.

use crate::support::{USER, scene, states};

#[test]
fn enable_removes_every_setting_that_disables_the_server() {
    let scene = scene();
    scene.write(USER, "{\n  \"disabledMcpServers\": [\"a\", \"b\"], // off\n  \"mcpServers\": {\"a\": {\"command\": \"x\", \"disabled\": true}, \"b\": {\"command\": \"x\"}}\n}\n");
    insta::assert_snapshot!(scene.swb(&["enable", "a"]).expect_success(), @"`a` is enabled again in ~/.config/switchboard/settings.json: ready to start");
    assert_eq!(states(&scene, &[]), ["a user ready", "b user disabled"]);
    assert_eq!(
        scene.read(USER),
        "{\n  \"disabledMcpServers\": [\"b\"], // off\n  \"mcpServers\": {\"a\": {\"command\": \"x\"}, \"b\": {\"command\": \"x\"}}\n}\n"
    );
}

#[test]
fn enabling_an_enabled_server_changes_nothing() {
    let scene = scene();
    scene.write_servers(USER, r#""a": {"command": "x"}"#);
    let before = scene.read(USER);
    assert_eq!(scene.swb(&["enable", "a"]).expect_success(), "`a` is not disabled\n");
    assert_eq!(scene.read(USER), before);
    scene.swb(&["enable", "none"]).expect_failure(5);
}

#[test]
fn a_server_that_its_definition_disables_stays_disabled_with_a_note() {
    let scene = scene();
    scene.write_servers("~/.mcp.json", r#""a": {"command": "x", "disabled": true}"#);
    assert_eq!(
        scene.swb(&["enable", "a"]).expect_success(),
        "`a` is still disabled where it is defined\n"
    );
}
