//! Sessions: the order of messages, cancellation, and their end.

use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::wire::jsonrpc::message::Payload;

use crate::harness::{Editor, Step, allow};

const TIMEOUT: Duration = Duration::from_secs(30);

fn write_note() -> [Step; 2] {
    let call = Step::Call("c1", "mcp__demo__book_table", json!({}));
    [call, Step::Say("done")]
}

#[tokio::test]
async fn the_editor_knows_a_call_before_it_is_asked_about_it() {
    let mut editor = Editor::start(json!({}), write_note()).await;
    let session = editor.open().await;
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let params = Payload::from_json(params.to_string().into());
    let call = editor.peer.call("session/prompt").params(params).timeout(TIMEOUT).into_future();
    tokio::pin!(call);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|it| it != "session/request_permission c1") {
        tokio::select! {
            event = editor.events.recv() => seen.push(described(&event.expect("open"))),
            outcome = &mut call => panic!("{outcome:?}"),
        }
    }
    let started = seen.iter().position(|it| it == "tool_call c1");
    assert!(started.is_some_and(|at| at + 1 < seen.len()), "{seen:?}");
    editor.stop().await;
}

fn described(event: &switchboard::wire::peer::PeerEvent) -> String {
    use switchboard::wire::peer::PeerEvent;
    let decoded = |params: &Option<Payload>| -> Json {
        params.as_ref().and_then(|it| it.decode().ok()).unwrap_or_default()
    };
    match event {
        PeerEvent::Request(request) => {
            let params = decoded(&request.params);
            let id = params["toolCall"]["toolCallId"].as_str().unwrap_or_default();
            format!("{} {id}", request.method)
        }
        PeerEvent::Notification { params, .. } => {
            let update = decoded(params)["update"].clone();
            let text = |name: &str| update[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("sessionUpdate"), text("toolCallId"))
        }
    }
}

#[tokio::test]
async fn a_permission_request_is_withdrawn_when_the_prompt_is_cancelled() {
    let mut editor = Editor::start(json!({}), write_note()).await;
    let session = editor.open().await;
    let (peer, id) = (editor.peer.clone(), session.clone());
    let (asked, mut cancel) = tokio::sync::mpsc::channel(1);
    let cancelling = tokio::spawn(async move {
        cancel.recv().await;
        let params = Payload::from_json(json!({"sessionId": id}).to_string().into());
        peer.notify("session/cancel", Some(params)).await.expect("it is sent");
    });
    let end = editor
        .prompt(&session, "go", |method, _| {
            assert_eq!(method, "session/request_permission");
            asked.try_send(()).expect("once");
            Json::Null
        })
        .await;
    assert_eq!(end, "cancelled");
    cancelling.await.expect("no panic");
    let methods: Vec<&str> = editor.asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["session/request_permission", "$/cancel_request"]);
    editor.stop().await;
}

#[tokio::test]
async fn a_cancelled_request_ends_its_turn() {
    let mut editor = Editor::start(json!({}), [Step::Hang("first"), Step::Say("second")]).await;
    let session = editor.open().await;
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let params = Payload::from_json(params.to_string().into());
    let call = editor.peer.call("session/prompt").params(params).timeout(TIMEOUT);
    let number = call.number();
    let call = call.into_future();
    tokio::pin!(call);
    loop {
        tokio::select! {
            event = editor.events.recv() => {
                if described(&event.expect("open")).starts_with("agent_message_chunk") {
                    break;
                }
            }
            outcome = &mut call => panic!("{outcome:?}"),
        }
    }
    editor.notify("$/cancel_request", json!({"requestId": number})).await;
    let response: Json = call.await.expect("a result").decode().expect("JSON");
    assert_eq!(response["stopReason"], "cancelled");
    assert_eq!(editor.prompt(&session, "again", allow).await, "end_turn");
    editor.stop().await;
}

#[tokio::test]
async fn closing_a_session_stops_its_host_and_the_end_of_the_agent_stops_the_others() {
    let mut editor = Editor::start(json!({}), [Step::Hang("x")]).await;
    let (one, two) = (editor.open().await, editor.open().await);
    assert_ne!(one, two);
    let close = json!({"sessionId": one});
    editor.request("session/close", close.clone(), |_, _| Json::Null).await.expect("closed");
    assert_eq!(editor.closed_sessions.try_recv(), Ok(()));
    assert!(editor.closed_sessions.try_recv().is_err());
    editor.request("session/close", close, |_, _| Json::Null).await.expect_err("not open");
    let mut closed =
        std::mem::replace(&mut editor.closed_sessions, tokio::sync::mpsc::channel(1).1);
    editor.stop().await;
    assert_eq!(closed.try_recv(), Ok(()));
}
