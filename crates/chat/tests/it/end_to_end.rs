//! Whole conversations: the agent loop, a real model client, the scripted model service and the demo server.

use std::sync::Arc;

use serde_json::json;
use switchboard::config::settings::model::ModelProvider;
use switchboard_builtin::demo;
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::conversation::setup::ConversationSetup;
use testkit::ModelService;
use testkit::model_service::{Reply, ReplyPart};

use crate::harness::{Harness, RunningConversation, StepModel};
use crate::model_clients::{FAST_RETRY, client_at};

async fn demonstration() -> (tempfile::TempDir, Harness) {
    let folder = tempfile::tempdir().expect("a temp folder");
    let server = demo::server(folder.path().join("notes.json"));
    (folder, Harness::new(Arc::try_unwrap(server).expect("ours alone")).await)
}

#[tokio::test]
async fn a_conversation_with_calls_pictures_and_a_retry_works_with_every_client() {
    for provider in ModelProvider::ALL {
        let (_folder, harness) = demonstration().await;
        let service = ModelService::start([
            Reply::error(529, "overloaded_error", "Overloaded"),
            Reply::message([
                ReplyPart::text("I add."),
                ReplyPart::tool_call("1", "mcp__s__add_note", &json!({"text": "buy tea"})),
                ReplyPart::tool_call("2", "mcp__s__draw_clock", &json!({"hour": 1, "minute": 2})),
            ]),
            Reply::message([ReplyPart::text("So"), ReplyPart::Disconnect]),
            Reply::text("Done."),
        ])
        .expect("it starts");
        let model = Arc::new(client_at(provider, service.origin(), FAST_RETRY));
        let setup = ConversationSetup { model: Some(model), ..harness.options(StepModel::new([])) };
        let mut conversation = RunningConversation::new(Conversation::start(setup));
        let seen = conversation.ask("remember the tea").await;
        assert_eq!(
            seen.iter().filter(|it| !it.starts_with("call 2")).collect::<Vec<_>>(),
            [
                "taken up 1",
                "again 1: it is overloaded: Overloaded (529)",
                "text I add.",
                "answer ended",
                "used 100 30 7",
                "began 1 s: add_note",
                "call 1 Done: Note 1 is written down.\n[resource note://1 buy tea]",
                "began 2 s: draw_clock",
                "text So",
                seen.iter().find(|it| it.starts_with("again 1: its answer")).expect("it broke off"),
                "text Done.",
                "answer ended",
                "used 200 60 14",
                "ended Finished",
            ],
            "{provider:?}"
        );
        let sent = service.request_body(3).to_string();
        assert!(sent.contains("Note 1 is written down.") && sent.contains("iVBOR"), "{provider:?}");
        conversation.end().await;
        harness.stop().await;
    }
}

#[tokio::test]
async fn an_interrupted_response_leaves_messages_that_every_service_accepts() {
    for provider in ModelProvider::ALL {
        let (_folder, harness) = demonstration().await;
        let replies = [
            Reply::message([ReplyPart::tool_call("1", "mcp__s__list_notes", &json!({}))]),
            Reply::message([ReplyPart::text("Well"), ReplyPart::Stall]),
            Reply::text("ok"),
        ];
        let service = ModelService::start(replies).expect("it starts");
        let model = Arc::new(client_at(provider, service.origin(), FAST_RETRY));
        let setup = ConversationSetup { model: Some(model), ..harness.options(StepModel::new([])) };
        let mut conversation = RunningConversation::new(Conversation::start(setup));
        conversation.send("go").await;
        conversation.until(|it| it == "text Well").await;
        conversation.handle.interrupt().await;
        assert_eq!(conversation.turn().await, ["ended Interrupted"]);
        assert_eq!(
            conversation.ask("again").await.last().map(String::as_str),
            Some("ended Finished")
        );
        conversation.end().await;
        harness.stop().await;
    }
}
