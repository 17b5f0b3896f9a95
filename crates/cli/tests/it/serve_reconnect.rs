//! `swb serve --pool`: calls of tools whose server died, cannot start, or takes too long.

use serde_json::{Value as Json, json};
use testkit::{Script, ScriptedProgram, scripted};

use crate::serve::StdioClient;
use crate::serve_pool::{TOOLS_CHANGED, listed_names, next_message};
use crate::support::{USER, scene};

/// Reads until the news comes that tools changed.
fn await_tools_changed(raw: &mut StdioClient) {
    while next_message(raw)["method"] != TOOLS_CHANGED {}
}

/// The whole answer, past news that came meanwhile.
fn call_response(raw: &mut StdioClient, tool: &str, arguments: Json) -> Json {
    raw.send_request("tools/call", json!({"name": tool, "arguments": arguments}));
    loop {
        let message = next_message(raw);
        if message["id"] == raw.last_id {
            return message;
        }
    }
}

#[test]
fn a_call_of_a_tool_whose_server_just_died_has_it_connected_again() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"one\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    assert!(listed_names(&mut raw, "tools/list", "tools").contains(&"mcp__one__echo".to_owned()));
    raw.send_request("tools/call", json!({"name": "mcp__one__crash", "arguments": {}}));
    await_tools_changed(&mut raw);
    let answer = call_response(&mut raw, "mcp__one__echo", json!({"text": "again"}));
    assert_eq!(answer["result"]["content"][0]["text"], "again", "{answer}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn a_call_of_a_tool_whose_server_cannot_be_had_any_more_is_told_why() {
    let scene = scene();
    let program = scene.path("~/server");
    std::os::unix::fs::symlink(scripted::program(), &program).expect("a link");
    let entry = json!({"command": program, "args": [Script::legacy().to_json()]});
    scene.write_servers(USER, &format!("\"one\": {entry}"));
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    assert!(listed_names(&mut raw, "tools/list", "tools").contains(&"mcp__one__echo".to_owned()));
    std::fs::remove_file(&program).expect("it is there");
    raw.send_request("tools/call", json!({"name": "mcp__one__crash", "arguments": {}}));
    await_tools_changed(&mut raw);
    let answer = call_response(&mut raw, "mcp__one__echo", json!({"text": "again"}));
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(said.starts_with("`one` is not connected: "), "{answer}");
    assert!(said.contains("was not found"), "{answer}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn a_call_that_is_denied_wakes_no_server_and_is_told_nothing_of_it() {
    let scene = scene();
    let program = scene.path("~/server");
    std::os::unix::fs::symlink(scripted::program(), &program).expect("a link");
    let entry = json!({"command": program, "args": [Script::legacy().to_json()]});
    let denied = json!({"deny": ["mcp__one__echo"]});
    let settings = json!({"permissions": denied, "mcpServers": {"one": entry}});
    scene.write(USER, &settings.to_string());
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    assert!(listed_names(&mut raw, "tools/list", "tools").contains(&"mcp__one__crash".to_owned()));
    std::fs::remove_file(&program).expect("it is there");
    raw.send_request("tools/call", json!({"name": "mcp__one__crash", "arguments": {}}));
    await_tools_changed(&mut raw);
    let answer = call_response(&mut raw, "mcp__one__echo", json!({"text": "again"}));
    assert_eq!(answer["error"]["message"], "there is no tool `mcp__one__echo`", "{answer}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn the_timeout_of_an_entry_holds_for_its_calls() {
    let scene = scene();
    let entry = json!({
        "command": scripted::program(), "args": [Script::legacy().to_json()], "timeout": 1500,
    });
    scene.write_servers(USER, &format!("\"one\": {entry}"));
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    assert!(listed_names(&mut raw, "tools/list", "tools").contains(&"mcp__one__slow".to_owned()));
    let answer = call_response(&mut raw, "mcp__one__slow", json!({"ms": 60_000, "steps": 1}));
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(said, "`one` did not answer within 1.5 s", "{answer}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}
