//! Turns of a session: messages without content, messages as they were written, notices.

use serde_json::{Value as Json, json};
use switchboard_chat::control::session::SessionEnd;

use super::program::Scene;
use crate::harness::{Step, lines};

fn user(content: &Json) -> Json {
    json!({"type": "user", "message": {"role": "user", "content": content}})
}

fn pdf() -> Json {
    json!({"type": "document", "source":
        {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}})
}

#[tokio::test]
async fn a_message_that_cannot_be_passed_on_is_one_error_result() {
    let mut program = Scene::default().start([Step::Say("hello")]).await;
    for content in [json!([pdf()]), json!([]), json!("")] {
        program.send(&user(&content)).await;
        let result = program.result().await;
        assert_eq!(result["subtype"], "error_during_execution", "{content}");
        assert_eq!(result["is_error"], true, "{content}");
        for member in ["duration_ms", "duration_api_ms", "num_turns", "session_id"] {
            assert!(!result[member].is_null(), "{member}");
        }
    }
    program.send(&user(&json!([pdf()]))).await;
    program.send(&user(&json!("go"))).await;
    program.close();
    assert_eq!(program.result().await["is_error"], true);
    assert_eq!(program.result().await["result"], "hello");
    assert_eq!(program.model.requests().len(), 1);
    assert!(program.backend.warnings().contains("`document` (application/pdf)"));
    assert_eq!(program.end().await, SessionEnd::Finished);
}

#[tokio::test]
async fn the_model_and_the_user_learn_of_a_block_that_is_left_out() {
    let mut program = Scene::default().start([Step::Say("hello")]).await;
    program.send(&user(&json!([{"type": "text", "text": "see"}, pdf()]))).await;
    program.result().await;
    let sent = lines(&program.model.last_messages()).join("\n");
    assert!(sent.contains("see") && sent.contains("`document` (application/pdf)"), "{sent}");
    assert!(program.backend.warnings().contains("`document` (application/pdf)"));
}

#[tokio::test]
async fn a_message_reaches_the_model_as_it_was_written() {
    let mut program = Scene::default().start([Step::Say("one"), Step::Say("two")]).await;
    for (text, priority) in [("/clear @Cargo.toml", json!("now")), ("/mcp", json!(5))] {
        let mut frame = user(&json!(text));
        frame["client_composed"] = true.into();
        frame["priority"] = priority;
        program.send(&frame).await;
        program.result().await;
        let sent = lines(&program.model.last_messages());
        assert_eq!(sent.last(), Some(&format!("User: {text}")));
    }
}

#[tokio::test]
async fn notices_come_once_behind_the_first_frame_of_a_turn() {
    let scene = Scene { notices: vec!["no prices".to_owned()], ..Scene::default() };
    let mut program = scene.start([Step::Say("one"), Step::Say("two")]).await;
    for _ in 0..2 {
        program.send(&user(&json!("go"))).await;
        program.result().await;
    }
    let subtypes: Vec<&str> = program
        .frames
        .iter()
        .filter(|it| it["type"] == "system" && it["state"].is_null())
        .filter_map(|it| it["subtype"].as_str())
        .collect();
    assert_eq!(subtypes, ["init", "informational", "init"]);
}

#[tokio::test]
async fn a_prompt_of_the_command_line_comes_before_the_messages_and_behind_initialize() {
    let scene = Scene { first_message: Some("first".to_owned()), ..Scene::default() };
    let mut program = scene.start([Step::Say("one"), Step::Say("two")]).await;
    program.hook("UserPromptSubmit", &json!({})).await;
    program.send(&user(&json!("second"))).await;
    for expected in ["first", "second"] {
        let asked = program.asked("hook_callback").await;
        assert_eq!(asked["request"]["input"]["prompt"], expected);
        program.answer(&asked, &json!({})).await;
        program.result().await;
    }
    let scene = Scene { first_message: Some("only".to_owned()), ..Scene::default() };
    let mut program = scene.start([Step::Say("one")]).await;
    program.close();
    assert_eq!(program.result().await["result"], "one");
}
