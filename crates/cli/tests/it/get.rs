//! `swb get`.

use crate::support::{USER, scene};

#[test]
fn a_server_is_shown_in_full_without_its_secrets() {
    let scene = scene();
    scene.write_servers(
        USER,
        r#""api": {"type": "http", "url": "https://u:pw@api.example.com/mcp?key=k", "headers": {"Authorization": "Bearer s3cret", "X-Tenant": "${TENANT:-main}"},
  "oauth": {"clientId": "c1", "clientSecret": "cs", "callbackPort": 3118, "scopes": ["read", "write"]},
  "timeout": 5000, "tools": {"allow": ["search"], "deny": ["drop"]}, "trust": true, "description": "the API"}"#,
    );
    insta::assert_snapshot!(scene.swb(&["get", "api"]).to_snapshot());
    insta::assert_snapshot!(
        "a_server_for_programs",
        scene.swb(&["get", "api", "--json"]).to_snapshot()
    );
}

#[test]
fn every_definition_of_a_name_is_shown_the_winner_first() {
    let scene = scene();
    scene
        .write_servers(
            ".mcp.json",
            r#""s": {"command": "x", "args": ["a b", "it's"], "cwd": "/srv"}"#,
        )
        .write_servers(USER, r#""s": {"type": "ws", "url": "wss://h/"}"#);
    insta::assert_snapshot!(scene.swb(&["get", "s"]).to_snapshot());
}

#[test]
fn an_unknown_name_gets_the_nearest_one() {
    let scene = scene();
    insta::assert_snapshot!(scene.swb(&["get", "github"]).expect_failure(5), @r"
    error: there is no server `github`

    hint: no servers are configured yet; `swb add` adds a server
    ");
    scene.write_servers(USER, r#""github": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["get", "githb"]).expect_failure(5), @r"
    error: there is no server `githb`

    hint: did you mean `github`?
    ");
    scene.write_servers(USER, r#""github": {"command": "x"}, "files": {"command": "y"}"#);
    insta::assert_snapshot!(scene.swb(&["get", "githb"]).expect_failure(5), @r"
    error: there is no server `githb`

    hint: did you mean `github`? The configured servers are `files`, `github`
    ");
    let many: Vec<String> =
        (0..12).map(|at| format!(r#""s{at:02}": {{"command": "x"}}"#)).collect();
    scene.write_servers(USER, &many.join(", "));
    insta::assert_snapshot!(scene.swb(&["get", "unlike"]).expect_failure(5), @r"
    error: there is no server `unlike`

    hint: the configured servers are `s00`, `s01`, `s02`, `s03`, `s04`, `s05`, `s06`, `s07`, `s08`, `s09` and 2 more: `swb list --all`
    ");
}

#[test]
fn a_valid_definition_precedes_an_invalid_one_and_is_the_one_that_is_disabled() {
    let scene = scene();
    scene
        .write_servers(".mcp.json", r#""s": {"command": 1}"#)
        .write_servers(USER, r#""s": {"command": "good"}"#);
    let json = crate::support::json(&scene, &["get", "s", "--json"]);
    assert_eq!(
        (&json["definitions"][0]["state"], &json["definitions"][1]["state"]),
        (&"ready".into(), &"invalid".into())
    );
    scene.swb(&["disable", "s"]).expect_success();
    assert!(scene.read(USER).contains("\"disabled\": true"), "{}", scene.read(USER));
}
