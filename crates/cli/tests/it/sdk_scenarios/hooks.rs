//! Hook callbacks of the SDK.

use serde_json::{Value as Json, json};
use testkit::model_service::Reply;

use crate::sdk_support::{Sdk, call, one_prompt, results_for_model, run, sandbox, service};

/// A plan with the tool `mcp__tools__add`, which nothing allows.
fn plan(hooks: &Json) -> Json {
    json!({"client": true, "prompts": ["go"], "servers": ["tools"], "hooks": hooks})
}

fn add(id: &str) -> Reply {
    call(id, "mcp__tools__add", &json!({"a": 2, "b": 2}))
}

/// The output of a hook before a call.
fn before_call(decision: &str, more: &Json) -> Json {
    let mut output = json!({"hookEventName": "PreToolUse", "permissionDecision": decision});
    for (key, value) in more.as_object().into_iter().flatten() {
        output[key] = value.clone();
    }
    json!({"PreToolUse": [{"outputs": [{"hookSpecificOutput": output}]}]})
}

pub fn a_denial_of_a_hook_is_the_result_of_the_call(sdk: Sdk) {
    let service = service([add("t1"), Reply::text("I see")]);
    let hooks = before_call("deny", &json!({"permissionDecisionReason": "no sums"}));
    let mut plan = plan(&hooks);
    plan["options"] = json!({"allowed_tools": ["mcp__tools__add"]});
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let result = observed.tool_result();
    assert!(result.is_error && result.text.contains("no sums"), "{}", observed.report());
    assert_eq!(observed.result()["permission_denials"][0]["tool_name"], "mcp__tools__add");
    assert_eq!(observed.hooks("PreToolUse").len(), 1);
}

pub fn a_hook_allows_a_call_that_nothing_else_allows(sdk: Sdk) {
    let service = service([add("t1"), Reply::text("four")]);
    let observed = run(sdk, &sandbox(&service), &plan(&before_call("allow", &json!({}))));
    observed.expect_success();
    let result = observed.tool_result();
    assert!(!result.is_error && result.text.starts_with('4'), "{}", observed.report());
}

pub fn a_hook_that_asks_brings_the_permission_callback(sdk: Sdk) {
    let service = service([add("t1"), Reply::text("four")]);
    let mut plan = plan(&before_call("ask", &json!({"permissionDecisionReason": "sums matter"})));
    plan["options"] = json!({"allowed_tools": ["mcp__tools__add"]});
    plan["permissions"] = json!([{"behavior": "allow"}]);
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.with_key("permission").len(), 1, "{}", observed.report());
    assert!(observed.tool_result().text.starts_with('4'), "{}", observed.report());
}

pub fn a_hook_changes_the_arguments(sdk: Sdk) {
    let service = service([add("t1"), Reply::text("fifty")]);
    let hooks = before_call("allow", &json!({"updatedInput": {"a": 20, "b": 30}}));
    let observed = run(sdk, &sandbox(&service), &plan(&hooks));
    observed.expect_success();
    assert!(observed.tool_result().text.starts_with("50"), "{}", observed.report());
}

pub fn hooks_see_the_prompt_the_call_its_result_and_the_end(sdk: Sdk) {
    let service = service([add("t1"), Reply::text("four")]);
    let each = json!([{}]);
    let mut plan = plan(&json!({
        "UserPromptSubmit": each, "PreToolUse": each, "PostToolUse": each, "Stop": each,
    }));
    plan["options"] = json!({"allowed_tools": ["mcp__tools__add"]});
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let order: Vec<&str> =
        observed.with_key("hook").iter().filter_map(|it| it["hook"].as_str()).collect();
    let expected = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"];
    assert_eq!(order, expected, "{}", observed.report());
    assert_eq!(observed.hooks("UserPromptSubmit")[0]["prompt"], "go");
    let before = observed.hooks("PreToolUse")[0];
    assert_eq!(before["tool_name"], "mcp__tools__add");
    assert_eq!(before["tool_input"], json!({"a": 2, "b": 2}));
    let after = observed.hooks("PostToolUse")[0];
    assert!(after["tool_response"].to_string().contains('4'), "{}", observed.report());
    for event in expected {
        let input = observed.hooks(event)[0];
        assert_eq!(input["hook_event_name"], event);
        assert_eq!(input["session_id"], observed.result()["session_id"], "{event}");
        for key in ["cwd", "transcript_path"] {
            assert!(input[key].is_string(), "{event} {key}: {}", observed.report());
        }
    }
    let position = |found: &dyn Fn(&Json) -> bool| observed.lines.iter().position(found);
    let stop = position(&|it| it["hook"] == "Stop");
    let result = position(&|it| it["message"]["type"] == "result");
    assert!(stop < result, "{}", observed.report());
}

pub fn a_matcher_selects_tools(sdk: Sdk) {
    let service =
        service([add("t1"), call("t2", "mcp__tools__fail", &json!({})), Reply::text("done")]);
    let mut plan = plan(&json!({"PreToolUse": [{"matcher": "mcp__tools__(fail|big)"}]}));
    plan["options"] = json!({"allowed_tools": ["mcp__tools__add", "mcp__tools__fail"]});
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    let seen = observed.hooks("PreToolUse");
    assert_eq!(seen.len(), 1, "{}", observed.report());
    assert_eq!(seen[0]["tool_name"], "mcp__tools__fail");
}

pub fn a_hook_after_a_call_adds_context_and_can_stop_the_run(sdk: Sdk) {
    let service = service([add("t1"), add("t2"), Reply::text("not reached")]);
    let context = json!({
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "sums are hard"},
    });
    let key = if sdk == Sdk::Python { "continue_" } else { "continue" };
    let stop = json!({key: false, "stopReason": "that is enough"});
    let mut plan = plan(&json!({"PostToolUse": [{"outputs": [context, stop]}]}));
    plan["options"] = json!({"allowed_tools": ["mcp__tools__add"]});
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert!(service.request_body(1)["messages"].to_string().contains("sums are hard"));
    assert_eq!(service.requests().len(), 2, "{}", observed.report());
    assert_eq!(observed.tool_results().len(), 2, "{}", observed.report());
    assert_eq!(observed.messages("result").len(), 1, "{}", observed.report());
}

pub fn a_hook_blocks_a_prompt(sdk: Sdk) {
    let service = service([Reply::text("the second")]);
    let block = json!({"decision": "block", "reason": "not that"});
    let mut plan = plan(&json!({"UserPromptSubmit": [{"outputs": [block, {}]}]}));
    plan["prompts"] = json!(["forbidden", "permitted"]);
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.messages("result").len(), 2, "{}", observed.report());
    assert_eq!(service.requests().len(), 1, "{}", observed.report());
    let sent = service.request_body(0)["messages"].to_string();
    assert!(!sent.contains("forbidden") && sent.contains("permitted"), "{sent}");
}

pub fn a_hook_that_fails_does_not_end_the_run(sdk: Sdk) {
    let service = service([add("t1"), Reply::text("done")]);
    let mut plan = plan(&json!({"PreToolUse": [{"raises": "a bug in a hook"}]}));
    plan["options"] = json!({"allowed_tools": ["mcp__tools__add"]});
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    assert_eq!(observed.hooks("PreToolUse").len(), 1);
    assert_eq!(results_for_model(&service, 1).len(), 1, "{}", observed.report());
    assert_eq!(observed.results(), ["done"], "{}", observed.report());
}

pub fn a_hook_denies_a_call_that_is_too_large_for_a_frame(sdk: Sdk) {
    let write = json!({"file_path": "large", "content": "x".repeat(1_500_000)});
    let service = service([call("t1", "Write", &write), Reply::text("I see")]);
    let mut plan = plan(&before_call("deny", &json!({"permissionDecisionReason": "too much"})));
    plan["options"] = json!({"permission_mode": "acceptEdits"});
    let sandbox = sandbox(&service);
    let observed = run(sdk, &sandbox, &plan);
    observed.expect_success();
    let seen = observed.hooks("PreToolUse");
    assert_eq!(seen.len(), 1, "{}", observed.report());
    let content = seen[0]["tool_input"]["content"].as_str().unwrap_or_default();
    assert!(content.ends_with("[cut: too long for one frame]"), "{}", observed.report());
    assert!(observed.tool_result().text.contains("too much"), "{}", observed.report());
    assert!(!sandbox.path("large").exists());
}

pub fn hook_events_are_shown_on_request(sdk: Sdk) {
    let service = service([Reply::text("hello")]);
    let mut plan = one_prompt(json!({"include_hook_events": true}));
    plan["hooks"] = json!({"UserPromptSubmit": [{}]});
    let observed = run(sdk, &sandbox(&service), &plan);
    observed.expect_success();
    for subtype in ["hook_started", "hook_response"] {
        let frames = observed.system(subtype);
        assert!(!frames.is_empty(), "{subtype}: {}", observed.report());
        assert_eq!(frames[0]["hook_event"], "UserPromptSubmit", "{}", observed.report());
    }
}
