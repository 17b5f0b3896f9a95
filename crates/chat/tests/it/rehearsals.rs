//! The model that follows a script, with the demonstration's server.

use std::sync::Arc;
use std::time::Duration;

use switchboard::calling::CallContext;
use switchboard_builtin::demonstration;
use switchboard_chat::language_model::LanguageModel;
use switchboard_chat::rehearsed::ScriptedModel;
use switchboard_chat::talk::{Conversation, ConversationSetup};

use crate::stage::{Harness, RunningConversation};

async fn stage() -> (tempfile::TempDir, Harness) {
    let folder = tempfile::tempdir().expect("a temp folder");
    let server = demonstration::server(folder.path().join("notes.json"));
    let server = Arc::try_unwrap(server).expect("ours alone");
    (folder, Harness::named(demonstration::NAME, server).await)
}

fn words(lines: &[String]) -> String {
    lines.iter().filter_map(|it| it.strip_prefix("text ")).collect()
}

#[tokio::test]
async fn the_demonstration_plays_from_beginning_to_end() {
    let (_folder, stage) = stage().await;
    let model = Arc::new(ScriptedModel::demo(Duration::ZERO));
    let people: Vec<String> = model.user_messages().map(str::to_owned).collect();
    let mut conversation = RunningConversation::new(Conversation::start(stage.options(model)));
    let mut seen = Vec::new();
    for line in &people {
        let turn = conversation.ask(line).await;
        assert_eq!(turn.last().map(String::as_str), Some("ended Finished"), "{turn:?}");
        seen.push(turn);
    }
    let has = |turn: usize, what: &str| {
        assert!(seen[turn].iter().any(|it| it.contains(what)), "{what}: {:?}", seen[turn]);
    };
    has(0, "began rehearsed_0_0_0 demo: now");
    has(0, "began rehearsed_0_0_1 demo: list_notes");
    has(1, "Done: Note 1 is written down.");
    has(2, "progress rehearsed_2_0_0");
    has(2, "began rehearsed_2_1_0 demo: book_table");
    let last = words(&seen[3]);
    assert!(last.contains("| 1 | buy tea for the operators |") && last.contains("```sh"), "{last}");
    for turn in &seen {
        assert!(!words(turn).contains('{'), "something is not quoted: {}", words(turn));
        assert!(!turn.iter().any(|it| it.contains(" Failed:")), "{turn:?}");
    }
    let after = conversation.ask("more?").await;
    assert!(words(&after).contains("all I have rehearsed"), "{after:?}");
    conversation.end().await;
    stage.stop().await;
}

#[tokio::test]
async fn where_nothing_is_allowed_it_says_so_and_goes_on() {
    let (_folder, stage) = stage().await;
    let call_context = CallContext::new(&stage.host, &stage.paths()).expect("a desk");
    let model = Arc::new(ScriptedModel::demo(Duration::ZERO));
    let people: Vec<String> = model.user_messages().map(str::to_owned).collect();
    let setup = ConversationSetup { call_context: Arc::new(call_context), ..stage.options(model) };
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
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn words_come_at_the_pace_that_was_wanted() {
    let script =
        r#"{"name": "r", "turns": [{"person": "hi", "answers": [{"say": "one two three"}]}]}"#;
    let model = ScriptedModel::new(script, Duration::from_secs(1)).expect("a script");
    let messages = [switchboard_chat::utterance::Message {
        role: switchboard_chat::utterance::Role::User,
        content: vec![crate::clients::text("hi")],
    }];
    let request = switchboard_chat::language_model::ModelRequest {
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
