//! Control requests that change or query a session.

use serde_json::{Value as Json, json};
use switchboard_chat::control::subtypes::ACCEPTED_REQUESTS;
use testkit::model_service::Reply;
use testkit::{Script, ScriptedProgram};

use crate::sdk_support::{Observed, Sdk, run, sandbox, service};

/// A command of the plan, by its name in each SDK.
fn command(sdk: Sdk, at: &str, python: &str, typescript: &str, arguments: &Json) -> Json {
    let name = if sdk == Sdk::Python { python } else { typescript };
    json!({"at": at, "call": name, "arguments": arguments})
}

/// The answers to the commands, in order.
fn answers(observed: &Observed) -> Vec<&Json> {
    observed.with_key("command").into_iter().map(|it| it.get("answer").unwrap_or(it)).collect()
}

/// The status of a server, by its name, in an answer.
fn status(sdk: Sdk, answer: &Json, name: &str) -> Json {
    let servers = if sdk == Sdk::Python { &answer["mcpServers"] } else { answer };
    let found = servers.as_array().into_iter().flatten().find(|it| it["name"] == name);
    found.cloned().unwrap_or_default()
}

pub fn the_state_of_servers_is_reported_and_changed(sdk: Sdk) {
    let service = service([Reply::text("one"), Reply::text("two")]);
    let entry: Json = serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy()))
        .expect("an entry is JSON");
    let state = || command(sdk, "turn:1", "get_mcp_status", "mcpServerStatus", &json!([]));
    let toggle = |enabled: bool| {
        let arguments = json!(["s", enabled]);
        command(sdk, "turn:1", "toggle_mcp_server", "toggleMcpServer", &arguments)
    };
    let reconnect = |name: &str| {
        command(sdk, "turn:1", "reconnect_mcp_server", "reconnectMcpServer", &json!([name]))
    };
    let plan = json!({
        "client": true, "prompts": ["go", "again"], "servers": ["tools"],
        "options": {"mcp_servers": {"s": entry, "gone": {"command": "no-such-program-here"}}},
        "commands": [
            state(), toggle(false), state(), toggle(true), reconnect("s"), state(),
            reconnect("gone"), reconnect("unknown"), reconnect("tools"), state(),
        ],
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let answers = answers(&observed);
    assert_eq!(answers.len(), 10, "{}", observed.report());
    let before = answers[0];
    let s = status(sdk, before, "s");
    assert_eq!(s["status"], "connected", "{}", observed.report());
    assert_eq!(s["serverInfo"]["name"], "scripted", "{s}");
    assert!(s["tools"].to_string().contains("\"echo\""), "{s}");
    assert_eq!(status(sdk, before, "tools")["status"], "connected", "{before}");
    let gone = status(sdk, before, "gone");
    assert_eq!(gone["status"], "failed", "{before}");
    assert!(gone["error"].is_string(), "{gone}");
    for changed in [1, 3, 4, 8] {
        assert!(answers[changed].get("error").is_none(), "{changed}: {}", observed.report());
    }
    assert_eq!(status(sdk, answers[2], "s")["status"], "disabled", "{}", observed.report());
    assert_eq!(status(sdk, answers[5], "s")["status"], "connected", "{}", observed.report());
    assert!(answers[6]["error"].is_string(), "{}", observed.report());
    let unknown = answers[7]["error"].as_str().unwrap_or_default();
    assert!(unknown.contains("unknown"), "{}", observed.report());
    assert_eq!(status(sdk, answers[9], "tools")["status"], "connected", "{}", observed.report());
    assert_eq!(observed.results(), ["one", "two"], "{}", observed.report());
}

pub fn the_model_and_the_permission_mode_are_changed(sdk: Sdk) {
    let service = service([Reply::text("one"), Reply::text("two")]);
    let plan = json!({
        "client": true, "prompts": ["go", "again"],
        "commands": [
            command(sdk, "turn:1", "set_model", "setModel", &json!(["claude-opus-4-1"])),
            command(sdk, "turn:1", "set_permission_mode", "setPermissionMode", &json!(["acceptEdits"])),
        ],
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let errors: Vec<&Json> =
        observed.with_key("command").into_iter().filter(|it| it.get("error").is_some()).collect();
    assert!(errors.is_empty(), "{}", observed.report());
    assert_ne!(service.request_body(0)["model"], "claude-opus-4-1");
    assert_eq!(service.request_body(1)["model"], "claude-opus-4-1");
    let status = observed.system("status");
    assert_eq!(status.len(), 1, "{}", observed.report());
    assert_eq!(status[0]["permissionMode"], "acceptEdits", "{}", observed.report());
    let inits = observed.system("init");
    assert_eq!(inits[0]["permissionMode"], "default", "{}", observed.report());
    assert_eq!(inits[1]["permissionMode"], "acceptEdits", "{}", observed.report());
    assert_eq!(inits[1]["model"], "claude-opus-4-1", "{}", observed.report());
}

pub fn the_answer_to_initialize_describes_the_program(sdk: Sdk) {
    let service = service([Reply::text("one")]);
    let plan = json!({
        "client": true, "prompts": ["go"],
        "commands": [
            command(sdk, "start", "get_server_info", "initializationResult", &json!([])),
            command(sdk, "turn:1", "get_context_usage", "getContextUsage", &json!([])),
        ],
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let answers = answers(&observed);
    assert_eq!(answers.len(), 2, "{}", observed.report());
    for list in ["commands", "models", "agents", "available_output_styles"] {
        assert!(answers[0][list].is_array(), "{list}: {}", observed.report());
    }
    for text in ["output_style", "current_permission_mode"] {
        assert!(answers[0][text].is_string(), "{text}: {}", observed.report());
    }
    let first = &answers[0]["models"][0];
    assert!(first["value"].is_string() && first["displayName"].is_string(), "{first}");
    let categories = answers[1]["categories"].as_array().cloned().unwrap_or_default();
    assert!(!categories.is_empty(), "{}", observed.report());
    assert!(categories.iter().all(|it| it["name"].is_string() && it["tokens"].is_number()));
    assert!(answers[1]["totalTokens"].is_number(), "{}", observed.report());
}

pub fn files_cannot_be_rewound(sdk: Sdk) {
    let service = service([Reply::text("one")]);
    let arguments = json!(["00000000-0000-0000-0000-000000000000"]);
    let plan = json!({
        "client": true, "prompts": ["go"],
        "commands": [command(sdk, "turn:1", "rewind_files", "rewindFiles", &arguments)],
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let answers = answers(&observed);
    assert!(
        answers[0].to_string().contains("File rewinding is not enabled"),
        "{}",
        observed.report()
    );
}

pub fn an_unknown_request_is_an_error_with_a_code(sdk: Sdk) {
    let service = service([Reply::text("one")]);
    let arguments = json!([{"subtype": "no_such_request"}]);
    let plan = json!({
        "client": true, "prompts": ["go"],
        "commands": [command(sdk, "turn:1", "request", "request", &arguments)],
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let error = observed.answer("request")["error"].as_str().unwrap_or_default();
    assert_eq!(
        error,
        "Unsupported control request subtype: no_such_request",
        "{}",
        observed.report()
    );
    assert_eq!(observed.results(), ["one"]);
}

/// A request with the members that it needs.
fn request(subtype: &str) -> Json {
    let members = match subtype {
        "set_permission_mode" => json!({"mode": "acceptEdits"}),
        "set_model" => json!({"model": "claude-opus-4-1"}),
        "set_max_thinking_tokens" => json!({"max_thinking_tokens": 2000}),
        "mcp_reconnect" | "mcp_authenticate" => json!({"serverName": "s"}),
        "mcp_toggle" => json!({"serverName": "s", "enabled": true}),
        "mcp_set_servers" => {
            json!({"servers": {"tools": {"type": "sdk", "name": "tools"}}})
        }
        "mcp_message" => json!({
            "server_name": "tools",
            "message": {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        }),
        "mcp_call" => json!({
            "server_name": "s", "tool_name": "add", "arguments": {"a": 1, "b": 2},
        }),
        "mcp_read_resource" => json!({"server_name": "s", "uri": "scripted://resource/0"}),
        "rewind_files" => json!({"user_message_id": "00000000-0000-0000-0000-000000000000"}),
        "stop_task" => json!({"task_id": "no-such-task"}),
        _ => json!({}),
    };
    let mut request = json!({"subtype": subtype});
    for (key, value) in members.as_object().into_iter().flatten() {
        request[key] = value.clone();
    }
    request
}

pub fn every_request_is_answered(sdk: Sdk) {
    let service = service([Reply::text("one")]);
    let script = Script::legacy().resources(1);
    let entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&script)).expect("an entry is JSON");
    // The SDK sends `initialize` itself.
    let subtypes: Vec<&str> =
        ACCEPTED_REQUESTS.iter().map(|(name, _)| *name).filter(|it| *it != "initialize").collect();
    let commands: Vec<Json> = subtypes
        .iter()
        .map(|it| json!({"at": "turn:1", "call": "request", "arguments": [request(it)]}))
        .collect();
    let plan = json!({
        "client": true, "prompts": ["go"], "servers": ["tools"], "commands": commands,
        "options": {"mcp_servers": {"s": entry}},
    });
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let answers = observed.with_key("command");
    assert_eq!(answers.len(), subtypes.len(), "{}", observed.report());
    for (subtype, answer) in subtypes.iter().zip(answers) {
        let refused = ["rewind_files", "mcp_authenticate"].contains(subtype);
        assert_eq!(answer.get("error").is_some(), refused, "{subtype}: {answer}");
        let text = answer.to_string();
        assert!(!text.contains("Unsupported control request"), "{subtype}: {text}");
        if *subtype == "mcp_call" {
            assert!(text.contains(r#""structuredContent":{"sum":3"#), "{text}");
        }
    }
}
