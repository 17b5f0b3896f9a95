//! `swb get`.

use crate::support::{USER, scene};

#[test]
fn a_server_is_shown_in_full_without_its_secrets() {
    let scene = scene();
    scene.servers(
        USER,
        r#""api": {"type": "http", "url": "https://u:pw@api.example.com/mcp?key=k", "headers": {"Authorization": "Bearer s3cret", "X-Tenant": "${TENANT:-main}"},
  "oauth": {"clientId": "c1", "clientSecret": "cs", "callbackPort": 3118, "scopes": ["read", "write"]},
  "timeout": 5000, "tools": {"allow": ["search"], "deny": ["drop"]}, "trust": true, "description": "the API"}"#,
    );
    insta::assert_snapshot!(scene.swb(&["get", "api"]).shown());
    insta::assert_snapshot!("a_server_for_programs", scene.swb(&["get", "api", "--json"]).shown());
}

#[test]
fn every_definition_of_a_name_is_shown_the_winner_first() {
    let scene = scene();
    scene
        .servers(".mcp.json", r#""s": {"command": "x", "args": ["a b", "it's"], "cwd": "/srv"}"#)
        .servers(USER, r#""s": {"type": "ws", "url": "wss://h/"}"#);
    insta::assert_snapshot!(scene.swb(&["get", "s"]).shown());
}

#[test]
fn an_unknown_name_gets_the_nearest_one() {
    let scene = scene();
    insta::assert_snapshot!(scene.swb(&["get", "github"]).fails(5), @r"
    error: there is no server `github`

    hint: nothing is configured yet; `swb add` adds a server
    ");
    scene.servers(USER, r#""github": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["get", "githb"]).fails(5), @r"
    error: there is no server `githb`

    hint: did you mean `github`?
    ");
}

#[test]
fn of_a_bad_and_a_good_definition_the_good_one_comes_first_and_is_the_one_that_is_switched() {
    let scene = scene();
    scene
        .servers(".mcp.json", r#""s": {"command": 1}"#)
        .servers(USER, r#""s": {"command": "good"}"#);
    let json = crate::support::json(&scene, &["get", "s", "--json"]);
    assert_eq!(
        (&json["definitions"][0]["state"], &json["definitions"][1]["state"]),
        (&"ready".into(), &"invalid".into())
    );
    scene.swb(&["disable", "s"]).ok();
    assert!(scene.read(USER).contains("\"disabled\": true"), "{}", scene.read(USER));
}
