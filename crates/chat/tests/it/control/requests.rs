//! Control requests of a program: invalid ones, withdrawn ones, and the fields of `initialize`.

use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_chat::control::backend::InitializeFields;
use switchboard_chat::control::session::SessionEnd;

use super::program::{Scene, TestBackend, TestProgram, length};
use crate::harness::Step;

#[tokio::test]
async fn a_request_that_makes_no_sense_is_an_error_and_the_session_goes_on() {
    let mut program = Scene::default().start([Step::Say("hello")]).await;
    let interrupt = json!({"subtype": "interrupt"});
    for (id, request) in [
        (json!(5), interrupt.clone()),
        (Json::Null, interrupt),
        (json!("a"), json!({"subtype": 7})),
        (json!("b"), Json::Null),
    ] {
        program
            .send(&json!({"type": "control_request", "request_id": id, "request": request}))
            .await;
        let answer = program.until(|it| it["type"] == "control_response").await;
        assert_eq!(answer["response"]["subtype"], "error", "{answer}");
        assert_eq!(answer["response"]["request_id"], id, "{answer}");
    }
    program.send(&json!({"type": 5, "request_id": []})).await;
    program.send(&json!({"type": "control_response", "response": 3})).await;
    program.user("go").await;
    assert_eq!(program.result().await["result"], "hello");
}

#[tokio::test]
async fn a_value_of_a_wrong_type_is_an_error() {
    let mut program = Scene::default().start([]).await;
    for (at, request) in [
        json!({"subtype": "set_model", "model": 5}),
        json!({"subtype": "set_model", "model": {"name": "x"}}),
        json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": "many"}),
    ]
    .iter()
    .enumerate()
    {
        let id = at.to_string();
        program.request(&id, request).await;
        let answer = program.response(&id).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains("must be"), "{request}: {answer}");
    }
}

#[tokio::test]
async fn a_withdrawn_request_is_stopped_and_not_answered() {
    let mut program = Scene::default().start([]).await;
    let hang = json!({"subtype": "mcp_call", "server": "s", "tool": "hang", "arguments": {}});
    program.request("call", &hang).await;
    let settings = json!({"subtype": "get_settings"});
    while program.calls().is_empty() {
        program.request("wait", &settings).await;
        program.response("wait").await;
    }
    program.send(&json!({"type": "control_cancel_request", "request_id": "call"})).await;
    program.send(&json!({"type": "control_cancel_request", "request_id": "never sent"})).await;
    program.request("after", &settings).await;
    program.response("after").await;
    let answered = |id: &str| program.frames.iter().any(|it| it["response"]["request_id"] == id);
    assert!(!answered("call"), "{:#?}", program.frames);
    // A call that went on would keep the session from ending.
    program.end().await;
}

#[tokio::test]
async fn changes_of_the_model_take_effect_in_the_order_in_which_they_came() {
    let mut program = Scene::default().start([]).await;
    for model in ["slow", "fast"] {
        program.request(model, &json!({"subtype": "set_model", "model": model})).await;
    }
    let settings = json!({"subtype": "get_settings"});
    let opened = |program: &TestProgram| program.backend.opened.lock().expect("no panic").clone();
    while opened(&program).is_empty() {
        program.request("wait", &settings).await;
        program.response("wait").await;
    }
    assert_eq!(opened(&program), ["slow"]);
    program.backend.slow_model.notify_one();
    program.response("fast").await;
    assert_eq!(opened(&program), ["slow", "fast"]);
    let responses = program.frames.iter().map(|it| it["response"]["request_id"].as_str());
    let responses: Vec<&str> = responses.flatten().filter(|it| *it != "wait").collect();
    assert_eq!(responses, ["slow", "fast"]);
    program.end().await;
}

#[tokio::test]
async fn a_call_that_does_not_end_delays_the_end_of_the_session_for_a_moment_only() {
    let mut program = Scene::default().start([]).await;
    let hang = json!({"subtype": "mcp_call", "server": "s", "tool": "hang", "arguments": {}});
    program.request("call", &hang).await;
    while program.calls().is_empty() {
        program.request("wait", &json!({"subtype": "get_settings"})).await;
        program.response("wait").await;
    }
    let end = tokio::time::timeout(Duration::from_secs(10), program.end()).await;
    assert_eq!(end.expect("it ends"), SessionEnd::Finished);
}

#[tokio::test]
async fn a_blob_that_does_not_fit_in_a_frame_is_an_error_and_a_text_is_cut() {
    let mut program = Scene::default().start([]).await;
    let mut read = async |uri: &str| {
        let request = json!({"subtype": "mcp_read_resource", "server": "s", "uri": uri});
        program.request(uri, &request).await;
        program.response(uri).await
    };
    let fitting = read("blob:600000").await;
    let blob = fitting["response"]["contents"][0]["blob"].as_str().map(str::len);
    assert_eq!(blob, Some(800_000));
    assert_eq!(read("blob:800000").await["error"], "the answer is too large for one frame");
    let text = read("text:1200000").await;
    let text = text["response"]["contents"][0]["text"].as_str().unwrap_or_default();
    assert!(text.len() > 400_000 && text.ends_with("[cut: too long for one frame]"));
    program.end().await;
}

#[tokio::test]
async fn settings_rules_and_servers_can_come_in_the_first_request() {
    let mut program = Scene::default().start([]).await;
    let servers = json!({"a": {"command": "true"}});
    let initialize = json!({"subtype": "initialize", "disallowedTools": ["Write"],
        "settings": {"permissions": {}}, "mcpServers": servers});
    program.request("1", &initialize).await;
    let answer = program.response("1").await;
    for name in ["disallowed_tools_applied", "settings_applied", "mcp_servers_applied"] {
        assert_eq!(answer["response"][name], true, "{answer}");
    }
    let fields = program.backend.fields.lock().expect("no panic").clone();
    let expected = InitializeFields {
        disallowed_tools: vec!["Write".to_owned()],
        settings: Some(json!({"permissions": {}}).to_string()),
        servers: servers.as_object().cloned().expect("an object"),
    };
    assert_eq!(fields, [expected]);
}

#[tokio::test]
async fn fields_of_the_first_request_without_effect_are_named() {
    let mut program = Scene::default().start([]).await;
    let initialize = json!({"subtype": "initialize", "agents": {"a": {}}, "skills": [],
        "title": "t", "excludeDynamicSections": false});
    program.request("1", &initialize).await;
    assert_eq!(program.response("1").await["subtype"], "success");
    let expected = "fields of `initialize` have no effect here: agents, title";
    assert_eq!(program.backend.warnings(), expected);
}

#[tokio::test]
async fn no_message_is_sent_when_the_first_request_fails() {
    let failing =
        TestBackend { field_error: Some("no such rule".to_owned()), ..TestBackend::default() };
    for (backend, fields) in [
        (failing, json!({"disallowedTools": ["Write("]})),
        (TestBackend::default(), json!({"disallowedTools": "Write"})),
        (TestBackend::default(), json!({"settings": 5})),
        (TestBackend::default(), json!({"mcpServers": []})),
    ] {
        let mut program = Scene { backend, ..Scene::default() }.start([length("tea")]).await;
        let mut initialize = fields.clone();
        initialize["subtype"] = "initialize".into();
        program.request("1", &initialize).await;
        assert_eq!(program.response("1").await["subtype"], "error", "{fields}");
        program.user("go").await;
        assert_eq!(program.result().await["is_error"], true, "{fields}");
        assert_eq!(program.model.requests().len(), 0, "{fields}");
    }
}

#[tokio::test]
async fn a_message_waits_for_the_fields_that_the_command_line_announced() {
    let awaited_fields = vec!["disallowedTools".to_owned(), "settings".to_owned()];
    let scene = Scene { awaited_fields, ..Scene::default() };
    let mut program = scene.start([Step::Say("hello")]).await;
    program.user("go").await;
    let result = program.result().await;
    let errors = result["errors"].to_string();
    assert!(errors.contains("disallowedTools, settings"), "{errors}");
    let initialize = json!({"subtype": "initialize", "disallowedTools": [], "settings": "{}"});
    program.request("1", &initialize).await;
    assert_eq!(program.response("1").await["subtype"], "success");
    program.user("go").await;
    assert_eq!(program.result().await["result"], "hello");
}
