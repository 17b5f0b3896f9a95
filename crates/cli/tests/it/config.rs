//! `swb config`.

use crate::support::{USER, scene};

#[test]
fn explain_shows_every_place_and_why_one_definition_wins() {
    let scene = scene();
    scene
        .write_servers(".mcp.json", r#""s": {"command": "project"}"#)
        .write_servers("~/.mcp.json", r#""s": {"command": "above"}"#)
        .write_servers(USER, r#""s": {"command": "user"}"#);
    scene.swb(&["add", "s", "--", "local"]).expect_success();
    insta::assert_snapshot!(scene.swb(&["config", "explain", "s"]).to_snapshot());
    insta::assert_snapshot!(
        "explain_for_programs",
        scene.swb(&["config", "explain", "s", "--json"]).to_snapshot()
    );
    scene.swb(&["config", "explain"]).expect_success();
    scene.swb(&["config", "explain", "none"]).expect_failure(5);
}

#[test]
fn check_fails_on_errors_and_not_on_warnings() {
    let scene = scene();
    scene.write_servers(USER, r#""a": {"command": "x", "typo": 1}"#);
    insta::assert_snapshot!(scene.swb(&["config", "check"]).to_snapshot());
    scene.write_servers(".mcp.json", r#""b": {"command": 1}"#);
    let ran = scene.swb(&["config", "check"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, "2 servers in 2 places: 1 error, 1 warning\n"));
    assert_eq!(scene.swb(&["config", "check", "--json"]).code, 3);
}

#[test]
fn named_secrets_are_fetched_on_request_and_never_shown() {
    let scene = scene();
    scene.write("~/token", "canary-from-file\n").write_servers(
        USER,
        r#""ok": {"command": "x", "env": {"A": "${file:~/token}", "B": "${cmd:printf canary%s -from-command}"}},
           "broken": {"type": "http", "url": "https://h/", "headers": {"A": "Bearer ${file:~/none}", "B": "${cmd:exit 3}"}},
           "off": {"command": "x", "env": {"A": "${cmd:touch ran}"}, "disabled": true}"#,
    );
    let ran = scene.swb(&["config", "check", "--secrets"]);
    insta::assert_snapshot!(ran.to_snapshot());
    assert!(!ran.to_snapshot().contains("canary-from"), "{}", ran.to_snapshot());
    assert!(!scene.path("ran").exists());
    assert_eq!(scene.swb(&["config", "check"]).code, 0);
}

#[test]
fn the_keychain_is_read_with_the_platforms_tool() {
    let mut scene = scene();
    scene.write("~/bin/secret-tool", "#!/bin/sh\n[ \"$*\" = 'lookup service switchboard name github' ] && echo canary-from-keychain\n");
    let tool = scene.path("~/bin/secret-tool");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("rights");
    let path =
        format!("{}:{}", scene.path("~/bin").display(), std::env::var("PATH").expect("a path"));
    scene.set_env("PATH", &path).write_servers(
        USER,
        r#""a": {"command": "x", "env": {"K": "${keychain:github}", "L": "${keychain:other}"}}"#,
    );
    insta::assert_snapshot!(scene.swb(&["config", "check", "--secrets"]).to_snapshot(), @r"
    exit: 3
    --- stdout
    1 server in 1 place: 0 errors, 0 warnings
    `a`: ${keychain:github} is available
    `a`: ${keychain:other} is not available: the command ended with exit status: 1
    ");
}

#[test]
fn read_only_commands_fetch_run_and_connect_to_nothing() {
    let scene = scene();
    scene
        .write_servers(
            USER,
            r#""a": {"command": "touch", "args": ["ran"], "env": {"A": "${cmd:touch ran}"}}"#,
        )
        .write_servers(".mcp.json", r#""p": {"command": "touch", "args": ["ran"]}"#);
    for arguments in [
        &["list"][..],
        &["list", "--all", "--json"],
        &["get", "a"],
        &["get", "p"],
        &["config", "explain", "a"],
        &["config", "check"],
        &["policy", "why", "a"],
        &[],
    ] {
        scene.swb(arguments);
    }
    assert!(!scene.path("ran").exists() && !scene.path("~/ran").exists());
}

#[test]
fn a_default_that_is_not_used_is_not_fetched() {
    let mut scene = scene();
    scene.set_env("TOKEN", "set").write_servers(
        USER,
        r#""a": {"command": "x", "env": {"A": "${TOKEN:-${cmd:touch ran}}"}}"#,
    );
    scene.swb(&["config", "check", "--secrets"]).expect_success();
    assert!(!scene.path("ran").exists());
}
