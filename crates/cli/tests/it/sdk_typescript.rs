//! The program under the public TypeScript agent SDK.

use serde_json::{Value as Json, json};
use testkit::model_service::Reply;
use testkit::{Script, ScriptedProgram};

use crate::sdk_scenarios;
use crate::sdk_support::{Sdk, call, run, sandbox, service};

sdk_scenarios::scenarios!(crate::sdk_support::Sdk::TypeScript);

fn scripted() -> Json {
    serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy()))
        .expect("an entry is JSON")
}

#[test]
fn an_elicitation_is_answered_by_the_program() {
    let service = service([call("t1", "mcp__s__ask", &json!({})), Reply::text("done")]);
    let plan = json!({
        "client": true, "prompts": ["go"],
        "elicitation": {"action": "accept", "content": {"name": "Ada"}},
        "options": {"allowed_tools": ["mcp__s__ask"], "mcp_servers": {"s": scripted()}},
    });
    let observed = run(Sdk::TypeScript, &sandbox(&service), &plan);
    observed.expect_success();
    let asked = observed.with_key("elicitation");
    assert_eq!(asked.len(), 1, "{}", observed.report());
    let asked = &asked[0]["elicitation"];
    assert_eq!((&asked["serverName"], &asked["mode"]), (&json!("s"), &json!("form")), "{asked}");
    assert!(asked["requestedSchema"]["properties"].is_object(), "{asked}");
    assert!(observed.tool_result().text.contains("Ada"), "{}", observed.report());
}

#[test]
fn a_tool_that_a_hosted_server_adds_can_be_called_in_the_same_session() {
    let service = service([
        call("t1", "mcp__tools__grow", &json!({})),
        Reply::text("grown"),
        call("t2", "mcp__tools__grown", &json!({})),
        Reply::text("done"),
    ]);
    let plan = json!({
        "client": true, "prompts": ["go", "again"], "servers": ["tools"],
        "options": {"allowed_tools": ["mcp__tools__grow", "mcp__tools__grown"]},
    });
    let observed = run(Sdk::TypeScript, &sandbox(&service), &plan);
    observed.expect_success();
    let results = observed.tool_results();
    assert_eq!(results[1].text, "I am new", "{}", observed.report());
    assert!(service.request_body(2)["tools"].to_string().contains("mcp__tools__grown"));
}

#[test]
fn a_session_is_initialized_again_and_its_hooks_and_settings_still_hold() {
    let service = service([
        Reply::text("one"),
        call("t1", "mcp__s__echo", &json!({"text": "tea"})),
        Reply::text("two"),
    ]);
    let settings = json!({"permissions": {"allow": ["mcp__s__echo"]}});
    let plan = json!({
        "client": true, "prompts": ["go", "again"],
        "hooks": {"PreToolUse": [{}]},
        "commands": [{"at": "turn:1", "call": "reinitialize"}],
        "options": {"mcp_servers": {"s": scripted()}, "settings": settings},
    });
    let observed = run(Sdk::TypeScript, &sandbox(&service), &plan);
    observed.expect_success();
    let answer = observed.answer("reinitialize");
    assert!(answer["answer"]["commands"].is_array(), "{answer}");
    assert_eq!(observed.results(), ["one", "two"], "{}", observed.report());
    assert_eq!(observed.hooks("PreToolUse").len(), 1, "{}", observed.report());
    assert_eq!(observed.tool_result().text, "tea", "{}", observed.report());
}

#[test]
fn tools_settings_and_servers_in_the_first_request_count_as_options() {
    let service = service([
        call("t1", "mcp__s__echo", &json!({"text": "tea"})),
        call("t2", "Write", &json!({"file_path": "made", "content": "x"})),
        Reply::text("done"),
    ]);
    let plan = json!({
        "client": true, "prompts": ["go"],
        "options": {
            "permission_mode": "acceptEdits",
            "disallowed_tools": ["Write"], "disallowed_tools_delivery": "initialize",
            "settings": {"permissions": {"allow": ["mcp__s__echo"]}},
            "settings_delivery": "initialize",
            "mcp_servers": {"s": scripted()}, "mcp_servers_delivery": "initialize",
        },
    });
    let sandbox = sandbox(&service);
    let observed = run(Sdk::TypeScript, &sandbox, &plan);
    observed.expect_success();
    let results = observed.tool_results();
    assert_eq!(
        (results[0].text.as_str(), results[0].is_error),
        ("tea", false),
        "{}",
        observed.report()
    );
    assert!(results[1].is_error && !sandbox.path("made").exists(), "{}", observed.report());
}

#[test]
fn servers_are_replaced_while_the_session_runs() {
    let service = service([
        Reply::text("one"),
        call("t1", "mcp__added__echo", &json!({"text": "tea"})),
        Reply::text("two"),
        Reply::text("three"),
    ]);
    let set = |at: &str, servers: Json| json!({"at": at, "call": "setMcpServers", "arguments": [servers]});
    let gone = json!({"command": "no-such-program-here"});
    let plan = json!({
        "client": true, "prompts": ["one", "two", "three"],
        "options": {
            "allowed_tools": ["mcp__added__echo"], "mcp_servers": {"configured": scripted()},
        },
        "commands": [
            set("turn:1", json!({"added": scripted(), "gone": gone})),
            set("turn:2", json!({})),
        ],
    });
    let observed = run(Sdk::TypeScript, &sandbox(&service), &plan);
    observed.expect_success();
    let answers = observed.with_key("command");
    let names = |at: usize, key: &str| -> Vec<String> {
        let list = answers[at]["answer"][key].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> =
            list.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect();
        names.sort();
        names
    };
    assert!(names(0, "added").contains(&"added".to_owned()), "{}", observed.report());
    assert!(answers[0]["answer"]["errors"]["gone"].is_string(), "{}", observed.report());
    assert_eq!(observed.tool_result().text, "tea", "{}", observed.report());
    assert!(names(1, "removed").contains(&"added".to_owned()), "{}", observed.report());
    let inits = observed.system("init");
    let tools = |turn: usize| inits[turn]["tools"].to_string();
    assert!(tools(1).contains("mcp__added__echo"), "{}", tools(1));
    assert!(!tools(2).contains("mcp__added__echo"), "{}", tools(2));
    assert!(tools(2).contains("mcp__configured__echo"), "{}", tools(2));
}

#[test]
fn commands_models_and_resources_are_available() {
    let service = service([Reply::text("one")]);
    let script = Script::legacy().resources(1).prompts(1);
    let entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&script)).expect("an entry is JSON");
    let command =
        |call: &str, arguments: Json| json!({"at": "turn:1", "call": call, "arguments": arguments});
    let plan = json!({
        "client": true, "prompts": ["go"], "options": {"mcp_servers": {"s": entry}},
        "commands": [
            command("supportedCommands", json!([])),
            command("supportedModels", json!([])),
            command("supportedAgents", json!([])),
            command("accountInfo", json!([])),
            command("readMcpResource", json!(["s", "scripted://resource/0"])),
            command("setMaxThinkingTokens", json!([2000])),
            command("stopTask", json!(["no-such-task"])),
            command("reloadPlugins", json!([])),
        ],
    });
    let observed = run(Sdk::TypeScript, &sandbox(&service), &plan);
    observed.expect_success();
    for command in observed.with_key("command") {
        assert!(command.get("error").is_none(), "{command}: {}", observed.report());
    }
    let models = observed.answer("supportedModels")["answer"].to_string();
    assert!(models.contains("\"value\""), "{models}");
    let resource = observed.answer("readMcpResource")["answer"].to_string();
    assert!(resource.contains("scripted://resource/0"), "{resource}");
}
