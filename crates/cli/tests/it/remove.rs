//! `swb remove`.

use crate::support::{USER, scene, states};

#[test]
fn a_server_is_removed_from_the_one_scope_that_has_it() {
    let scene = scene();
    scene.write(USER, "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"}, // stays\n    \"b\": {\"command\": \"b\"} // goes\n  }\n}\n");
    insta::assert_snapshot!(scene.swb(&["remove", "b"]).expect_success(), @"Removed `b` from the user scope (you, in every project): ~/.config/switchboard/settings.json");
    assert_eq!(
        scene.read(USER),
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"} // stays\n  }\n}\n"
    );
}

#[test]
fn a_name_in_several_scopes_asks_the_user_for_one() {
    let scene = scene();
    scene
        .write_servers(USER, r#""s": {"command": "x"}"#)
        .write_servers(".mcp.json", r#""s": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["remove", "s"]).expect_failure(6), @r"
    error: `s` is defined in 2 scopes; choose one
      swb remove s --scope project  # .mcp.json
      swb remove s --scope user     # ~/.config/switchboard/settings.json
    ");
    let ran = scene.swb(&["remove", "s", "--scope", "project"]);
    assert_eq!(
        ran.stderr,
        "note: `s` of the user scope (~/.config/switchboard/settings.json:2) is used now\n"
    );
    assert_eq!(states(&scene, &[]), ["s user ready"]);
    insta::assert_snapshot!(scene.swb(&["remove", "s", "--scope", "local"]).expect_failure(5), @r"
    error: the local scope has no server `s`

    hint: it is defined in: user (~/.config/switchboard/settings.json:2)
    ");
}

#[test]
fn a_server_of_a_plugin_or_of_a_folder_above_cannot_be_removed() {
    let scene = scene();
    scene
        .write_servers("~/.local/share/switchboard/plugins/p/.mcp.json", r#""s": {"command": "x"}"#)
        .write_servers("~/.mcp.json", r#""above": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["remove", "plugin:p:s"]).expect_failure(6), @r"
    error: `plugin:p:s` cannot be removed from ~/.local/share/switchboard/plugins/p/.mcp.json:2

    hint: a plugin provides it; `swb disable` disables it
    ");
    insta::assert_snapshot!(scene.swb(&["remove", "above"]).expect_failure(6), @r"
    error: `above` cannot be removed from ~/.mcp.json:2

    hint: it is defined above this project; remove it there
    ");
    let ran =
        scene.swb(&["remove", "d", "--mcp-config", r#"{"mcpServers": {"d": {"command": "x"}}}"#]);
    assert!(ran.expect_failure(6).contains("it comes from --mcp-config"), "{}", ran.to_snapshot());
    scene.swb(&["remove", "nothing"]).expect_failure(5);
}

#[test]
fn an_invalid_server_can_still_be_removed() {
    let scene = scene();
    scene.write_servers(USER, r#""bad name": {"command": 1}, "good": {"command": "x"}"#);
    scene.swb(&["remove", "bad name"]).expect_success();
    assert_eq!(states(&scene, &[]), ["good user ready"]);
}

#[test]
fn a_projects_server_is_removed_from_the_file_that_defines_it() {
    let scene = scene();
    scene
        .write_servers(".mcp.json", r#""outer": {"command": "x"}"#)
        .write_servers("sub/.mcp.json", r#""inner": {"command": "x"}"#);
    let deep = scene.project().join("sub");
    scene.swb_in(&deep, &["disable", "outer", "--scope", "project"]).expect_success();
    assert!(scene.read(".mcp.json").contains("\"disabled\": true"));
    scene.swb_in(&deep, &["remove", "outer"]).expect_success();
    assert!(
        !scene.read(".mcp.json").contains("outer") && scene.read("sub/.mcp.json").contains("inner")
    );
}

#[test]
fn a_doubled_server_is_gone_after_one_remove() {
    let scene = scene();
    scene.write_servers(USER, r#""a": {"command": "old"}, "a": {"command": "new"}"#);
    scene.swb(&["remove", "a"]).expect_success();
    assert_eq!(states(&scene, &["--strict-mcp-config"]), [""; 0]);
    assert_eq!(states(&scene, &[]), ["demo dynamic ready"]);
}
