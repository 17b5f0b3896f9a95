//! Programs that break the protocol or try more than they may: ids that are used twice, answers that nothing asked for,
//! floods, and tools that belong to another server.

use serde_json::{Value as Json, json};
use switchboard::config::permission::{PermissionEffect, PermissionMode, ToolRule};

use super::program::{Scene, TestProgram, length};
use super::servers::{respond, serve_until_call};
use crate::harness::Step;

/// More than a session handles at the same time.
const FLOOD: usize = 4_200;

fn hang() -> Json {
    json!({"subtype": "mcp_call", "server": "s", "tool": "hang", "arguments": {}})
}

async fn wait_for_call(program: &mut TestProgram) {
    while program.calls().is_empty() {
        program.request("wait", &json!({"subtype": "get_settings"})).await;
        program.response("wait").await;
    }
}

#[tokio::test]
async fn an_id_that_is_in_use_is_refused_until_its_request_is_answered_or_withdrawn() {
    let mut program = Scene::default().start([]).await;
    program.request("x", &hang()).await;
    wait_for_call(&mut program).await;
    program.request("x", &json!({"subtype": "get_settings"})).await;
    let refused = program.response("x").await;
    assert_eq!(refused["error"], "a request with this `request_id` is not answered yet");
    program.send(&json!({"type": "control_cancel_request", "request_id": "x"})).await;
    for _again in 0..3 {
        program.request("x", &json!({"subtype": "get_settings"})).await;
        assert_eq!(program.response("x").await["subtype"], "success");
    }
    program.end().await;
}

#[tokio::test]
async fn a_flood_of_requests_is_refused_at_a_limit_and_the_session_goes_on() {
    let scene = Scene { hosted: Some("calc"), mode: PermissionMode::Bypass, ..Scene::default() };
    let steps = [Step::Call("", vec![("t1", "mcp__calc__add", json!({}))]), Step::Say("hello")];
    let mut program = scene.start(steps).await;
    program.user("go").await;
    let asked = serve_until_call(&mut program).await;
    respond(&mut program, &asked, &json!({"content": []})).await;
    program.result().await;
    // None of these calls is answered.
    let call = json!({"subtype": "mcp_call", "server": "calc", "tool": "add"});
    let frame = |it: usize| json!({"type": "control_request", "request_id": it.to_string(), "request": call});
    let sending = program.send_beside((0..FLOOD).map(frame).collect());
    let refused = program.until(|it| it["response"]["subtype"] == "error").await;
    let error = refused["response"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("requests wait for their answers"), "{refused}");
    while !sending.is_finished() {
        program.frame().await;
    }
    program.sent(sending).await;
    program.model.add([Step::Say("still here")]);
    program.user("again").await;
    assert_eq!(program.result().await["result"], "still here");
    program.end().await;
}

#[tokio::test]
async fn only_the_first_answer_to_a_request_counts_and_others_are_ignored() {
    let mut program = Scene::default().start([length("tea"), Step::Say("done")]).await;
    let invented = json!({"request_id": "invented"});
    program.answer(&invented, &json!({"behavior": "allow"})).await;
    program.user("go").await;
    let asked = program.asked("can_use_tool").await;
    program.answer(&invented, &json!({"behavior": "allow"})).await;
    program.answer(&asked, &json!({"behavior": "deny", "message": "no"})).await;
    program.answer(&asked, &json!({"behavior": "allow"})).await;
    program.result().await;
    assert_eq!(program.tool_result(), ("no".to_owned(), true));
    assert_eq!(program.calls(), [""; 0]);
    program.end().await;
}

#[tokio::test]
async fn a_program_cannot_answer_for_itself_by_withdrawing_what_the_session_asked() {
    let mut program = Scene::default().start([length("tea"), Step::Say("done")]).await;
    program.user("go").await;
    let asked = program.asked("can_use_tool").await;
    let id = &asked["request_id"];
    program.send(&json!({"type": "control_cancel_request", "request_id": id})).await;
    program.request("seen", &json!({"subtype": "get_settings"})).await;
    program.response("seen").await;
    assert_eq!(program.calls(), [""; 0]);
    program.answer(&asked, &json!({"behavior": "deny", "message": "no"})).await;
    program.result().await;
    assert_eq!(program.tool_result(), ("no".to_owned(), true));
}

#[tokio::test]
async fn arguments_that_the_program_changes_are_subject_to_the_rules() {
    let rule = ToolRule::parse("mcp__s__length(text=secret)").expect("a rule");
    let scene =
        || Scene { rules: vec![(PermissionEffect::Deny, rule.clone())], ..Scene::default() };
    let changed = json!({"text": "secret"});
    // The callback changes them.
    let mut program = scene().start([length("tea"), Step::Say("done")]).await;
    program.user("go").await;
    let asked = program.asked("can_use_tool").await;
    program.answer(&asked, &json!({"behavior": "allow", "updatedInput": changed})).await;
    program.result().await;
    assert!(program.tool_result().1, "{:?}", program.tool_result());
    assert_eq!(program.calls(), [""; 0]);
    // A hook changes them, and allows the call.
    let mut program = scene().start([length("tea"), Step::Say("done")]).await;
    program.hook("PreToolUse", &json!({})).await;
    program.user("go").await;
    let asked = program.asked("hook_callback").await;
    let specific = json!({"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": changed});
    program.answer(&asked, &json!({"hookSpecificOutput": specific})).await;
    program.result().await;
    assert!(program.tool_result().1, "{:?}", program.tool_result());
    assert_eq!(program.calls(), [""; 0]);
}

#[tokio::test]
async fn a_call_of_the_program_is_made_by_the_server_that_it_names_and_not_against_a_rule() {
    let rule = ToolRule::parse("mcp__s__hang").expect("a rule");
    let scene = Scene { rules: vec![(PermissionEffect::Deny, rule)], ..Scene::default() };
    let mut program = scene.start([]).await;
    for (server, tool) in [("other", "mcp__s__length"), ("", "mcp__s__length"), ("s", "hang")] {
        let call = json!({"subtype": "mcp_call", "server": server, "tool": tool, "arguments": {}});
        program.request("call", &call).await;
        let answer = program.response("call").await;
        assert_eq!(answer["subtype"], "error", "{server} {tool}: {answer}");
    }
    for tool in ["length", "mcp__s__length"] {
        let call = json!({"subtype": "mcp_call", "server": "s", "tool": tool, "arguments": {"text": "abc"}});
        program.request("call", &call).await;
        let answer = program.response("call").await;
        assert_eq!(answer["response"]["content"][0]["text"], "3", "{answer}");
    }
    assert_eq!(program.calls(), ["abc", "abc"]);
    program.end().await;
}

#[tokio::test]
async fn a_resource_of_a_server_that_a_rule_denies_is_not_read() {
    let rule = ToolRule::parse("mcp__s").expect("a rule");
    let scene = Scene { rules: vec![(PermissionEffect::Deny, rule)], ..Scene::default() };
    let mut program = scene.start([]).await;
    let read = json!({"subtype": "mcp_read_resource", "server": "s", "uri": "note://one"});
    program.request("read", &read).await;
    let answer = program.response("read").await;
    let error = answer["error"].as_str().unwrap_or_default();
    assert!(error.contains("mcp__s"), "{answer}");
    program.end().await;
}
