//! The permission callback of a program: large inputs, the end of the input, requests that are open.

use serde_json::json;
use switchboard::config::permission::PermissionMode;
use switchboard_chat::control::permission_prompt::PermissionSource;
use switchboard_chat::control::permission_update::PermissionUpdate;
use switchboard_chat::control::session::SessionEnd;

use super::program::{Scene, length};
use crate::harness::Step;

#[tokio::test]
async fn a_call_that_is_too_large_for_a_frame_is_asked_about_and_made_whole() {
    for is_sent_back in [false, true] {
        let text = "x".repeat(1_500_000);
        let mut program = Scene::default().start([length(&text), Step::Say("done")]).await;
        program.user("go").await;
        let asked = program.asked("can_use_tool").await;
        let input = &asked["request"]["input"];
        assert!(input["text"].as_str().is_some_and(|it| it.ends_with("for one frame]")));
        let mut answer = json!({"behavior": "allow"});
        if is_sent_back {
            answer["updatedInput"] = input.clone();
        }
        program.answer(&asked, &answer).await;
        program.result().await;
        assert_eq!(program.tool_result(), ("1500000".to_owned(), false));
    }
}

#[tokio::test]
async fn changed_arguments_with_a_cut_text_are_refused() {
    let mut program =
        Scene::default().start([length(&"x".repeat(1_500_000)), Step::Say("done")]).await;
    program.user("go").await;
    let asked = program.asked("can_use_tool").await;
    let text = asked["request"]["input"]["text"].as_str().expect("a text");
    let answer = json!({"behavior": "allow", "updatedInput": {"text": format!("more {text}")}});
    program.answer(&asked, &answer).await;
    program.result().await;
    assert!(program.tool_result().0.contains("was cut to fit"), "{:?}", program.tool_result());
    assert_eq!(program.calls(), [""; 0]);
}

#[tokio::test]
async fn an_open_request_is_an_error_result_when_the_input_ends() {
    let mut program = Scene::default().start([length("tea"), Step::Say("I see")]).await;
    program.user("go").await;
    program.asked("can_use_tool").await;
    program.close();
    let result = program.result().await;
    let closed = "Tool permission stream closed before response received".to_owned();
    assert_eq!(program.tool_result(), (closed, true));
    assert_eq!((&result["subtype"], &result["result"]), (&json!("success"), &json!("I see")));
    assert_eq!(program.calls(), [""; 0]);
    assert_eq!(program.end().await, SessionEnd::Finished);
}

/// anthropics/claude-agent-sdk-python#1088 and #1190: a program that reads `idle` closes its end.
#[tokio::test]
async fn the_state_says_who_has_to_act_and_is_idle_only_when_nothing_is_owed() {
    let steps = [length("tea"), Step::Say("done"), Step::Say("again")];
    let mut program = Scene::default().start(steps).await;
    program.user("go").await;
    let asked = program.asked("can_use_tool").await;
    // The second message waits for its turn.
    program.user("once more").await;
    program.request("seen", &json!({"subtype": "get_settings"})).await;
    program.response("seen").await;
    program.answer(&asked, &json!({"behavior": "allow"})).await;
    program.result().await;
    program.result().await;
    program.until(|it| it["state"] == "idle").await;
    let expected = ["running", "requires_action", "running", "running", "idle"];
    assert_eq!(program.states(), expected);
    assert_eq!(program.frames.last().expect("a frame")["state"], "idle");
}

#[tokio::test]
async fn a_program_that_initializes_again_learns_what_is_open_and_replaces_its_hooks() {
    let mut program = Scene::default().start([length("tea"), Step::Say("done")]).await;
    let initialize = json!({"subtype": "initialize", "hooks": null});
    program.request("first", &initialize).await;
    let first = program.response("first").await;
    assert_eq!(first["pending_permission_requests"], json!([]));
    program.user("go").await;
    let asked = program.asked("can_use_tool").await;
    let hooks = json!({"Stop": [{"matcher": null, "hookCallbackIds": ["h"]}]});
    program.request("second", &json!({"subtype": "initialize", "hooks": hooks})).await;
    let second = program.response("second").await;
    assert_eq!(second["subtype"], "success", "{second}");
    assert_eq!(second["response"]["hooks_applied"], true, "{second}");
    assert_eq!(second["pending_permission_requests"], json!([asked]));
    program.answer(&asked, &json!({"behavior": "allow"})).await;
    // The hook of the second request is called.
    let stop = program.asked("hook_callback").await;
    program.answer(&stop, &json!({})).await;
    assert_eq!(program.result().await["result"], "done");
    program.request("third", &initialize).await;
    assert_eq!(program.response("third").await["pending_permission_requests"], json!([]));
    program.model.add([Step::Say("without a hook")]);
    program.user("again").await;
    assert_eq!(program.result().await["result"], "without a hook");
}

#[tokio::test]
async fn a_tool_that_decides_is_called_whatever_the_mode_was_at_the_start() {
    let source = PermissionSource::Tool("mcp__s__decide".to_owned());
    let scene = Scene { source, mode: PermissionMode::DontAsk, ..Scene::default() };
    let mut program = scene.start([length("tea"), Step::Say("done")]).await;
    program.request("mode", &json!({"subtype": "set_permission_mode", "mode": "default"})).await;
    program.response("mode").await;
    program.user("go").await;
    program.result().await;
    // The answer is the first text; what follows is none.
    assert_eq!(program.tool_result(), ("3".to_owned(), false));
    assert_eq!(program.calls(), ["decide", "tea"]);
    program.end().await;
}

#[tokio::test]
async fn folders_in_an_answer_reach_the_backend() {
    let mut program = Scene::default().start([length("tea"), Step::Say("done")]).await;
    program.user("go").await;
    let asked = program.asked("can_use_tool").await;
    let update = json!({"type": "addDirectories", "directories": ["/a"], "destination": "session"});
    let answer = json!({"behavior": "allow", "updatedPermissions": [update]});
    program.answer(&asked, &answer).await;
    program.result().await;
    let updates = program.backend.updates.lock().expect("no panic").clone();
    assert_eq!(updates, [PermissionUpdate::AddDirectories(vec!["/a".to_owned()])]);
}
