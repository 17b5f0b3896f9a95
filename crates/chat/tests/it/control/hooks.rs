//! Hooks of a program: large inputs, failures, decisions, notices.

use serde_json::{Value as Json, json};
use switchboard::config::permission::PermissionMode;
use switchboard_chat::control::session::SessionEnd;

use super::program::{Scene, TestProgram, length};
use crate::harness::Step;

fn bypass() -> Scene {
    Scene { mode: PermissionMode::Bypass, ..Scene::default() }
}

fn before_call(more: &Json) -> Json {
    let mut output = json!({"hookEventName": "PreToolUse"});
    for (name, value) in more.as_object().into_iter().flatten() {
        output[name] = value.clone();
    }
    json!({"hookSpecificOutput": output})
}

const MARK: &str = "[cut: too long for one frame]";

#[tokio::test]
async fn a_hook_is_asked_about_a_call_that_is_too_large_for_a_frame() {
    let mut program = bypass().start([length(&"x".repeat(1_500_000)), Step::Say("I see")]).await;
    program.hook("PreToolUse", &json!({})).await;
    program.user("go").await;
    let asked = program.asked("hook_callback").await;
    let input = asked["request"]["input"]["tool_input"]["text"].as_str().expect("a text");
    assert!(input.starts_with("xxxx") && input.ends_with(MARK), "{}", input.len());
    let deny = json!({"permissionDecision": "deny", "permissionDecisionReason": "never"});
    program.answer(&asked, &before_call(&deny)).await;
    program.result().await;
    let denied = ("PreToolUse:mcp__s__length hook error: never".to_owned(), true);
    assert_eq!(program.tool_result(), denied);
    assert_eq!(program.calls(), [""; 0]);
}

#[tokio::test]
async fn a_hook_that_gives_a_cut_input_back_changes_nothing() {
    let text = "x".repeat(1_500_000);
    let mut program = bypass().start([length(&text), Step::Say("done")]).await;
    program.hook("PreToolUse", &json!({})).await;
    program.user("go").await;
    let asked = program.asked("hook_callback").await;
    let updated = json!({"updatedInput": asked["request"]["input"]["tool_input"]});
    program.answer(&asked, &before_call(&updated)).await;
    program.result().await;
    assert_eq!(program.tool_result(), ("1500000".to_owned(), false));
}

#[tokio::test]
async fn a_hook_cannot_make_a_cut_text_an_argument() {
    let mut program = bypass().start([length(&"x".repeat(1_500_000)), Step::Say("done")]).await;
    program.hook("PreToolUse", &json!({})).await;
    program.user("go").await;
    let asked = program.asked("hook_callback").await;
    let text = asked["request"]["input"]["tool_input"]["text"].as_str().expect("a text");
    let updated = json!({"updatedInput": {"text": format!("more {text}")}});
    program.answer(&asked, &before_call(&updated)).await;
    program.result().await;
    assert!(program.tool_result().0.contains("was cut to fit"), "{:?}", program.tool_result());
    assert_eq!(program.calls(), [""; 0]);
}

/// Runs a turn with one call in which the hook of an event fails.
async fn failed(event: &str, on_failure: &str) -> (TestProgram, Json) {
    let steps = [length("tea"), Step::Say("one"), Step::Say("two"), Step::Say("three")];
    let mut program = bypass().start(steps).await;
    program.hook(event, &json!({"onFailure": on_failure})).await;
    program.user("go").await;
    let asked = program.asked("hook_callback").await;
    program.fail(&asked, "a bug\u{1b}[31m in a hook").await;
    let result = program.result().await;
    let warnings = program.backend.warnings();
    assert!(warnings.contains(&format!("a {event} hook")), "{warnings}");
    assert!(warnings.contains("a bug"), "{warnings}");
    (program, result)
}

#[tokio::test]
async fn a_call_is_denied_when_its_hook_must_not_fail_and_does() {
    let (program, _) = failed("PreToolUse", "block").await;
    assert!(program.tool_result().0.starts_with("PreToolUse:mcp__s__length hook error: a bug"));
    assert_eq!(program.calls(), [""; 0]);
    assert!(program.backend.warnings().contains("the call is denied"));
}

#[tokio::test]
async fn a_result_is_withheld_when_its_hook_must_not_fail_and_does() {
    let (program, _) = failed("PostToolUse", "block").await;
    let (text, is_error) = program.tool_result();
    assert!(text.starts_with("PostToolUse:mcp__s__length hook error: a bug") && is_error, "{text}");
    let sent = format!("{:?}", program.model.last_messages());
    assert!(sent.contains("hook error: a bug") && !sent.contains("text: \"3\""), "{sent}");
    assert!(program.backend.warnings().contains("the result of the call is withheld"));
}

#[tokio::test]
async fn a_prompt_is_blocked_when_its_hook_must_not_fail_and_does() {
    let (program, result) = failed("UserPromptSubmit", "block").await;
    assert_eq!(program.model.requests().len(), 0);
    assert_eq!(result["terminal_reason"], "hook_stopped");
}

#[tokio::test]
async fn a_turn_ends_when_the_hook_at_its_end_must_not_fail_and_does() {
    let (program, result) = failed("Stop", "block").await;
    assert_eq!(program.model.requests().len(), 2);
    assert_eq!((&result["subtype"], &result["result"]), (&json!("success"), &json!("one")));
    assert!(program.backend.warnings().contains("the turn ends"));
}

#[tokio::test]
async fn any_other_hook_that_fails_is_reported_and_ignored() {
    for event in ["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"] {
        let (program, result) = failed(event, "continue").await;
        assert_eq!(program.tool_result(), ("3".to_owned(), false), "{event}");
        assert_eq!(result["result"], "one", "{event}");
        assert!(program.backend.warnings().contains("it is ignored"), "{event}");
    }
}

#[tokio::test]
async fn a_hook_that_asks_is_heard_in_every_mode() {
    for mode in [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Bypass] {
        let scene = Scene { mode, ..Scene::default() };
        let mut program = scene.start([length("tea"), Step::Say("done")]).await;
        program.hook("PreToolUse", &json!({})).await;
        program.user("go").await;
        let asked = program.asked("hook_callback").await;
        let ask = json!({"permissionDecision": "ask", "permissionDecisionReason": "sure?"});
        program.answer(&asked, &before_call(&ask)).await;
        let question = program.asked("can_use_tool").await;
        assert_eq!(question["request"]["decision_reason"], "sure?", "{mode:?}");
        program.answer(&question, &json!({"behavior": "deny", "message": "no!"})).await;
        program.result().await;
        assert_eq!(program.tool_result(), ("no!".to_owned(), true), "{mode:?}");
    }
}

#[tokio::test]
async fn a_hook_that_defers_leaves_the_decision_to_the_rules() {
    let mut program = Scene::default().start([length("tea"), Step::Say("done")]).await;
    program.hook("PreToolUse", &json!({})).await;
    program.user("go").await;
    let asked = program.asked("hook_callback").await;
    program.answer(&asked, &before_call(&json!({"permissionDecision": "defer"}))).await;
    let question = program.asked("can_use_tool").await;
    program.answer(&question, &json!({"behavior": "allow"})).await;
    program.result().await;
    assert_eq!(program.tool_result(), ("3".to_owned(), false));
}

#[tokio::test]
async fn the_text_of_a_hook_for_the_user_is_a_frame() {
    let mut program = bypass().start([Step::Say("done")]).await;
    program.hook("Stop", &json!({})).await;
    program.user("go").await;
    let asked = program.asked("hook_callback").await;
    program.answer(&asked, &json!({"systemMessage": "mind the gap"})).await;
    let notice = program.until(|it| it["subtype"] == "informational").await;
    assert_eq!((&notice["type"], &notice["content"]), (&json!("system"), &json!("mind the gap")));
    program.result().await;
}

fn give(id: &'static str, value: Json) -> Step {
    Step::Call("", vec![(id, "StructuredOutput", value)])
}

#[tokio::test]
async fn a_hook_at_the_end_continues_a_turn_that_gave_its_structured_output() {
    let steps = [give("t1", json!({"n": 1})), give("t2", json!({"n": 2}))];
    let mut program = bypass().start(steps).await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    program.hook("Stop", &json!({})).await;
    let hooks = json!({"Stop": [{"matcher": null, "hookCallbackIds": ["h"]}]});
    let again = json!({"subtype": "initialize", "hooks": hooks, "jsonSchema": schema});
    program.request("schema", &again).await;
    assert_eq!(program.response("schema").await["subtype"], "success");
    program.user("how many?").await;
    let first = program.asked("hook_callback").await;
    assert_eq!(first["request"]["input"]["stop_hook_active"], false);
    program.answer(&first, &json!({"decision": "block", "reason": "count again"})).await;
    let second = program.asked("hook_callback").await;
    assert_eq!(second["request"]["input"]["stop_hook_active"], true);
    program.answer(&second, &json!({})).await;
    assert_eq!(program.result().await["structured_output"], json!({"n": 2}));
    let said = format!("{:?}", program.model.last_messages());
    assert!(said.contains("count again"), "{said}");
    program.end().await;
}

#[tokio::test]
async fn a_structured_output_that_does_not_fit_in_a_frame_is_an_error() {
    let steps = [give("t1", json!({"text": "x".repeat(1_200_000)}))];
    let mut program = bypass().start(steps).await;
    let initialize = json!({"subtype": "initialize", "jsonSchema": {"type": "object"}});
    program.request("init", &initialize).await;
    program.response("init").await;
    program.user("go").await;
    let result = program.result().await;
    assert_eq!((&result["is_error"], &result["structured_output"]), (&json!(true), &Json::Null));
    let error = "the structured output is too large for one frame";
    assert_eq!(result["errors"], json!([error]));
    assert_eq!(program.end().await, SessionEnd::FinishedWithError);
}

#[tokio::test]
async fn a_call_is_not_made_when_the_input_ends_while_its_hook_is_open() {
    let mut program = bypass().start([length("tea"), Step::Say("I see")]).await;
    program.hook("PreToolUse", &json!({})).await;
    program.user("go").await;
    program.asked("hook_callback").await;
    program.close();
    program.result().await;
    let (text, is_error) = program.tool_result();
    assert!(text.contains("the input closed") && is_error, "{text}");
    assert_eq!(program.calls(), [""; 0]);
    assert_eq!(program.end().await, SessionEnd::Finished);
}
