//! The scripted model of the demo, with the demo server.

use std::sync::Arc;
use std::time::Duration;

use switchboard::CallContext;
use switchboard_builtin::demo;
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::conversation::setup::ConversationSetup;
use switchboard_chat::model::language_model::LanguageModel;
use switchboard_chat::model::scripted::ScriptedModel;

use crate::harness::{Harness, RunningConversation};

async fn harness() -> (tempfile::TempDir, Harness) {
    let folder = tempfile::tempdir().expect("a temp folder");
    let server = demo::server(folder.path().join("notes.json"));
    let server = Arc::try_unwrap(server).expect("ours alone");
    (folder, Harness::named(demo::NAME, server).await)
}

fn words(lines: &[String]) -> String {
    lines.iter().filter_map(|it| it.strip_prefix("text ")).collect()
}

#[tokio::test]
async fn the_demonstration_plays_from_beginning_to_end() {
    let (_folder, harness) = harness().await;
    let model = Arc::new(ScriptedModel::demo(Duration::ZERO));
    let people: Vec<String> = model.user_messages().map(str::to_owned).collect();
    let mut conversation = RunningConversation::new(Conversation::start(harness.options(model)));
    let mut seen = Vec::new();
    for line in &people {
        let turn = conversation.ask(line).await;
        assert_eq!(turn.last().map(String::as_str), Some("ended Finished"), "{turn:?}");
        seen.push(turn);
    }
    let has = |turn: usize, what: &str| {
        assert!(seen[turn].iter().any(|it| it.contains(what)), "{what}: {:?}", seen[turn]);
    };
    has(0, "began scripted_0_0_0 demo: now");
    has(0, "began scripted_0_0_1 demo: list_notes");
    has(1, "Done: Note 1 is written down.");
    has(2, "progress scripted_2_0_0");
    has(2, "began scripted_2_1_0 demo: book_table");
    let last = words(&seen[3]);
    assert!(last.contains("| 1 | buy tea for the operators |") && last.contains("```sh"), "{last}");
    for turn in &seen {
        assert!(!words(turn).contains('{'), "something is not quoted: {}", words(turn));
        assert!(!turn.iter().any(|it| it.contains(" Failed:")), "{turn:?}");
    }
    let after = conversation.ask("more?").await;
    assert!(words(&after).contains("end of the script"), "{after:?}");
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn where_nothing_is_allowed_it_says_so_and_goes_on() {
    let (_folder, harness) = harness().await;
    let call_context =
        CallContext::new(harness.host.watch_pool(), &harness.paths()).expect("a call context");
    let model = Arc::new(ScriptedModel::demo(Duration::ZERO));
    let people: Vec<String> = model.user_messages().map(str::to_owned).collect();
    let setup =
        ConversationSetup { call_context: Arc::new(call_context), ..harness.options(model) };
    let mut conversation = RunningConversation::new(Conversation::start(setup));
    for (line, expected) in people.iter().zip([
        "not allowed to look",
        "wrote nothing",
        "no table tonight",
        "stays closed",
    ]) {
        let turn = conversation.ask(line).await;
        assert_eq!(turn.last().map(String::as_str), Some("ended Finished"), "{turn:?}");
        assert!(words(&turn).contains(expected), "{turn:?}");
    }
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn words_come_at_the_pace_that_was_wanted() {
    let script =
        r#"{"name": "r", "turns": [{"person": "hi", "answers": [{"say": "one two three"}]}]}"#;
    let model = ScriptedModel::new(script, Duration::from_secs(1)).expect("a script");
    let messages = [switchboard_chat::message::Message {
        role: switchboard_chat::message::Role::User,
        content: vec![crate::model_clients::text("hi")],
    }];
    let request = switchboard_chat::model::language_model::ModelRequest {
        system_prompt: "".into(),
        messages: messages.into(),
        tools: [].into(),
        max_tokens: None,
    };
    let (say, mut received) = tokio::sync::mpsc::channel(10);
    let began = tokio::time::Instant::now();
    model.respond(request, say).await.expect("it answers");
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    let mut pieces = 0;
    while received.recv().await.is_some() {
        pieces += 1;
    }
    assert_eq!(pieces, 3);
    assert!(ScriptedModel::new("{}", Duration::ZERO).is_err());
}
