//! Channels in the session of a program: their messages begin turns of their own, and a channel may answer before the program.

use serde_json::{Value as Json, json};
use switchboard::channel::ChannelRelay;
use switchboard_chat::control::session::SessionEnd;
use testkit::ChannelScript;

use super::program::{Scene, TestChannel, length};
use crate::harness::{Step, lines};

fn scene(script: ChannelScript, relay: ChannelRelay) -> Scene {
    Scene { channel: Some(TestChannel { script, relay }), ..Scene::default() }
}

fn kinds(frames: &[Json]) -> Vec<String> {
    let kind = |it: &Json| {
        let subtype = it["subtype"].as_str().map(|it| format!("/{it}")).unwrap_or_default();
        format!("{}{subtype}", it["type"].as_str().unwrap_or_default())
    };
    frames.iter().map(kind).filter(|it| !it.contains("state_changed")).collect()
}

#[tokio::test]
async fn a_message_begins_a_turn_with_a_result_of_its_own() {
    let mut program = scene(ChannelScript::default(), ChannelRelay::Off)
        .start([Step::Say("hello ann"), Step::Say("hello program")])
        .await;
    program.feed.message("hi", &json!({"user": "ann"}));
    program.request("init", &json!({"subtype": "initialize"})).await;
    program.response("init").await;
    let before = program.frames.len();
    let result = program.result().await;
    assert_eq!(result["result"], "hello ann");
    let expected = ["system/init", "system/channel_message", "assistant", "result/success"];
    assert_eq!(kinds(&program.frames[before..]), expected);
    let frame = program.frames.iter().find(|it| it["subtype"] == "channel_message");
    let frame = frame.expect("it was printed");
    assert_eq!((&frame["server"], &frame["content"]), (&json!("chat"), &json!("hi")));
    assert_eq!(frame["meta"], json!({"user": "ann"}));
    let said = lines(&program.model.last_messages());
    assert_eq!(said, ["User: <channel source=\"chat\" user=\"ann\">\nhi\n</channel>"]);
    program.user("and I").await;
    assert_eq!(program.result().await["result"], "hello program");
    assert!(program.backend.warnings().contains("`chat` may send messages"));
    assert_eq!(program.end().await, SessionEnd::Finished);
}

#[tokio::test]
async fn messages_wait_until_the_session_is_set_up_and_the_turn_of_the_program_is_over() {
    let steps = [length("tea"), Step::Say("first"), Step::Say("second")];
    let mut program = scene(ChannelScript::default(), ChannelRelay::Off).start(steps).await;
    program.feed.message("early", &json!({}));
    program.delivered(1).await;
    // The program asks without `initialize`.
    program.user("go").await;
    let asked = program.asked("can_use_tool").await;
    program.feed.message("meanwhile", &json!({}));
    program.delivered(2).await;
    program.answer(&asked, &json!({"behavior": "allow"})).await;
    assert_eq!(program.result().await["result"], "first");
    assert!(!kinds(&program.frames).contains(&"system/channel_message".to_owned()));
    assert_eq!(program.result().await["result"], "second");
    let said = lines(&program.model.last_messages());
    let both = "User: <channel source=\"chat\">\nearly\n</channel> \
                <channel source=\"chat\">\nmeanwhile\n</channel>";
    assert_eq!(said.last().map(String::as_str), Some(both));
    program.end().await;
}

#[tokio::test]
async fn messages_whose_turn_is_interrupted_before_it_began_come_after_the_next_turn() {
    let script = ChannelScript::default();
    let scene = Scene { hosted: Some("calc"), ..scene(script, ChannelRelay::Off) };
    let mut program = scene.start([Step::Say("first"), Step::Say("second")]).await;
    program.feed.message("hi", &json!({}));
    program.request("init", &json!({"subtype": "initialize"})).await;
    // The turn waits for the server of the program.
    program.until(|it| it["state"] == "running").await;
    program.request("stop", &json!({"subtype": "interrupt"})).await;
    assert_eq!(program.result().await["subtype"], "error_during_execution");
    let hosted = program.frames.iter().find(|it| it["request"]["subtype"] == "mcp_message");
    let hosted = hosted.cloned().expect("it was asked");
    let refused = json!({"jsonrpc": "2.0", "id": hosted["request"]["message"]["id"],
        "error": {"code": -32601, "message": "no such server"}});
    program.answer(&hosted, &json!({"mcp_response": refused})).await;
    program.user("go").await;
    assert_eq!(program.result().await["result"], "first");
    assert!(!kinds(&program.frames).contains(&"system/channel_message".to_owned()));
    assert_eq!(program.result().await["result"], "second");
    let said = lines(&program.model.last_messages());
    let message = "User: <channel source=\"chat\">\nhi\n</channel>";
    assert_eq!(said.last().map(String::as_str), Some(message));
    program.end().await;
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_session_whatever_a_channel_sends() {
    let mut program =
        scene(ChannelScript::default(), ChannelRelay::Off).start([Step::Say("done")]).await;
    program.user("go").await;
    program.result().await;
    program.close();
    program.feed.message("anyone there?", &json!({}));
    assert_eq!(program.end().await, SessionEnd::Finished);
}

#[tokio::test]
async fn a_hook_of_the_program_sees_messages_and_can_refuse_them() {
    let mut program = scene(ChannelScript::default(), ChannelRelay::Off).start([]).await;
    program.hook("UserPromptSubmit", &json!({})).await;
    program.feed.message("buy now", &json!({}));
    let asked = program.asked("hook_callback").await;
    let prompt = asked["request"]["input"]["prompt"].as_str().expect("a text");
    assert!(prompt.contains("<channel source=\"chat\">\nbuy now\n</channel>"), "{prompt}");
    program.answer(&asked, &json!({"decision": "block", "reason": "no spam"})).await;
    program.result().await;
    assert_eq!(program.model.requests().len(), 0);
    program.end().await;
}

#[tokio::test]
async fn a_channel_that_answers_first_withdraws_the_question_from_the_program() {
    let script = ChannelScript::with_permissions().answers(&["allow"]);
    let steps = [length("tea"), Step::Say("done")];
    let mut program = scene(script, ChannelRelay::On).start(steps).await;
    program.user("go").await;
    assert_eq!(program.result().await["result"], "done");
    assert_eq!(program.tool_result(), ("3".to_owned(), false));
    let asked = program.frames.iter().find(|it| it["request"]["subtype"] == "can_use_tool");
    let asked = asked.expect("the program is asked as well");
    let is_withdrawn = |it: &&Json| {
        it["type"] == "control_cancel_request" && it["request_id"] == asked["request_id"]
    };
    assert!(program.frames.iter().any(|it| is_withdrawn(&it)), "{:#?}", program.frames);
    program.until(|it| it["state"] == "idle").await;
    assert_eq!(program.states(), ["running", "requires_action", "running", "idle"]);
    program.end().await;
}
