//! `swb tools`.

use serde_json::json;
use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer};

use crate::support::{USER, json as json_of, scene};

#[test]
fn every_tool_has_the_name_that_a_model_would_see() {
    let scene = scene();
    let remote = ScriptedServer::http(Script::modern().tools(1));
    let local = ScriptedProgram::config_entry(&Script::legacy().tools(1));
    scene.write_servers(
        USER,
        &format!(r#""local": {local}, "far-away": {{"type": "http", "url": "{}"}}"#, remote.url()),
    );
    let list = json_of(&scene, &["tools", "--json"]);
    let tools = list["tools"].as_array().expect("a list");
    let names: Vec<&str> = tools.iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(
        names.contains(&"mcp__local__echo") && names.contains(&"mcp__far-away__echo"),
        "{names:?}"
    );
    let echo = tools.iter().find(|it| it["name"] == "mcp__local__echo").expect("it is there");
    assert_eq!((&echo["server"], &echo["tool"]), (&json!("local"), &json!("echo")));
    assert_eq!(echo["inputSchema"]["type"], "object");
    let ours = tools.iter().find(|it| it["name"] == "ListMcpResources").expect("it is there");
    assert_eq!((&ours["server"], &ours["deferred"]), (&json!(null), &json!(true)));
    assert_eq!(echo["deferred"], false);
    let text = scene.swb(&["tools", "local"]);
    assert!(
        text.expect_success().contains("mcp__local__add") && !text.stdout.contains("far-away"),
        "{}",
        text.to_snapshot()
    );
}

#[test]
fn filters_and_unconditional_denials_take_tools_out_and_bad_ones_are_named() {
    let scene = scene();
    let bad = ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::BadToolSchema));
    let mut entry: serde_json::Value =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    entry["tools"] = json!({"allow": ["echo", "add", "fail"], "deny": ["fail"]});
    let settings = format!(
        r#"{{"permissions": {{"deny": ["mcp__some__add", "mcp__some__echo(text=no)"]}}, "mcpServers": {{"some": {entry}, "bad": {bad}}}}}"#
    );
    scene.write(USER, &settings);
    let some = json_of(&scene, &["tools", "some", "--json"]);
    let names: Vec<&str> = some["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["tool"].as_str())
        .collect();
    assert_eq!(names, ["echo"]);
    let ran = scene.swb(&["tools", "bad"]);
    assert!(
        ran.expect_success().contains("mcp__bad__echo") && ran.stderr.contains("left out"),
        "{}",
        ran.to_snapshot()
    );
}
