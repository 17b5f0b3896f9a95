//! `swb list`.

use crate::support::{USER, local_settings, scene, states};

#[test]
fn an_empty_configuration_lists_the_searched_places() {
    insta::assert_snapshot!(scene().swb(&["list"]).to_snapshot());
}

#[test]
fn every_scope_is_found_and_the_highest_wins() {
    let scene = scene();
    scene
        .write_servers(".mcp.json", r#""a": {"command": "project"}"#)
        .write_servers("~/.mcp.json", r#""a": {"command": "above"}, "b": {"command": "above"}"#)
        .write_servers(
            USER,
            r#""a": {"command": "user"}, "c": {"type": "http", "url": "https://h.example/mcp"}"#,
        )
        .write_servers(
            "~/.local/share/switchboard/plugins/tools/.mcp.json",
            r#""a": {"command": "plugin"}"#,
        );
    scene.swb(&["add", "a", "--", "local"]).expect_success();
    scene.swb(&["approve", "--all"]).expect_success();
    let inline = r#"{"mcpServers": {"d": {"command": "inline"}}}"#;
    insta::assert_snapshot!(scene.swb(&["list", "--all", "--mcp-config", inline]).to_snapshot());
    assert_eq!(
        states(&scene, &["--mcp-config", r#"{"mcpServers": {"a": {"command": "dynamic"}}}"#]),
        [
            "a dynamic ready",
            "a project shadowed",
            "a project shadowed",
            "a local shadowed",
            "a user shadowed",
            "b project ready",
            "c user ready",
            "plugin:tools:a plugin ready",
        ]
    );
}

#[test]
fn the_list_as_json() {
    let scene = scene();
    scene
        .write_servers(".mcp.json", r#""p": {"command": "x", "env": {"K": "${NOT_SET}"}}"#)
        .write_servers(USER, r#""bad": {"command": 1}"#);
    insta::assert_snapshot!(scene.swb(&["list", "--json"]).to_snapshot());
}

#[test]
fn one_bad_entry_never_hides_the_good_ones_and_each_error_shows_its_line() {
    let scene = scene();
    scene.write_servers(
        USER,
        "    \"good\": {\"command\": \"x\"},\n    \"types\": {\"command\": \"x\", \"args\": \"-y\"},\n    \"both\": {\"command\": \"x\", \"url\": \"https://h/\"},\n    \"kind\": {\"type\": \"HTTP\", \"url\": \"https://h/\"},\n    \"browser\": {\"command\": \"x\"},\n    \"a__b\": {\"command\": \"x\"},\n    \"typo\": {\"command\": \"x\", \"arg\": []}",
    );
    insta::assert_snapshot!(scene.swb(&["list"]).to_snapshot());
}

#[test]
fn a_required_server_must_be_ready() {
    let scene = scene();
    scene
        .write_servers(".mcp.json", r#""p": {"command": "x"}"#)
        .write_servers(USER, r#""u": {"command": "x"}"#);
    scene.swb(&["list", "--require", "u"]).expect_success();
    insta::assert_snapshot!(scene.swb(&["list", "--require", "p"]).expect_failure(7), @r"
    error: the required server `p` is not ready: pending approval

    hint: servers of a project run only after you approve them: swb approve p
    ");
    insta::assert_snapshot!(scene.swb(&["list", "--require", "absent"]).expect_failure(7), @r"
    error: the required server `absent` is not configured

    hint: the configured servers are `p`, `u`
    ");
}

#[test]
fn strict_uses_only_the_given_configuration() {
    let scene = scene();
    scene
        .write_servers(USER, r#""u": {"command": "x"}"#)
        .write_servers("extra.json", r#""e": {"command": "x"}"#);
    assert_eq!(
        states(&scene, &["--mcp-config", "extra.json", "--strict-mcp-config"]),
        ["e dynamic ready", "u user left-out"]
    );
}

#[test]
fn of_several_mcp_configs_the_last_wins() {
    let scene = scene();
    scene
        .write_servers("one.json", r#""s": {"command": "one"}"#)
        .write_servers("two.json", r#""s": {"command": "two"}"#);
    let ran = scene.swb(&["list", "--mcp-config", "one.json", "--mcp-config", "two.json"]);
    assert!(
        ran.expect_success().contains("two.json:2") && !ran.stdout.contains("one.json"),
        "{}",
        ran.to_snapshot()
    );
}

#[test]
fn an_mcp_config_that_cannot_be_read_is_an_error() {
    let scene = scene();
    insta::assert_snapshot!(scene.swb(&["list", "--mcp-config", "none.json"]).expect_failure(3), @r"
    error: --mcp-config cannot be used
    error: does not exist
      --> none.json
    ");
    insta::assert_snapshot!(scene.swb(&["list", "--mcp-config", "{\"mcpServers\": [}"]).expect_failure(3), @r#"
    error: --mcp-config cannot be used
    error: not valid JSON: unexpected close brace
      --> --mcp-config #1:1:17
       1 | {"mcpServers": [}
         |                 ^
    "#);
}

#[test]
fn every_command_also_works_below_mcp() {
    let scene = scene();
    scene.write_servers(USER, r#""u": {"command": "x"}"#);
    assert_eq!(scene.swb(&["mcp", "list"]), scene.swb(&["list"]));
    assert_eq!(scene.swb(&["mcp", "get", "u"]), scene.swb(&["get", "u"]));
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let scene = scene();
    let many: Vec<String> =
        (0..2000).map(|n| format!("\"s{n}\": {{\"command\": \"x\"}}")).collect();
    scene.write_servers(USER, &many.join(",\n"));
    let script = "\"$0\" list | head -n 1; exit ${PIPESTATUS[0]}";
    let output = scene
        .command(&scene.project(), &[])
        .get_envs()
        .fold(
            std::process::Command::new("bash").env_clear(),
            |command, (name, value)| match value {
                Some(value) => command.env(name, value),
                None => command,
            },
        )
        .current_dir(scene.project())
        .args(["-c", script])
        .arg(crate::support::program())
        .output()
        .expect("bash can be run");
    let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
    assert!(ran.expect_success().starts_with("NAME"), "{}", ran.to_snapshot());
    assert_eq!(ran.stderr, "");
}

#[test]
fn duplicates_by_content_are_hidden_and_explained() {
    let scene = scene();
    scene
        .write_servers(USER, r#""mine": {"command": "db", "args": ["1"]}"#)
        .write_servers(
            "~/.local/share/switchboard/plugins/one/.mcp.json",
            r#""twin": {"command": "db", "args": ["1"]}"#,
        )
        .write(
            "~/.local/share/switchboard/plugins/two/.mcp.json",
            r#"{"own": {"command": "${CLAUDE_PLUGIN_ROOT}/run"}}"#,
        );
    insta::assert_snapshot!(scene.swb(&["list", "--all"]).to_snapshot());
    let switched_off = r#""mine": {"command": "db", "args": ["1"], "disabled": true}"#;
    scene.write_servers(USER, switched_off);
    assert_eq!(states(&scene, &[])[1], "plugin:one:twin plugin ready");
    assert!(local_settings(&scene).starts_with(scene.home()));
}

#[test]
fn ls_is_list_and_restart_is_reconnect() {
    let scene = scene();
    scene.write_servers(USER, r#""s": {"command": "x"}"#);
    assert_eq!(scene.swb(&["ls"]), scene.swb(&["list"]));
    assert_eq!(scene.swb(&["restart", "s"]), scene.swb(&["reconnect", "s"]));
}
