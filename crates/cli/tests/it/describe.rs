//! `swb describe`.

use testkit::{Script, ScriptedProgram};

use crate::support::{USER, json, scene};

#[test]
fn a_tool_is_shown_in_full_and_only_its_server_is_started() {
    let scene = scene();
    let journal = scene.path("other.journal");
    let good = ScriptedProgram::config_entry(&Script::legacy().tools(1));
    let other = ScriptedProgram::config_entry(&Script::legacy().journal(&journal));
    scene.write_servers(USER, &format!(r#""s": {good}, "other": {other}"#));
    let ran = scene.swb(&["describe", "mcp__s__tool_0"]);
    insta::assert_snapshot!("described", ran.expect_success());
    assert_eq!(scene.swb(&["describe", "s/tool_0"]).expect_success(), ran.stdout);
    let json = json(&scene, &["describe", "s/tool_0", "--json"]);
    assert_eq!(json["name"], "mcp__s__tool_0");
    assert_eq!(json["inputSchema"]["properties"]["limit"]["type"], "integer");
    assert!(!journal.exists(), "the other server was started");
}

#[test]
fn what_is_missing_is_explained_as_for_a_call() {
    let scene = scene();
    let good = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(
        USER,
        &format!(r#""s": {good}, "gone": {{"command": "no-such-program-here"}}"#),
    );
    scene.write_servers(".mcp.json", r#""team": {"command": "x"}"#);
    let near = scene.swb(&["describe", "mcp__s__ecco"]);
    assert!(near.expect_failure(5).contains("did you mean `mcp__s__echo`?"), "{}", near.stderr);
    assert_eq!(scene.swb(&["describe", "mcp__gone__x"]).code, 9);
    assert_eq!(scene.swb(&["describe", "mcp__team__x"]).code, 7);
}
