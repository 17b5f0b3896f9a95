//! `swb enable`.

use crate::support::{USER, scene, states};

#[test]
fn every_switch_that_holds_a_server_down_is_taken_back() {
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
fn a_server_that_is_on_stays_as_it_is() {
    let scene = scene();
    scene.write_servers(USER, r#""a": {"command": "x"}"#);
    let before = scene.read(USER);
    assert_eq!(scene.swb(&["enable", "a"]).expect_success(), "`a` is not disabled\n");
    assert_eq!(scene.read(USER), before);
    scene.swb(&["enable", "none"]).expect_failure(5);
}

#[test]
fn what_the_project_switches_off_above_stays_off_and_it_is_said() {
    let scene = scene();
    scene.write_servers("~/.mcp.json", r#""a": {"command": "x", "disabled": true}"#);
    assert_eq!(
        scene.swb(&["enable", "a"]).expect_success(),
        "`a` is still disabled where it is defined\n"
    );
}
