//! Stored conversations: what is written, read, repaired and deleted.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use switchboard::sources::Paths;
use switchboard_builtin::kit::context::HandlerContext;
use switchboard_builtin::kit::server::Server;
use switchboard_builtin::kit::tool::Tool;
use switchboard_builtin::kit::tool_output::ToolOutput;
use switchboard_chat::message::{ContentBlock, Message, Role, ToolUse};
use switchboard_chat::transcript::{Transcript, TranscriptError, TranscriptStore};
use tempfile::TempDir;

use crate::harness::{Harness, Step, StepModel, lines};

fn user(text: &str) -> Message {
    Message { role: Role::User, content: vec![ContentBlock::Text { text: text.to_owned() }] }
}

fn calling(id: &str) -> Message {
    let call = ToolUse { id: id.to_owned(), tool: "t".to_owned(), arguments: json!({}) };
    Message { role: Role::Assistant, content: vec![ContentBlock::ToolUse(call)] }
}

fn transcripts() -> (TempDir, TranscriptStore, PathBuf) {
    let folder = tempfile::tempdir().expect("a temp folder");
    let paths = Paths::in_dir(folder.path());
    let root = folder.path().join("project");
    let transcripts = TranscriptStore::for_project(&paths, &root);
    (folder, transcripts, paths.conversations(&root))
}

fn written(transcripts: &TranscriptStore, messages: &[Message]) -> Transcript {
    let mut transcript = transcripts.create();
    for it in messages {
        transcript.append(it).expect("it is written");
    }
    transcript
}

#[test]
fn messages_are_read_again_and_listed() {
    let (_folder, transcripts, folder_path) = transcripts();
    assert!(matches!(transcripts.resume_last(), Err(TranscriptError::Empty)));
    let one = written(&transcripts, &[user("first\nwords"), user("more")]);
    let id = one.id().expect("something was said").to_owned();
    let (_, messages) = transcripts.resume(&id).expect("it is there");
    assert_eq!(messages, [user("first\nwords"), user("more")]);
    let listed = transcripts.list().expect("a list");
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].preview.as_str(), listed[0].messages), ("first words", 2));
    assert_eq!(listed[0].id, id);
    for no_such in ["no-such-id", "../../etc/passwd", ""] {
        assert!(
            matches!(transcripts.resume(no_such), Err(TranscriptError::NotFound(_))),
            "{no_such}"
        );
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: PathBuf| fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode(folder_path.clone()) & 0o777, 0o700);
        assert_eq!(mode(folder_path.join(format!("{id}.jsonl"))) & 0o777, 0o600);
    }
}

#[test]
fn a_line_that_was_not_finished_costs_that_line_alone() {
    let (_folder, transcripts, folder_path) = transcripts();
    let one = written(&transcripts, &[user("a"), calling("c")]);
    let id = one.id().expect("something was said").to_owned();
    let path = folder_path.join(format!("{id}.jsonl"));
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("it is there");
    file.write_all(br#"{"at":"x","speaker":"user","par"#).expect("written");
    drop(file);
    let (mut again, messages) = transcripts.resume_last().expect("it can be read");
    let expected = [
        "User: a",
        "Assistant: <call c t>",
        r#"User: <result c! ["the program ended before the result came"]>"#,
    ];
    assert_eq!(lines(&messages), expected);
    again.append(&user("on")).expect("it is written");
    let (_, messages) = transcripts.resume(&id).expect("it can be read");
    assert_eq!(
        lines(&messages)[2..],
        [r#"User: <result c! ["the program ended before the result came"]> on"#]
    );
}

#[test]
fn only_so_many_are_kept() {
    let (_folder, transcripts, folder_path) = transcripts();
    for at in 0..205 {
        written(&transcripts, &[user(&format!("{at}"))]);
    }
    assert_eq!(fs::read_dir(folder_path).expect("it is there").count(), 200);
}

#[tokio::test]
async fn a_conversation_writes_itself_down_and_goes_on_where_it_was() {
    let hello = async |_: HandlerContext, _: serde_json::Value| Ok(ToolOutput::text("hello"));
    let harness =
        Harness::new(Server::new("s", "1").tool(Tool::new("hello", "Hello.", hello))).await;
    let transcripts = TranscriptStore::for_project(&harness.paths(), harness.folder.path());
    let model = StepModel::new([
        Step::Call("", vec![("1", "mcp__s__hello", json!({}))]),
        Step::Say("one"),
        Step::Say("two"),
        Step::Say("three"),
    ]);
    let mut conversation = harness.start_recorded(&model, transcripts.create(), Vec::new());
    conversation.ask("hi").await;
    let id = conversation.handle.status().id.expect("it is kept");
    conversation.end().await;
    let (transcript, before) = transcripts.resume_last().expect("it is there");
    assert_eq!(transcript.id(), Some(&*id));
    assert_eq!(lines(&before)[3], "Assistant: one");
    let mut conversation = harness.start_recorded(&model, transcript, before);
    conversation.ask("go on").await;
    assert_eq!(model.last_messages().len(), 5);
    assert_eq!(conversation.handle.status().id, Some(id));
    // After `clear` a new conversation starts.
    conversation.handle.clear().await;
    conversation.ask("anew").await;
    conversation.end().await;
    assert_eq!(transcripts.list().expect("a list").len(), 2);
    harness.stop().await;
}

#[test]
fn a_conversation_may_have_a_chosen_id_and_no_second_one_may_have_it() {
    let (_folder, transcripts, _) = transcripts();
    let mut one = transcripts.create_with_id("my-id").expect("it is free");
    assert_eq!((one.session_id(), one.id()), ("my-id", None));
    one.append(&user("hello")).expect("it is written");
    assert_eq!(one.id(), Some("my-id"));
    assert!(matches!(transcripts.create_with_id("my-id"), Err(TranscriptError::Exists(_))));
    for invalid in ["", "../x", "a/b", "a b"] {
        let refused = transcripts.create_with_id(invalid);
        assert!(matches!(refused, Err(TranscriptError::InvalidId(_))), "{invalid}");
    }
    assert_ne!(one.restarted().session_id(), "my-id");
}

#[test]
fn a_copy_has_the_messages_and_leaves_the_original_alone() {
    let (_folder, transcripts, _) = transcripts();
    let original = written(&transcripts, &[user("first")]);
    let id = original.session_id().to_owned();
    let (_, history) = transcripts.resume(&id).expect("it is there");
    let mut copy = transcripts.create().with_messages(&history).expect("it is written");
    copy.append(&user("second")).expect("it is written");
    assert_ne!(copy.session_id(), id);
    let messages = |id: &str| transcripts.resume(id).expect("it is there").1;
    assert_eq!(messages(copy.session_id()), [user("first"), user("second")]);
    assert_eq!(messages(&id), [user("first")]);
}

#[test]
fn a_conversation_that_is_not_saved_leaves_no_file() {
    let (_folder, transcripts, folder_path) = transcripts();
    let mut one = transcripts.create_unsaved().with_messages(&[user("first")]).expect("nothing");
    one.append(&user("second")).expect("nothing is written");
    assert_eq!(one.id(), None);
    assert!(!one.restarted().session_id().is_empty());
    assert!(!folder_path.exists());
}
