//! The kit: what handlers and clients can do, in both eras.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard_builtin::kit::context::{HandlerContext, LogLevel};
use switchboard_builtin::kit::elicitation::{Elicitation, ElicitationResult, FormField};
use switchboard_builtin::kit::handler_error::HandlerError;
use switchboard_builtin::kit::server::Server;
use switchboard_builtin::kit::tool::Tool;
use switchboard_builtin::kit::tool_output::ToolOutput;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallError;
use switchboard_wire::protocol::capabilities::ClientCapability;
use switchboard_wire::protocol::era::Era;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::test_client::{BOTH_ERAS, TIMEOUT, TestClient};

#[derive(Deserialize)]
struct NoArguments {}

#[derive(Deserialize)]
struct SumArguments {
    a: i64,
    b: i64,
}

fn add() -> Tool {
    Tool::new("add", "Adds.", async |_: HandlerContext, it: SumArguments| {
        Ok(ToolOutput::structured(json!({"sum": it.a + it.b}), (it.a + it.b).to_string()))
    })
    .input_schema(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}), &["a", "b"])
    .read_only()
}

fn server(tool: Tool) -> Arc<Server> {
    Arc::new(Server::new("kit", "1").instructions("Try it.").tool(tool))
}

#[tokio::test]
async fn a_tool_is_listed_and_called_in_either_era() {
    let server = server(add().title("Add up"));
    for era in BOTH_ERAS {
        let test_client = TestClient::new(&server, era).await;
        let introduction = test_client.client.server();
        assert_eq!(
            (introduction.name.as_str(), introduction.server_version.as_str()),
            ("kit", "1")
        );
        assert_eq!(introduction.instructions.as_deref(), Some("Try it."));
        let listed = test_client.request_json("tools/list", json!({})).await.expect("a list");
        assert_eq!(
            listed["tools"],
            json!([{
                "name": "add", "title": "Add up", "description": "Adds.",
                "inputSchema": {
                    "type": "object", "additionalProperties": false, "required": ["a", "b"],
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                },
                "annotations": {"readOnlyHint": true, "openWorldHint": false},
            }])
        );
        assert_eq!(
            test_client.call("add", json!({"a": 2, "b": 3})).await,
            json!({"content": [{"type": "text", "text": "5"}], "structuredContent": {"sum": 5}})
        );
        test_client.shut_down().await;
    }
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let server = server(add());
    for era in BOTH_ERAS {
        let test_client = TestClient::new(&server, era).await;
        let bad = test_client.call("add", json!({"a": "x", "b": 1})).await;
        assert_eq!(bad["isError"], true, "{bad}");
        for (method, params, code) in [
            ("tools/call", json!({"name": "gone"}), -32602),
            ("tools/call", json!({"name": 5}), -32602),
            ("tools/list", json!({"cursor": "elsewhere"}), -32602),
            ("resources/list", json!({}), -32602),
            ("prompts/get", json!({"name": "gone"}), -32602),
            ("completion/complete", json!({"argument": {"name": "a", "value": ""}}), -32602),
            ("tasks/list", json!({}), -32601),
        ] {
            let error = test_client.request_json(method, params).await.expect_err("it is refused");
            assert_eq!(error.code, code, "{method}: {error}");
        }
        let huge = json!({"name": "add", "arguments": {"a": "x".repeat(5 * 1024 * 1024)}});
        assert_eq!(
            test_client.request_json("tools/call", huge).await.expect_err("too large").code,
            -32602
        );
        assert_eq!(test_client.text("add", json!({"a": 1, "b": 1})).await, "2");
        test_client.shut_down().await;
    }
}

#[tokio::test]
async fn a_panicking_handler_ends_only_its_call() {
    let panics = Tool::new("panic", "Panics.", async |_: HandlerContext, it: SumArguments| {
        let first = [1].get(usize::try_from(it.a).unwrap_or(9)).copied();
        Ok(ToolOutput::text(first.expect("the test wants this panic").to_string()))
    });
    let server = server(panics);
    let test_client = TestClient::new(&server, Era::Modern).await;
    let params = json!({"name": "panic", "arguments": {"a": 5, "b": 0}});
    assert_eq!(
        test_client.request_json("tools/call", params).await.expect_err("it panicked").code,
        -32603
    );
    assert_eq!(test_client.text("panic", json!({"a": 0, "b": 0})).await, "1");
    test_client.shut_down().await;
}

#[tokio::test]
async fn progress_arrives_in_order_and_before_the_response() {
    let steps = Tool::new("steps", "Steps.", async |context: HandlerContext, _: NoArguments| {
        for step in 1..=5 {
            context.progress(step, 5, &format!("step {step}")).await;
        }
        Ok(ToolOutput::text("done"))
    });
    let server = server(steps);
    for era in BOTH_ERAS {
        let test_client = TestClient::new(&server, era).await;
        let (tell, mut progress) = mpsc::channel(16);
        let call =
            test_client.request("tools/call", json!({"name": "steps"})).progress_sender(tell);
        call.send().await.expect("an answer");
        let mut steps = Vec::new();
        while let Ok(update) = progress.try_recv() {
            let update: Json = update.0.decode().expect("JSON");
            steps.push((update["progress"].as_u64(), update["total"].as_u64()));
        }
        assert_eq!(steps, (1..=5).map(|it| (Some(it), Some(5))).collect::<Vec<_>>());
        // Without a progress token there are no notifications.
        let mut quiet_client = TestClient::new(&server, era).await;
        quiet_client.call("steps", json!({})).await;
        assert!(quiet_client.notifications.try_recv().is_err());
        test_client.shut_down().await;
        quiet_client.shut_down().await;
    }
}

/// Notifies when it is dropped.
struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_and_gets_no_response() {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started_sender, dropped_sender) = (started.clone(), dropped.clone());
    let forever =
        Tool::new("forever", "Never ends.", move |context: HandlerContext, _: NoArguments| {
            let (started, guard) = (started_sender.clone(), NotifyOnDrop(dropped_sender.clone()));
            async move {
                let _guard = guard;
                assert!(!context.is_cancelled());
                started.notify_one();
                std::future::pending::<()>().await;
                Ok(ToolOutput::text("never"))
            }
        });
    let server = server(forever);
    for era in BOTH_ERAS {
        let test_client = TestClient::new(&server, era).await;
        let call = test_client.request("tools/call", json!({"name": "forever"}));
        let calling = tokio::spawn(call.send());
        timeout(TIMEOUT, started.notified()).await.expect("it begins");
        calling.abort();
        timeout(TIMEOUT, dropped.notified()).await.expect("it is dropped");
        // Other calls still get a response, and closing the transport ends a call without one.
        let listed = test_client.request_json("tools/list", json!({})).await.expect("a list");
        assert_eq!(listed["tools"][0]["name"], "forever");
        let calling =
            tokio::spawn(test_client.request("tools/call", json!({"name": "forever"})).send());
        timeout(TIMEOUT, started.notified()).await.expect("it begins");
        test_client.client.close();
        timeout(TIMEOUT, dropped.notified()).await.expect("it is dropped with the link");
        let ended = calling.await.expect("no panic");
        assert!(matches!(ended, Err(CallError::Closed { .. })), "{ended:?}");
        test_client.shut_down().await;
    }
}

fn eliciting_tool(runs: &Arc<AtomicUsize>) -> Tool {
    let runs = runs.clone();
    Tool::new("ask", "Asks twice.", move |context: HandlerContext, _: NoArguments| {
        runs.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut messages = Vec::new();
            for name in ["one", "two"] {
                let question = Elicitation::form(name, vec![FormField::text("message", "It")]);
                match context.elicit(&question).await? {
                    ElicitationResult::Accepted(given) => messages.push(given["message"].clone()),
                    ElicitationResult::Declined | ElicitationResult::Cancelled => {
                        return Err(HandlerError::failed("no"));
                    }
                }
            }
            Ok(ToolOutput::text(json!(messages).to_string()))
        }
    })
}

#[tokio::test]
async fn several_elicitations_get_their_own_answers_in_both_eras() {
    for (era, expected) in [(Era::Legacy, 1), (Era::Modern, 3)] {
        let runs = Arc::new(AtomicUsize::new(0));
        let server = server(eliciting_tool(&runs));
        let answer = json!({"action": "accept", "content": "asked"});
        let abilities = vec![ClientCapability::Elicitation];
        let test_client = TestClient::with_answer(&server, era, abilities, answer).await;
        // The client's answer repeats the question, so each answer names its question.
        assert_eq!(test_client.text("ask", json!({})).await, r#"["one","two"]"#, "{era}");
        assert_eq!(runs.load(Ordering::Relaxed), expected, "{era}");
        test_client.shut_down().await;
    }
}

#[tokio::test]
async fn a_client_without_elicitation_is_not_asked() {
    let server = server(eliciting_tool(&Arc::default()));
    let non_eliciting = |era| TestClient::with_answer(&server, era, Vec::new(), Json::Null);
    let legacy = non_eliciting(Era::Legacy).await;
    let result = legacy.call("ask", json!({})).await;
    assert_eq!(result["isError"], true);
    let modern = non_eliciting(Era::Modern).await;
    let error =
        modern.request_json("tools/call", json!({"name": "ask"})).await.expect_err("refused");
    let data: Json = error.data.expect("data").decode().expect("JSON");
    assert_eq!(error.code, -32021);
    assert_eq!(data, json!({"requiredCapabilities": {"elicitation": {"form": {}}}}));
    legacy.shut_down().await;
    modern.shut_down().await;
}

#[tokio::test]
async fn a_forged_state_is_refused() {
    let server = server(eliciting_tool(&Arc::default()));
    let test_client = TestClient::new(&server, Era::Modern).await;
    let params = json!({"name": "ask", "requestState": "{}", "inputResponses": {"question-1": {"action": "accept"}}});
    assert_eq!(
        test_client.request_json("tools/call", params).await.expect_err("foreign").code,
        -32602
    );
    test_client.shut_down().await;
}

#[tokio::test]
async fn tool_list_changes_are_sent_to_subscribers() {
    let server = server(add());
    let mut legacy = TestClient::new(&server, Era::Legacy).await;
    let mut modern = TestClient::new(&server, Era::Modern).await;
    let listening = open_subscription(&modern, json!({"toolsListChanged": true}));
    assert_eq!(modern.next_notification().await.0, "notifications/subscriptions/acknowledged");
    server.add_tool(Tool::new("new", "New.", async |_: HandlerContext, _: NoArguments| {
        Ok(ToolOutput::default())
    }));
    assert_eq!(legacy.next_notification().await.0, "notifications/tools/list_changed");
    let (method, params) = modern.next_notification().await;
    assert_eq!(method, "notifications/tools/list_changed");
    assert!(params["_meta"]["io.modelcontextprotocol/subscriptionId"].is_u64(), "{params}");
    let names = legacy.request_json("tools/list", json!({})).await.expect("a list");
    assert_eq!(
        (&names["tools"][0]["name"], &names["tools"][1]["name"]),
        (&json!("add"), &json!("new"))
    );
    assert!(server.remove_tool("new").is_some());
    assert_eq!(modern.next_notification().await.0, "notifications/tools/list_changed");
    // A client that stopped listening gets no more notifications.
    listening.abort();
    let _aborted = listening.await;
    modern.request_json("tools/list", json!({})).await.expect("a list");
    server.add_tool(add());
    modern.request_json("tools/list", json!({})).await.expect("a list");
    assert!(modern.notifications.try_recv().is_err());
    legacy.shut_down().await;
    modern.shut_down().await;
}

pub fn open_subscription(
    test_client: &TestClient,
    filter: Json,
) -> tokio::task::JoinHandle<Result<Payload, CallError>> {
    let params = json!({"notifications": filter});
    let params = Payload::from_json(params.to_string().into());
    tokio::spawn(test_client.client.request("subscriptions/listen").params(params).send())
}

#[tokio::test]
async fn log_messages_respect_the_clients_level() {
    let log_tool = Tool::new("talk", "Talks.", async |context: HandlerContext, _: NoArguments| {
        context.log(LogLevel::Debug, "quietly").await;
        context.log(LogLevel::Warning, "loudly").await;
        Ok(ToolOutput::text("done"))
    });
    let server = server(log_tool);
    let mut legacy = TestClient::new(&server, Era::Legacy).await;
    legacy.call("talk", json!({})).await;
    let loudly = json!({"level": "warning", "data": "loudly"});
    assert_eq!(
        legacy.next_notification().await,
        ("notifications/message".to_owned(), loudly.clone())
    );
    legacy.request_json("logging/setLevel", json!({"level": "emergency"})).await.expect("a level");
    legacy.call("talk", json!({})).await;
    assert!(legacy.notifications.try_recv().is_err());
    legacy
        .request_json("logging/setLevel", json!({"level": "shouting"}))
        .await
        .expect_err("no level");
    let mut modern = TestClient::new(&server, Era::Modern).await;
    modern.call("talk", json!({})).await;
    assert!(modern.notifications.try_recv().is_err());
    let meta = json!({"io.modelcontextprotocol/logLevel": "warning"});
    modern
        .request_json("tools/call", json!({"name": "talk", "_meta": meta}))
        .await
        .expect("a result");
    assert_eq!(modern.next_notification().await.1, loudly);
    legacy.shut_down().await;
    modern.shut_down().await;
}

#[tokio::test]
async fn too_many_concurrent_requests_are_refused() {
    let release = Arc::new(Notify::new());
    let released = release.clone();
    let wait = Tool::new("wait", "Waits.", move |_: HandlerContext, _: NoArguments| {
        let released = released.clone();
        async move {
            released.notified().await;
            Ok(ToolOutput::text("done"))
        }
    });
    let server = server(wait);
    let test_client = TestClient::new(&server, Era::Modern).await;
    let (tell, mut answers) = mpsc::channel(100);
    for _ in 0..65 {
        let call = test_client.request("tools/call", json!({"name": "wait"}));
        let tell = tell.clone();
        tokio::spawn(async move { tell.send(call.send().await.is_ok()).await });
    }
    let first = timeout(TIMEOUT, answers.recv()).await.expect("one is refused at once");
    assert_eq!(first, Some(false));
    release.notify_waiters();
    for _ in 0..64 {
        assert_eq!(timeout(TIMEOUT, answers.recv()).await.expect("in time"), Some(true));
    }
    test_client.shut_down().await;
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let server = Arc::new((0..250).fold(Server::new("many", "1"), |server, number| {
        let name = format!("tool_{number:03}");
        server.tool(Tool::new(&name, "One.", async |_: HandlerContext, _: NoArguments| {
            Ok(ToolOutput::default())
        }))
    }));
    let test_client = TestClient::new(&server, Era::Modern).await;
    let mut sizes = Vec::new();
    let mut params = json!({});
    loop {
        let page = test_client.request_json("tools/list", params).await.expect("a page");
        sizes.push(page["tools"].as_array().map_or(0, Vec::len));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(sizes, [100, 100, 50]);
    test_client.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_has_no_time_limit() {
    let slow = Tool::new("slow", "Takes an hour.", async |_: HandlerContext, _: NoArguments| {
        tokio::time::timeout(Duration::from_secs(3600), std::future::pending::<()>())
            .await
            .map_or_else(
                |_| Ok(ToolOutput::text("an hour later")),
                |()| Err(HandlerError::failed("early")),
            )
    });
    let server = server(slow);
    let test_client = TestClient::new(&server, Era::Modern).await;
    let call = test_client
        .request("tools/call", json!({"name": "slow"}))
        .timeout(Duration::from_secs(7200));
    assert!(call.send().await.is_ok());
    test_client.shut_down().await;
}
