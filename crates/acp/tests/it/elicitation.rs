//! Elicitations of servers, in editors with and without elicitation.

use serde_json::{Value as Json, json};

use crate::harness::{Editor, Step, allow, choose};

fn steps(tool: &str) -> [Step; 2] {
    let tool = match tool {
        "form" => "mcp__demo__book_table",
        _ => "mcp__demo__sign_guestbook",
    };
    [Step::Call("c1", tool, json!({})), Step::Say("done")]
}

#[tokio::test]
async fn a_form_is_one_of_the_editor_and_its_values_reach_the_server() {
    let mut editor = Editor::start(json!({"elicitation": {"form": {}}}), steps("form")).await;
    let session = editor.open().await;
    let values = json!({"name": "Ada", "day": "2026-12-24", "guests": 2, "seating": "bar"});
    let end = editor
        .prompt(&session, "book", |method, params| match method {
            "elicitation/create" => json!({"action": "accept", "content": values}),
            _ => allow(method, params),
        })
        .await;
    assert_eq!(end, "end_turn");
    let methods: Vec<&str> = editor.asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["session/request_permission", "elicitation/create"]);
    let form = &editor.asked[1].1;
    assert_eq!((&form["mode"], &form["sessionId"]), (&json!("form"), &json!(session)));
    assert_eq!(form["requestedSchema"]["properties"]["guests"]["maximum"], 12);
    assert_eq!(form["requestedSchema"]["required"][0], "name");
    let text = editor.call_text("c1");
    assert!(text.contains("Ada on 2026-12-24, guests: 2, seating: bar"), "{text}");
    editor.stop().await;
}

#[tokio::test]
async fn a_page_is_one_of_the_editor_and_declining_it_reaches_the_server() {
    let mut editor = Editor::start(json!({"elicitation": {"url": {}}}), steps("url")).await;
    let session = editor.open().await;
    editor
        .prompt(&session, "sign", |method, params| match method {
            "elicitation/create" => json!({"action": "decline"}),
            _ => allow(method, params),
        })
        .await;
    let page = &editor.asked[1].1;
    assert_eq!(page["url"], "https://example.com/switchboard/guestbook");
    assert!(editor.call_text("c1").contains("you declined"), "{}", editor.call_text("c1"));
    editor.stop().await;
}

#[tokio::test]
async fn an_editor_without_elicitation_gets_options_for_a_page_and_a_form_is_declined() {
    let steps = steps("url").into_iter().chain(steps("form"));
    let mut editor = Editor::start(json!({}), steps).await;
    let session = editor.open().await;
    let answer = |_: &str, params: &Json| {
        let is_page = params["toolCall"]["toolCallId"] == "elicitation_1";
        choose(if is_page { "0" } else { "allow_once" })
    };
    editor.prompt(&session, "sign", answer).await;
    let labels: Vec<&Json> = editor.asked[1].1["options"]
        .as_array()
        .expect("options")
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(labels, ["I opened the page", "Decline"]);
    assert!(editor.call_text("c1").contains("You went"), "{}", editor.call_text("c1"));
    editor.asked.clear();
    editor.prompt(&session, "book", answer).await;
    assert_eq!(editor.asked.len(), 1, "{:?}", editor.asked);
    assert!(editor.call_text("c1").contains("declined"), "{}", editor.call_text("c1"));
    editor.stop().await;
}
