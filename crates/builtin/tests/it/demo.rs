//! The demo server, tool by tool.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard_builtin::demo;
use switchboard_builtin::kit::server::Server;
use switchboard_wire::protocol::capabilities::ClientCapability;
use switchboard_wire::protocol::era::Era;
use tokio::sync::mpsc;

use crate::kit::open_subscription;
use crate::test_client::{BOTH_ERAS, TestClient};

fn server(folder: &Path) -> Arc<Server> {
    demo::server(folder.join("deep/notes.json"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temp folder")
}

#[tokio::test]
async fn the_tools_are_listed_with_their_hints() {
    let folder = folder();
    let test_client = TestClient::new(&server(folder.path()), Era::Modern).await;
    let listed = test_client.request_json("tools/list", json!({})).await.expect("a list");
    let kind = |tool: &Json| {
        let hints = &tool["annotations"];
        match (hints["readOnlyHint"].as_bool(), hints["destructiveHint"].as_bool()) {
            (Some(true), _) => "reads",
            (_, Some(false)) => "adds",
            (_, _) => "destroys",
        }
    };
    let tools: Vec<String> = listed["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| format!("{} {}", it["name"].as_str().unwrap_or_default(), kind(it)))
        .collect();
    assert_eq!(
        tools,
        [
            "add_note adds",
            "book_table adds",
            "count_slowly reads",
            "delete_note destroys",
            "draw_clock reads",
            "echo reads",
            "list_notes reads",
            "long_text reads",
            "now reads",
            "rewrite_note destroys",
            "sign_guestbook adds",
        ]
    );
    assert_eq!(test_client.text("echo", json!({"text": "hello"})).await, "hello");
    let now = test_client.call("now", json!({"offset": "+02:00"})).await;
    let time = now["structuredContent"]["time"].as_str().expect("a time");
    assert!(time.ends_with("+02:00"), "{time}");
    assert_eq!(test_client.call("now", json!({"offset": "noon"})).await["isError"], true);
    test_client.shut_down().await;
}

#[tokio::test]
async fn input_schemas_describe_the_arguments() {
    let folder = folder();
    let test_client = TestClient::new(&server(folder.path()), Era::Modern).await;
    let listed = test_client.request_json("tools/list", json!({})).await.expect("a list");
    let note_id = json!({"type": "integer", "minimum": 1});
    let note_text = json!({"type": "string", "minLength": 1, "maxLength": 10_000});
    let offset = json!({
        "type": "string", "pattern": "^[+-][0-9]{2}:[0-9]{2}$",
        "description": "The time zone, as its distance from UTC: +02:00",
    });
    let pause = json!({
        "type": "integer", "minimum": 0, "maximum": 60_000, "default": 500,
        "description": "How long a pause is.",
    });
    let expected = [
        ("add_note", json!({"text": note_text}), json!(["text"])),
        ("book_table", json!({}), json!([])),
        (
            "count_slowly",
            json!({
                "steps": {"type": "integer", "minimum": 1, "maximum": 1000},
                "milliseconds": pause,
            }),
            json!(["steps"]),
        ),
        ("delete_note", json!({"id": note_id}), json!(["id"])),
        (
            "draw_clock",
            json!({
                "hour": {"type": "integer", "minimum": 0, "maximum": 23},
                "minute": {"type": "integer", "minimum": 0, "maximum": 59},
            }),
            json!(["hour", "minute"]),
        ),
        ("echo", json!({"text": {"type": "string", "maxLength": 100_000}}), json!(["text"])),
        ("list_notes", json!({}), json!([])),
        (
            "long_text",
            json!({"lines": {"type": "integer", "minimum": 1, "maximum": 100_000}}),
            json!(["lines"]),
        ),
        ("now", json!({"offset": offset}), json!([])),
        ("rewrite_note", json!({"id": note_id, "text": note_text}), json!(["id", "text"])),
        ("sign_guestbook", json!({}), json!([])),
    ];
    let tools = listed["tools"].as_array().expect("a list");
    for (tool, (name, properties, required)) in tools.iter().zip(expected) {
        let schema = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        });
        assert_eq!((&tool["name"], &tool["inputSchema"]), (&json!(name), &schema));
    }
    test_client.shut_down().await;
}

#[tokio::test]
async fn notes_survive_a_restart_in_a_private_file() {
    let folder = folder();
    let first = TestClient::new(&server(folder.path()), Era::Legacy).await;
    assert_eq!(first.text("list_notes", json!({})).await, "There are no notes.");
    let added = first.call("add_note", json!({"text": "Buy tea\nand cake"})).await;
    assert_eq!(added["structuredContent"], json!({"id": 1, "uri": "note://1"}));
    first.shut_down().await;
    let second = TestClient::new(&server(folder.path()), Era::Modern).await;
    second.call("add_note", json!({"text": "Call Ada"})).await;
    assert_eq!(second.text("list_notes", json!({})).await, "1: Buy tea\n2: Call Ada\n");
    assert_eq!(second.text("delete_note", json!({"id": 2})).await, "Note 2 is gone: Call Ada");
    assert_eq!(second.call("delete_note", json!({"id": 2})).await["isError"], true);
    // IDs are not reused.
    second.call("add_note", json!({"text": "Third"})).await;
    assert_eq!(second.text("list_notes", json!({})).await, "1: Buy tea\n3: Third\n");
    for text in ["", "  ", &"x".repeat(10_001)] {
        assert_eq!(second.call("add_note", json!({"text": text})).await["isError"], true);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &str| {
            let metadata = folder.path().join(path).metadata().expect("it is there");
            metadata.permissions().mode() & 0o777
        };
        assert_eq!((mode("deep"), mode("deep/notes.json")), (0o700, 0o600));
    }
    second.shut_down().await;
    let left: Vec<_> = folder.path().join("deep").read_dir().expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn a_file_with_other_content_is_not_overwritten() {
    let folder = folder();
    let file = folder.path().join("deep/notes.json");
    std::fs::create_dir(folder.path().join("deep")).expect("a folder");
    std::fs::write(&file, "not notes").expect("a file");
    let test_client = TestClient::new(&server(folder.path()), Era::Modern).await;
    let result = test_client.call("add_note", json!({"text": "x"})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "not notes");
    test_client.shut_down().await;
}

#[tokio::test]
async fn many_writers_lose_nothing() {
    let folder = folder();
    let (one, other) = (server(folder.path()), server(folder.path()));
    let (one, other) =
        (TestClient::new(&one, Era::Modern).await, TestClient::new(&other, Era::Modern).await);
    let write = async |test_client: &TestClient| {
        for _ in 0..10 {
            test_client.call("add_note", json!({"text": "x"})).await;
        }
    };
    tokio::join!(write(&one), write(&other), write(&one), write(&other));
    assert_eq!(one.text("list_notes", json!({})).await.lines().count(), 40);
    one.shut_down().await;
    other.shut_down().await;
}

#[tokio::test]
async fn notes_are_read_and_subscribed_to_in_both_eras() {
    for era in BOTH_ERAS {
        let folder = folder();
        let server = server(folder.path());
        let mut test_client = TestClient::new(&server, era).await;
        match era {
            Era::Legacy => {
                test_client
                    .request_json("resources/subscribe", json!({"uri": "note://1"}))
                    .await
                    .expect("yes");
            }
            Era::Modern => {
                let wants =
                    json!({"resourcesListChanged": true, "resourceSubscriptions": ["note://1"]});
                open_subscription(&test_client, wants);
                assert_eq!(
                    test_client.next_notification().await.0,
                    "notifications/subscriptions/acknowledged"
                );
            }
        }
        test_client.call("add_note", json!({"text": "Buy tea"})).await;
        assert_eq!(test_client.next_notification().await.0, "notifications/resources/list_changed");
        let listed = test_client.request_json("resources/list", json!({})).await.expect("a list");
        assert_eq!(
            listed["resources"],
            json!([{"uri": "note://1", "name": "note 1", "description": "Buy tea", "mimeType": "text/plain"}])
        );
        let read = test_client
            .request_json("resources/read", json!({"uri": "note://1"}))
            .await
            .expect("it is there");
        assert_eq!(read["contents"][0]["text"], "Buy tea");
        test_client.call("rewrite_note", json!({"id": 1, "text": "Buy coffee"})).await;
        let (method, params) = test_client.next_notification().await;
        assert_eq!(
            (method.as_str(), &params["uri"]),
            ("notifications/resources/updated", &json!("note://1"))
        );
        let missing = test_client.request_json("resources/read", json!({"uri": "note://9"})).await;
        let code = if era == Era::Legacy { -32002 } else { -32602 };
        assert_eq!(missing.expect_err("nothing is there").code, code);
        let templates =
            test_client.request_json("resources/templates/list", json!({})).await.expect("a list");
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "note://{id}");
        test_client.shut_down().await;
    }
}

#[tokio::test]
async fn prompts_are_rendered_and_their_arguments_completed() {
    let folder = folder();
    let test_client = TestClient::new(&server(folder.path()), Era::Modern).await;
    test_client.call("add_note", json!({"text": "Tea ceremonies"})).await;
    let render = async |name: &str, arguments: Json| {
        let params = json!({"name": name, "arguments": arguments});
        test_client
            .request_json("prompts/get", params)
            .await
            .map(|it| it["messages"][0]["content"]["text"].clone())
    };
    assert_eq!(
        render("summarise_notes", json!({})).await.expect("words"),
        "Summarise these notes in a sentence or two:\n\n1: Tea ceremonies"
    );
    assert_eq!(
        render("write_about", json!({"topic": "tea", "tone": "funny"})).await.expect("words"),
        "Write five lines about tea, in a funny tone."
    );
    assert_eq!(render("write_about", json!({})).await.expect_err("no topic").code, -32602);
    assert_eq!(
        render("write_about", json!({"topic": "a", "x": "y"})).await.expect_err("x").code,
        -32602
    );
    let complete = async |about: Json, name: &str, value: &str| {
        let params = json!({"ref": about, "argument": {"name": name, "value": value}});
        let completed =
            test_client.request_json("completion/complete", params).await.expect("values");
        completed["completion"]["values"].clone()
    };
    let prompt = json!({"type": "ref/prompt", "name": "write_about"});
    assert_eq!(complete(prompt.clone(), "tone", "f").await, json!(["formal", "friendly", "funny"]));
    assert_eq!(complete(prompt.clone(), "topic", "tea").await, json!(["Tea ceremonies", "tea"]));
    assert_eq!(complete(prompt, "other", "").await, json!([]));
    let template = json!({"type": "ref/resource", "uri": "note://{id}"});
    assert_eq!(complete(template, "id", "").await, json!(["1"]));
    test_client.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn counting_reports_progress() {
    let folder = folder();
    let test_client = TestClient::new(&server(folder.path()), Era::Modern).await;
    let (tell, mut progress) = mpsc::channel(16);
    let params = json!({"name": "count_slowly", "arguments": {"steps": 3, "milliseconds": 700}});
    test_client
        .request("tools/call", params)
        .progress_sender(tell)
        .send()
        .await
        .expect("it counts");
    let mut messages = Vec::new();
    while let Ok(update) = progress.try_recv() {
        let update: Json = update.0.decode().expect("JSON");
        messages.push(update["message"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(messages, ["counted to 1", "counted to 2", "counted to 3"]);
    let never = test_client.call("count_slowly", json!({"steps": 100_000})).await;
    assert_eq!(never["isError"], true);
    test_client.shut_down().await;
}

#[tokio::test]
async fn results_may_be_long_or_pictures() {
    let folder = folder();
    let test_client = TestClient::new(&server(folder.path()), Era::Modern).await;
    let text = test_client.text("long_text", json!({"lines": 3000})).await;
    assert_eq!(text.lines().count(), 3000);
    let picture = test_client.call("draw_clock", json!({"hour": 10, "minute": 8})).await;
    assert_eq!(picture["content"][0]["mimeType"], "image/png");
    assert_eq!(
        test_client.call("draw_clock", json!({"hour": 30, "minute": 8})).await["isError"],
        true
    );
    test_client.shut_down().await;
}

#[tokio::test]
async fn a_table_is_booked_only_if_the_user_accepts() {
    let folder = folder();
    let server = server(folder.path());
    let full = json!({"name": "Ada", "day": "2026-07-28", "guests": 4, "newsletter": false});
    for era in BOTH_ERAS {
        for (answer, structured, text) in [
            (
                json!({"action": "accept", "content": full}),
                json!({"action": "accept", "given": full}),
                "Booked (not really): Ada on 2026-07-28, guests: 4, seating: anything.",
            ),
            (
                json!({"action": "decline"}),
                json!({"action": "decline"}),
                "No table was booked: you declined.",
            ),
            (
                json!({"action": "cancel"}),
                json!({"action": "cancel"}),
                "No table was booked: you closed the question.",
            ),
            (
                json!({"action": "accept", "content": {"name": "Ada", "guests": 13}}),
                Json::Null,
                "`day` has to be a day, as 2026-07-28",
            ),
        ] {
            let abilities = vec![ClientCapability::Elicitation];
            let test_client = TestClient::with_answer(&server, era, abilities, answer).await;
            let result = test_client.call("book_table", json!({})).await;
            assert_eq!(result["structuredContent"], structured, "{era}");
            assert_eq!(result["content"][0]["text"], text, "{era}");
            test_client.shut_down().await;
        }
    }
}

#[tokio::test]
async fn the_guestbook_is_a_url_elicitation() {
    let folder = folder();
    let server = server(folder.path());
    for era in BOTH_ERAS {
        let abilities = vec![ClientCapability::Elicitation];
        let test_client =
            TestClient::with_answer(&server, era, abilities, json!({"action": "accept"})).await;
        let text = test_client.text("sign_guestbook", json!({})).await;
        assert_eq!(text, "You went to the guestbook.", "{era}");
        test_client.shut_down().await;
    }
}

#[tokio::test]
async fn the_booking_form_has_a_valid_schema() {
    let folder = folder();
    let test_client = TestClient::new(&server(folder.path()), Era::Modern).await;
    let params = json!({"name": "book_table", "arguments": {}});
    // Without an answer the result is the input request.
    let result = test_client
        .client
        .request("tools/call")
        .params(switchboard_wire::jsonrpc::message::Payload::from_json(params.to_string().into()))
        .send()
        .await
        .expect("a question");
    let result: Json = result.decode().expect("JSON");
    assert_eq!(result["resultType"], "input_required");
    let question = &result["inputRequests"]["question-1"];
    assert_eq!(question["method"], "elicitation/create");
    let schema = &question["params"]["requestedSchema"];
    assert_eq!(schema["required"], json!(["name", "day", "guests"]));
    assert_eq!(
        schema["properties"]["guests"],
        json!({"type": "integer", "minimum": 1, "maximum": 12, "title": "How many guests"})
    );
    assert_eq!(schema["properties"]["newsletter"]["default"], false);
    assert_eq!(schema["properties"]["seating"]["enum"], json!(["inside", "terrace", "bar"]));
    test_client.shut_down().await;
}
