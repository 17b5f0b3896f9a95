//! The permission callback, and what decides without one.

use serde_json::{Value as Json, json};
use testkit::model_service::{Reply, ReplyPart};
use testkit::{Script, ScriptedProgram};

use crate::sdk_support::{Sdk, ToolResult, call, run, sandbox, service};

/// A plan with a server `s` of an ordinary configuration.
fn plan(prompts: &Json, more: &Json) -> Json {
    let entry: Json = serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy()))
        .expect("an entry is JSON");
    let mut plan = json!({
        "client": true, "prompts": prompts, "options": {"mcp_servers": {"s": entry}},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("options", Json::Object(options)) => {
                for (option, value) in options {
                    plan["options"][option] = value.clone();
                }
            }
            (_, _) => plan[key] = value.clone(),
        }
    }
    plan
}

fn echo(id: &str, text: &str) -> Reply {
    call(id, "mcp__s__echo", &json!({"text": text}))
}

fn result(id: &str, text: &str) -> ToolResult {
    ToolResult { id: id.to_owned(), text: text.to_owned(), is_error: false }
}

fn refused(id: &str, text: &str) -> ToolResult {
    ToolResult { id: id.to_owned(), text: text.to_owned(), is_error: true }
}

pub fn an_allowed_call_runs_with_its_own_arguments(sdk: Sdk) {
    let service = service([echo("t1", "tea"), Reply::text("done")]);
    let plan = plan(&json!(["go"]), &json!({"permissions": [{"behavior": "allow"}]}));
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.tool_results(), [result("t1", "tea")], "{}", observed.report());
    let requests = observed.with_key("permission");
    assert_eq!(requests.len(), 1, "{}", observed.report());
    assert_eq!(requests[0]["permission"], "mcp__s__echo");
    assert_eq!(requests[0]["input"], json!({"text": "tea"}));
    assert_eq!(requests[0]["context"]["tool_use_id"], "t1", "{}", observed.report());
    let suggestions = requests[0]["context"]["suggestions"].to_string();
    assert!(suggestions.contains("mcp__s__echo"), "{suggestions}");
}

pub fn an_allowed_call_that_is_too_large_for_a_frame_runs_whole(sdk: Sdk) {
    let write = json!({"file_path": "large", "content": "x".repeat(1_500_000)});
    let service = service([call("t1", "Write", &write), Reply::text("done")]);
    let plan = plan(&json!(["go"]), &json!({"permissions": [{"behavior": "allow"}]}));
    let sandbox = sandbox(&service);
    let observed = run(sdk, &sandbox, &plan);
    observed.expect_success();
    assert_eq!(observed.with_key("permission").len(), 1, "{}", observed.report());
    assert_eq!(sandbox.read("large").len(), 1_500_000, "{}", observed.report());
}

pub fn an_allowed_call_runs_with_changed_arguments(sdk: Sdk) {
    let service = service([echo("t1", "tea"), Reply::text("done")]);
    let allow = json!({"behavior": "allow", "updated_input": {"text": "coffee"}});
    let plan = plan(&json!(["go"]), &json!({"permissions": [allow]}));
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.tool_results(), [result("t1", "coffee")], "{}", observed.report());
}

pub fn allowed_updates_hold_for_later_calls(sdk: Sdk) {
    let service =
        service([echo("t1", "one"), Reply::text("done"), echo("t2", "two"), Reply::text("done")]);
    // The Python SDK sends `"ruleContent": null` with this rule.
    let allow = json!({
        "behavior": "allow",
        "updated_permissions": [{"type": "addRules", "rules": ["mcp__s__echo"], "behavior": "allow"}],
    });
    let plan = plan(&json!(["go", "again"]), &json!({"permissions": [allow]}));
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.with_key("permission").len(), 1, "{}", observed.report());
    assert_eq!(observed.tool_results(), [result("t1", "one"), result("t2", "two")]);
}

pub fn a_denied_call_has_exactly_the_message_as_its_result(sdk: Sdk) {
    let service = service([echo("t1", "tea"), Reply::text("I see")]);
    let deny = json!({"behavior": "deny", "message": "No tea today."});
    let plan = plan(&json!(["go"]), &json!({"permissions": [deny]}));
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.tool_results(), [refused("t1", "No tea today.")], "{}", observed.report());
    assert_eq!(observed.result()["result"], "I see");
    let denials = &observed.result()["permission_denials"];
    assert_eq!(denials[0]["tool_name"], "mcp__s__echo", "{}", observed.report());
    assert_eq!(denials[0]["tool_use_id"], "t1");
    assert_eq!(denials[0]["tool_input"], json!({"text": "tea"}));
}

pub fn a_denial_with_interrupt_ends_the_turn(sdk: Sdk) {
    let service = service([echo("t1", "tea"), Reply::text("the next turn")]);
    let deny = json!({"behavior": "deny", "message": "Stop.", "interrupt": true});
    let plan = plan(&json!(["go", "again"]), &json!({"permissions": [deny]}));
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let results = observed.messages("result");
    assert_eq!(results[0]["subtype"], "error_during_execution", "{}", observed.report());
    assert!(observed.tool_result().is_error);
    assert_eq!(results[1]["result"], "the next turn", "{}", observed.report());
    if sdk == Sdk::TypeScript {
        assert_eq!(results[0]["terminal_reason"], "aborted_tools");
    }
}

pub fn without_a_callback_a_call_that_would_ask_is_denied(sdk: Sdk) {
    let service = service([echo("t1", "tea"), Reply::text("I may not")]);
    let observed = run(sdk, &sandbox(&service), &plan(&json!(["go"]), &json!({})));
    observed.expect_success();
    let denied = observed.tool_result();
    assert!(denied.is_error && !denied.text.is_empty(), "{}", observed.report());
    assert_eq!(observed.result()["permission_denials"][0]["tool_use_id"], "t1");
}

pub fn allowed_and_disallowed_tools_need_no_callback(sdk: Sdk) {
    let service = service([
        Reply::message([
            ReplyPart::tool_call("t1", "mcp__s__echo", &json!({"text": "tea"})),
            ReplyPart::tool_call("t2", "mcp__s__add", &json!({"a": 1, "b": 2})),
        ]),
        Reply::text("done"),
    ]);
    let options = json!({"allowed_tools": ["mcp__s__echo"], "disallowed_tools": ["mcp__s__add"]});
    let plan =
        plan(&json!(["go"]), &json!({"options": options, "permissions": [{"behavior": "allow"}]}));
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let results = observed.tool_results();
    assert!(results.contains(&result("t1", "tea")), "{}", observed.report());
    assert!(results.iter().any(|it| it.id == "t2" && it.is_error), "{}", observed.report());
    assert!(observed.with_key("permission").is_empty(), "{}", observed.report());
    let tools = service.request_body(0)["tools"].to_string();
    assert!(tools.contains("mcp__s__echo") && !tools.contains("mcp__s__add"), "{tools}");
}

pub fn a_tool_of_a_server_answers_permission_requests(sdk: Sdk) {
    let service = service([echo("t1", "tea"), Reply::text("done")]);
    let plan = plan(
        &json!(["go"]),
        &json!({
            "servers": ["tools"],
            "decision": {"behavior": "deny", "message": "The tool says no."},
            "options": {"permission_prompt_tool_name": "mcp__tools__decide"},
        }),
    );
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let refused = refused("t1", "The tool says no.");
    assert_eq!(observed.tool_results(), [refused], "{}", observed.report());
    let asked = json!({"tool_name": "mcp__s__echo", "input": {"text": "tea"}, "tool_use_id": "t1"});
    assert_eq!(observed.with_key("decide")[0]["decide"], asked, "{}", observed.report());
}

pub fn an_interrupt_withdraws_an_open_permission_request(sdk: Sdk) {
    let service = service([echo("t1", "tea"), Reply::text("back")]);
    let plan = plan(
        &json!(["go", "again"]),
        &json!({
            "permissions": ["hold"],
            "commands": [{"at": "permission", "call": "interrupt"}],
        }),
    );
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let results = observed.messages("result");
    assert_eq!(results[0]["subtype"], "error_during_execution", "{}", observed.report());
    assert!(observed.tool_result().is_error);
    assert_eq!(observed.with_key("cancelled")[0]["cancelled"], "permission");
    assert_eq!(results[1]["result"], "back", "{}", observed.report());
}
