//! A server that the program hosts: its handshake, the calls it gets, and long times.

use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::config::permission::PermissionMode;
use switchboard_chat::control::session::SessionEnd;

use super::program::{Scene, TestProgram};
use crate::harness::Step;

const TWO_MINUTES: Duration = Duration::from_secs(120);

fn call(id: &'static str) -> Step {
    Step::Call("", vec![(id, "mcp__calc__add", json!({}))])
}

/// Answers messages to the server until a tool is called, and returns that request.
pub async fn serve_until_call(program: &mut TestProgram) -> Json {
    loop {
        let asked = program.asked("mcp_message").await;
        let message = &asked["request"]["message"];
        let result = match message["method"].as_str() {
            Some("initialize") => {
                assert_eq!(message["params"]["capabilities"], json!({}), "{message}");
                json!({"protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}}, "serverInfo": {"name": "calc", "version": "1"}})
            }
            Some("tools/list") => json!({"tools": [
                {"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => return asked,
            Some(_) | None => json!({}),
        };
        respond(program, &asked, &result).await;
    }
}

pub async fn respond(program: &mut TestProgram, asked: &Json, result: &Json) {
    let message =
        json!({"jsonrpc": "2.0", "id": asked["request"]["message"]["id"], "result": result});
    program.answer(asked, &json!({"mcp_response": message})).await;
}

fn scene() -> Scene {
    Scene { mode: PermissionMode::Bypass, hosted: Some("calc"), ..Scene::default() }
}

#[tokio::test]
async fn a_call_names_its_id_in_the_conversation_and_the_handshake_offers_nothing() {
    let mut program = scene().start([call("toolu_7"), Step::Say("done")]).await;
    program.user("go").await;
    let asked = serve_until_call(&mut program).await;
    let meta = &asked["request"]["message"]["params"]["_meta"];
    assert_eq!(meta["claudecode/toolUseId"], "toolu_7", "{asked}");
    assert!(!meta["progressToken"].is_null(), "{asked}");
    respond(&mut program, &asked, &json!({"content": [{"type": "text", "text": "4"}]})).await;
    program.result().await;
    assert_eq!(program.tool_result(), ("4".to_owned(), false));
}

#[tokio::test]
async fn a_server_that_never_answered_delays_no_message_once_the_input_has_ended() {
    let mut program = scene().start([Step::Say("one"), Step::Say("two")]).await;
    program.user("go").await;
    program.user("again").await;
    program.asked("mcp_message").await;
    let end = tokio::time::timeout(Duration::from_secs(8), program.end()).await;
    assert_eq!(end.expect("it ends"), SessionEnd::Finished);
}

/// anthropics/claude-agent-sdk-python#676, anthropics/claude-agent-sdk-typescript#15 and #114.
#[tokio::test]
async fn a_call_two_minutes_after_the_start_and_one_of_two_minutes_succeed() {
    let mut program = scene().start([call("t1"), Step::Say("done")]).await;
    program.user("go").await;
    let asked = serve_until_call(&mut program).await;
    tokio::time::pause();
    tokio::time::advance(TWO_MINUTES).await;
    respond(&mut program, &asked, &json!({"content": [{"type": "text", "text": "4"}]})).await;
    program.result().await;
    assert_eq!(program.tool_result(), ("4".to_owned(), false));
    program.frames.clear();
    tokio::time::advance(TWO_MINUTES).await;
    program.model.add([call("t2"), Step::Say("again")]);
    program.user("again").await;
    let asked = serve_until_call(&mut program).await;
    respond(&mut program, &asked, &json!({"content": [{"type": "text", "text": "5"}]})).await;
    program.result().await;
    assert_eq!(program.tool_result(), ("5".to_owned(), false));
}
