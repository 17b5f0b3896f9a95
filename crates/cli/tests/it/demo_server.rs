//! The built-in server `demo`: available to every command while no server is configured, and only then.

use std::path::Path;

use serde_json::json;
use testkit::{Script, ScriptedProgram};

use crate::status::Watch;
use crate::support::{USER, json as json_of, scene, states};

#[test]
fn every_command_works_on_it_at_once() {
    let scene = scene();
    assert_eq!(states(&scene, &[]), ["demo dynamic ready"]);
    let status = json_of(&scene, &["status", "--json"]);
    let server = &status["servers"][0];
    assert_eq!(
        (&server["name"], &server["state"]),
        (&json!("demo"), &json!("connected")),
        "{status}"
    );
    assert!(scene.swb(&["tools"]).expect_success().contains("mcp__demo__echo"));
    assert!(scene.swb(&["search", "picture"]).expect_success().contains("mcp__demo__draw_clock"));
    assert!(scene.swb(&["ping", "demo"]).expect_success().contains("demo"));
    assert!(scene.swb(&["doctor"]).expect_success().contains("1 server, no problems."));
    assert!(scene.swb(&["get", "demo"]).expect_success().contains("built into swb"));
    assert!(scene.swb(&["prompts"]).expect_success().contains("write_about"));
    let said = scene.swb(&["prompt", "demo", "write_about", "topic=tea", "tone=funny"]);
    assert!(
        said.expect_success().contains("Write five lines about tea, in a funny tone."),
        "{}",
        said.to_snapshot()
    );
    let call = |words: &[&str]| {
        let words = [&["call"], words, &["--mode", "acceptEdits"]].concat();
        scene.swb(&words).expect_success().to_owned()
    };
    assert_eq!(call(&["mcp__demo__echo", "text=hello"]), "hello\n");
    assert_eq!(call(&["mcp__demo__draw_clock", "hour:=10", "minute:=8"]), "[image/png, 160×160]\n");
    assert!(call(&["mcp__demo__now"]).ends_with("Z\n"));
}

#[test]
fn the_picture_of_the_demo_server_is_an_image_block() {
    let words =
        ["call", "mcp__demo__draw_clock", "hour:=1", "minute:=2", "--json", "--mode", "bypass"];
    let drawn = json_of(&scene(), &words);
    let picture = &drawn["content"][0];
    assert_eq!((&picture["type"], &picture["width"]), (&json!("image"), &json!(160)), "{picture}");
    assert_eq!(drawn["notes"], json!([]));
}

#[test]
fn one_command_sees_the_notes_of_the_one_before() {
    let scene = scene();
    let call = |words: &[&str]| {
        let words = [&["call"], words, &["--mode", "bypass"]].concat();
        scene.swb(&words).expect_success().to_owned()
    };
    assert_eq!(
        call(&["mcp__demo__add_note", "text=Buy tea"]),
        "Note 1 is written down.\n[resource note://1]\n"
    );
    assert!(scene.swb(&["resources"]).expect_success().contains("note://1"));
    assert_eq!(scene.swb(&["read", "demo", "note://1"]).expect_success(), "Buy tea\n");
    assert_eq!(call(&["mcp__demo__delete_note", "id:=1"]), "Note 1 is gone: Buy tea\n");
    assert_eq!(call(&["mcp__demo__list_notes"]), "There are no notes.\n");
    let folder = scene.path("~/.local/share/switchboard/demonstration");
    assert!(Path::new(&folder).join("notes.json").is_file());
}

#[test]
fn the_demo_server_needs_permission_and_elicits_like_any_server() {
    let scene = scene();
    let refused = scene.swb(&["call", "mcp__demo__echo", "text=x"]);
    assert!(refused.expect_failure(4).contains("mcp__demo__echo"), "{}", refused.to_snapshot());
    let booked = scene.swb(&["call", "mcp__demo__book_table", "--mode", "bypass"]);
    assert_eq!(booked.expect_success(), "No table was booked: you declined.\n");
}

#[test]
fn the_demo_server_disappears_with_the_first_server_and_returns_after_the_last() {
    let scene = scene();
    let added = scene.swb(&["add", "demo", "--", "own"]);
    assert!(
        !added.expect_success().contains("wins") && added.stderr.is_empty(),
        "{}",
        added.to_snapshot()
    );
    assert_eq!(states(&scene, &[]), ["demo local ready"]);
    scene.swb(&["remove", "demo"]).expect_success();
    assert_eq!(states(&scene, &[]), ["demo dynamic ready"]);
    let missing = scene.swb(&["remove", "demo"]);
    insta::assert_snapshot!(missing.expect_failure(5), @r"
    error: there is no server `demo`

    hint: it exists only while no server is configured
    ");
    scene.write_servers(".mcp.json", r#""theirs": {"command": "x"}"#);
    assert_eq!(states(&scene, &[]), ["theirs project pending"]);
}

#[test]
fn the_demo_server_can_be_disabled_and_enabled() {
    let scene = scene();
    scene.swb(&["disable", "demo"]).expect_success();
    assert_eq!(states(&scene, &[]), ["demo dynamic disabled"]);
    assert!(scene.swb(&[]).expect_success().contains("disabled"));
    scene.swb(&["enable", "demo"]).expect_success();
    assert_eq!(states(&scene, &[]), ["demo dynamic ready"]);
}

#[test]
fn the_demo_server_is_absent_where_servers_are_configured_or_restricted() {
    let nothing = [""; 0];
    assert_eq!(states(&scene(), &["--strict-mcp-config"]), nothing);
    assert_eq!(states(&scene(), &["--mcp-config", r#"{"mcpServers": {}}"#]), nothing);
    for (place, text) in [
        (USER, r#"{"deniedMcpServers": [{"serverName": "demo"}]}"#),
        ("managed/managed-settings.json", r#"{"allowedMcpServers": []}"#),
        ("managed/managed-mcp.json", r#"{"mcpServers": {}}"#),
        (".mcp.json", "{ broken"),
    ] {
        let scene = scene();
        scene.write(place, text);
        let listed = json_of(&scene, &["list", "--all", "--json"]);
        assert_eq!(listed["servers"], json!([]), "{place}: {text}");
        let alone = scene.swb(&[]);
        assert!(!alone.stdout.contains("built in"), "{}", alone.to_snapshot());
    }
    // Permission rules alone do not count as configuring a server.
    let scene = scene();
    scene.write(USER, r#"{"permissions": {"allow": ["mcp__demo"]}}"#);
    assert_eq!(scene.swb(&["call", "mcp__demo__echo", "text=x"]).expect_success(), "x\n");
}

#[test]
fn a_watch_stops_the_demo_server_when_a_server_is_added() {
    let scene = scene();
    let watch = Watch::start(&scene);
    let is = |name: &'static str, state: &'static str| {
        move |line: &serde_json::Value| line["name"] == name && line["state"] == state
    };
    watch.wait_for("the demonstration is connected", is("demo", "connected"));
    scene.write_servers(
        USER,
        &format!("\"one\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    watch.wait_for("it is gone", is("demo", "removed"));
    watch.wait_for("the other is there", is("one", "connected"));
    assert_eq!(watch.interrupt(), Some(0));
}
