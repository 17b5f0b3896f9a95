//! `swb serve --pool`: calls of tools whose server is not connected yet, crashed, cannot start, or times out.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use testkit::{Sandbox, Script, ScriptedProgram, scripted};

use crate::serve::StdioClient;
use crate::serve_pool::{TOOLS_CHANGED, listed_names, next_message};
use crate::support::{USER, scene};

/// Reads until `notifications/tools/list_changed` arrives.
fn await_tools_changed(raw: &mut StdioClient) {
    while next_message(raw)["method"] != TOOLS_CHANGED {}
}

/// The response. Notifications that arrive before it are skipped.
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
fn a_call_to_a_server_that_just_died_reconnects_it() {
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
fn a_call_to_an_unreachable_server_gets_the_cause() {
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
fn a_denied_call_starts_no_server_and_learns_nothing_about_it() {
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

/// A server that starts when its gate, a file or a pipe, can be read.
fn write_gated_server(scene: &Sandbox, permissions: &Json) -> PathBuf {
    let gate = scene.path("~/gate");
    let start = r#"cat "$0" > /dev/null; exec "$1" "$2""#;
    let program = scripted::program();
    let entry = json!({
        "command": "sh", "args": ["-c", start, gate, program, Script::legacy().prompts(1).resources(1).to_json()],
    });
    let settings = json!({"permissions": permissions, "mcpServers": {"one": entry}});
    scene.write(USER, &settings.to_string());
    gate
}

fn close_gate(gate: &Path) {
    let made = std::process::Command::new("mkfifo").arg(gate).status();
    assert!(made.expect("mkfifo can be run").success());
}

/// Lets the server start. Waits until it reads the gate.
fn open_gate(gate: &Path) {
    std::fs::write(gate, "go").expect("it is read");
}

#[test]
fn a_client_is_answered_before_its_servers_are_connected() {
    let scene = scene();
    let gate = write_gated_server(&scene, &json!({}));
    close_gate(&gate);
    let mut raw = StdioClient::start(&scene, &["--pool", "--mode", "bypass"]);
    let hello = raw.request(
        "initialize",
        json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }),
    );
    for list in ["tools", "resources", "prompts"] {
        assert_eq!(hello["capabilities"][list]["listChanged"], true, "{hello}");
    }
    raw.send_message(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    open_gate(&gate);
    while !listed_names(&mut raw, "tools/list", "tools").contains(&"mcp__one__echo".to_owned()) {
        await_tools_changed(&mut raw);
    }
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn a_request_for_a_resource_waits_until_its_server_is_connected() {
    let scene = scene();
    let gate = write_gated_server(&scene, &json!({}));
    close_gate(&gate);
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    let uri = json!({"uri": "scripted://resource/0"});
    raw.send_request("resources/subscribe", uri.clone());
    let subscribed = raw.last_id;
    raw.send_request("resources/read", uri);
    let read = raw.last_id;
    open_gate(&gate);
    let mut answered = std::collections::BTreeMap::new();
    while answered.len() < 2 {
        let message = next_message(&mut raw);
        if let Some(id) = message["id"].as_u64().filter(|it| [subscribed, read].contains(it)) {
            answered.insert(id, message);
        }
    }
    assert!(answered.values().all(|it| it["result"].is_object()), "{answered:?}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn remembered_tools_are_listed_at_once_and_a_call_waits_for_the_server() {
    let scene = scene();
    let gate = write_gated_server(&scene, &json!({}));
    std::fs::write(&gate, "open").expect("it is ours");
    scene.swb(&["tools"]).expect_success();
    std::fs::remove_file(&gate).expect("it is there");
    close_gate(&gate);
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    assert!(listed_names(&mut raw, "tools/list", "tools").contains(&"mcp__one__echo".to_owned()));
    raw.send_request("tools/call", json!({"name": "mcp__one__echo", "arguments": {"text": "hi"}}));
    open_gate(&gate);
    let answer = loop {
        let message = next_message(&mut raw);
        if message["id"] == raw.last_id {
            break message;
        }
    };
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn a_rule_hides_a_remembered_server_too() {
    let scene = scene();
    let gate = write_gated_server(&scene, &json!({}));
    std::fs::write(&gate, "open").expect("it is ours");
    scene.swb(&["tools"]).expect_success();
    std::fs::remove_file(&gate).expect("it is there");
    close_gate(&gate);
    let prompts = |permissions: &Json| {
        write_gated_server(&scene, permissions);
        let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
        let listed = listed_names(&mut raw, "prompts/list", "prompts");
        raw.input = None;
        assert_eq!(raw.wait_exit().0, Some(0));
        listed
    };
    assert_eq!(prompts(&json!({})), ["mcp__one__prompt_0"]);
    assert_eq!(prompts(&json!({"deny": ["mcp__one"]})), [""; 0]);
}
