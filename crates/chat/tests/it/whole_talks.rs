//! Whole conversations: the loop, a real client, the scripted service and the demonstration's server together.

use std::sync::Arc;

use serde_json::json;
use switchboard::config::model_choice::Provider;
use switchboard_builtin::demonstration;
use switchboard_chat::talk::{Setting, Talk};
use testkit::ModelService;
use testkit::model_service::{Piece, Reply};

use crate::clients::{QUICK, client_at};
use crate::stage::{Chat, Listed, Stage};

async fn demonstration() -> (tempfile::TempDir, Stage) {
    let folder = tempfile::tempdir().expect("a temp folder");
    let server = demonstration::server(folder.path().join("notes.json"));
    (folder, Stage::new(Arc::try_unwrap(server).expect("ours alone")).await)
}

#[tokio::test]
async fn a_conversation_with_calls_pictures_and_a_retry_works_with_every_client() {
    for provider in Provider::ALL {
        let (_folder, stage) = demonstration().await;
        let service = ModelService::start([
            Reply::refuse(529, "overloaded_error", "Overloaded"),
            Reply::answer([
                Piece::say("I add."),
                Piece::call("1", "mcp__s__add_note", &json!({"text": "buy tea"})),
                Piece::call("2", "mcp__s__draw_clock", &json!({"hour": 1, "minute": 2})),
            ]),
            Reply::answer([Piece::say("So"), Piece::BreakOff]),
            Reply::say("Done."),
        ])
        .expect("it starts");
        let model = Arc::new(client_at(provider, service.origin(), QUICK));
        let setting = Setting { model: Some(model), ..stage.setting(Listed::new([])) };
        let mut chat = Chat::of(Talk::begin(setting));
        let seen = chat.ask("remember the tea").await;
        assert_eq!(
            seen.iter().filter(|it| !it.starts_with("call 2")).collect::<Vec<_>>(),
            [
                "taken up 1",
                "again 1: it is asked too much: Overloaded (529)",
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
        let sent = service.body(3).to_string();
        assert!(sent.contains("Note 1 is written down.") && sent.contains("iVBOR"), "{provider:?}");
        chat.end().await;
        stage.stop().await;
    }
}

#[tokio::test]
async fn an_interrupt_during_an_answer_leaves_what_every_service_takes() {
    for provider in Provider::ALL {
        let (_folder, stage) = demonstration().await;
        let replies = [
            Reply::answer([Piece::call("1", "mcp__s__list_notes", &json!({}))]),
            Reply::answer([Piece::say("Well"), Piece::Stall]),
            Reply::say("ok"),
        ];
        let service = ModelService::start(replies).expect("it starts");
        let model = Arc::new(client_at(provider, service.origin(), QUICK));
        let setting = Setting { model: Some(model), ..stage.setting(Listed::new([])) };
        let mut chat = Chat::of(Talk::begin(setting));
        chat.say("go").await;
        chat.until(|it| it == "text Well").await;
        chat.talk.interrupt().await;
        assert_eq!(chat.turn().await, ["ended Interrupted"]);
        assert_eq!(chat.ask("again").await.last().map(String::as_str), Some("ended Finished"));
        chat.end().await;
        stage.stop().await;
    }
}
