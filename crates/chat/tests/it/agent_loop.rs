//! The agent loop: turns, the order of calls, interrupts, queued messages, and the tools that the model is given.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::json;
use switchboard::CallContext;
use switchboard::config::permission::PermissionMode;
use switchboard_builtin::kit::context::HandlerContext;
use switchboard_builtin::kit::handler_error::HandlerError;
use switchboard_builtin::kit::server::Server;
use switchboard_builtin::kit::tool::Tool;
use switchboard_builtin::kit::tool_output::ToolOutput;
use switchboard_chat::conversation::event::CallOutcome;
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::conversation::hooks::{
    AfterCall, BeforeCall, CallDecision, ConversationHooks, EndAttempt, FinishedCall, HookFuture,
    SubmittedMessage, TurnEnding,
};
use switchboard_chat::conversation::setup::ConversationSetup;
use switchboard_chat::conversation::structured_output::StructuredOutput;
use switchboard_chat::message::{ContentBlock, ToolUse};
use tokio::sync::{Barrier, Notify};

use crate::harness::{Harness, RunningConversation, Step, StepModel, TEST_TIMEOUT, lines};

#[derive(Deserialize)]
struct Nothing {}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

fn echo() -> Tool {
    let echo = async |_: HandlerContext, it: Echo| Ok(ToolOutput::text(it.text));
    Tool::new("echo", "Returns its text.", echo)
        .input_schema(json!({"text": {"type": "string"}}), &["text"])
        .read_only()
}

fn server() -> Server {
    Server::new("s", "1").instructions("Mind the gap.").tool(echo())
}

fn call(id: &'static str, text: &str) -> (&'static str, &'static str, serde_json::Value) {
    (id, "mcp__s__echo", json!({"text": text}))
}

#[tokio::test]
async fn text_that_the_model_did_not_stream_is_sent_with_its_response() {
    let harness = Harness::new(server()).await;
    let model = StepModel::new([
        Step::SayAtOnce { streamed: "", text: "Done." },
        Step::SayAtOnce { streamed: "Do", text: "Done." },
    ]);
    let mut conversation = harness.start(&model);
    let text = |it: &String| it.strip_prefix("text ").map(str::to_owned);
    for expected in [&["Done."][..], &["Do", "ne."]] {
        let lines = conversation.ask("hi").await;
        assert_eq!(lines.iter().filter_map(text).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn a_turn_calls_tools_and_goes_on_until_the_model_is_done() {
    let harness = Harness::new(server()).await;
    let model =
        StepModel::new([Step::Call("I look.", vec![call("a", "hello")]), Step::Say("Done.")]);
    let mut conversation = harness.start(&model);
    assert_eq!(
        conversation.ask("hi").await,
        [
            "taken up 1",
            "text I look.",
            "answer ended",
            "used 10 4 2",
            "began a s: echo",
            "call a Done: hello",
            "text Done.",
            "answer ended",
            "used 20 8 4",
            "ended Finished",
        ]
    );
    let expected =
        ["User: hi", "Assistant: I look. <call a mcp__s__echo>", r#"User: <result a ["hello"]>"#];
    assert_eq!(lines(&model.last_messages()), expected);
    assert_eq!(conversation.handle.status().context_tokens, 12);
    let system = &model.requests()[0].system_prompt;
    assert!(system.starts_with("be brief") && system.contains("## s\nMind the gap."), "{system}");
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn calls_that_only_read_run_side_by_side_and_others_wait_their_turn() {
    let both = Arc::new(Barrier::new(2));
    let meet = move |_: HandlerContext, _: Nothing| {
        let both = both.clone();
        async move {
            both.wait().await;
            Ok(ToolOutput::text("met"))
        }
    };
    let running = Arc::new(AtomicUsize::new(0));
    let alone = move |_: HandlerContext, _: Nothing| {
        let running = running.clone();
        async move {
            let before = running.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolOutput::text(format!("{before} others")))
        }
    };
    let server = Server::new("s", "1")
        .tool(Tool::new("meet", "Waits for another one.", meet).read_only())
        .tool(Tool::new("change", "Changes.", alone));
    let harness = Harness::new(server).await;
    let calls = vec![
        ("1", "mcp__s__meet", json!({})),
        ("2", "mcp__s__meet", json!({})),
        ("3", "mcp__s__change", json!({})),
        ("4", "mcp__s__change", json!({})),
    ];
    let model = StepModel::new([Step::Call("", calls), Step::Say("ok")]);
    let mut conversation = harness.start(&model);
    let seen = conversation.ask("go").await;
    let begun: Vec<_> = seen.iter().filter(|it| it.starts_with("began")).collect();
    assert_eq!(
        begun,
        ["began 1 s: meet", "began 2 s: meet", "began 3 s: change", "began 4 s: change"]
    );
    let at = |line: &str| seen.iter().position(|it| it == line).expect(line);
    assert!(at("call 3 Done: 0 others") < at("began 4 s: change"));
    assert_eq!(
        lines(&model.last_messages())[2],
        r#"User: <result 1 ["met"]> <result 2 ["met"]> <result 3 ["0 others"]> <result 4 ["0 others"]>"#
    );
    conversation.end().await;
    harness.stop().await;
}

/// A tool that never returns. The first notification fires when it starts, the second when it is dropped.
fn endless() -> (Server, Arc<Notify>, Arc<Notify>) {
    struct DropNotifier(Arc<Notify>);
    impl Drop for DropNotifier {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (began, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begin, end) = (began.clone(), dropped.clone());
    let wait = move |_: HandlerContext, _: Nothing| {
        let (begin, end) = (begin.clone(), end.clone());
        async move {
            let _told = DropNotifier(end);
            begin.notify_one();
            std::future::pending::<Result<ToolOutput, HandlerError>>().await
        }
    };
    (
        Server::new("s", "1").tool(Tool::new("wait", "Never ends.", wait)).tool(echo()),
        began,
        dropped,
    )
}

#[tokio::test]
async fn an_interrupt_stops_calls_and_leaves_a_conversation_that_can_go_on() {
    let (server, began, dropped) = endless();
    let harness = Harness::new(server).await;
    let calls = vec![("1", "mcp__s__wait", json!({})), call("2", "never")];
    let model = StepModel::new([Step::Call("", calls), Step::Say("ok")]);
    let mut conversation = harness.start(&model);
    conversation.send("go").await;
    conversation.until(|it| it.starts_with("began 1")).await;
    began.notified().await;
    conversation.handle.interrupt().await;
    assert_eq!(
        conversation.turn().await,
        ["call 1 Interrupted: the user interrupted it", "ended Interrupted"]
    );
    tokio::time::timeout(TEST_TIMEOUT, dropped.notified()).await.expect("the server heard of it");
    conversation.ask("again").await;
    assert_eq!(
        lines(&model.last_messages())[2..],
        [
            r#"User: <result 1! ["the user interrupted it"]> <result 2! ["the user interrupted it"]>"#,
            "User: again"
        ]
    );
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn an_interrupt_keeps_the_part_of_the_response_that_was_shown() {
    let harness = Harness::new(server()).await;
    let model = StepModel::new([Step::Hang("I was about to"), Step::Say("ok")]);
    let mut conversation = harness.start(&model);
    conversation.send("go").await;
    conversation.until(|it| it == "text I was about to").await;
    conversation.handle.interrupt().await;
    assert_eq!(conversation.turn().await, ["ended Interrupted"]);
    // An interrupt between turns has no effect.
    conversation.handle.interrupt().await;
    assert_eq!(conversation.ask("again").await.last().map(String::as_str), Some("ended Finished"));
    assert_eq!(
        lines(&model.last_messages())[1..],
        ["Assistant: I was about to", "User: [the user interrupted this response]", "User: again"]
    );
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn messages_during_calls_are_sent_with_the_results_and_others_in_a_turn_of_their_own() {
    let go = Arc::new(Notify::new());
    let (gate, began) = (go.clone(), Arc::new(Notify::new()));
    let begin = began.clone();
    let wait = move |_: HandlerContext, _: Nothing| {
        let (gate, begin) = (gate.clone(), begin.clone());
        async move {
            begin.notify_one();
            gate.notified().await;
            Ok(ToolOutput::text("done"))
        }
    };
    let harness = Harness::new(Server::new("s", "1").tool(Tool::new("wait", "Waits.", wait))).await;
    let model = StepModel::new([
        Step::Call("", vec![("1", "mcp__s__wait", json!({}))]),
        Step::Say("ok"),
        Step::Say("and ok"),
    ]);
    let mut conversation = harness.start(&model);
    conversation.send("go").await;
    began.notified().await;
    conversation.send("and this").await;
    conversation.send("and that").await;
    go.notify_one();
    let seen = conversation.turn().await;
    assert!(seen.contains(&"taken up 2".to_owned()), "{seen:?}");
    assert_eq!(lines(&model.last_messages())[2], r#"User: <result 1 ["done"]> and this and that"#);
    conversation.ask("later").await;
    assert_eq!(lines(&model.last_messages()).last().map(String::as_str), Some("User: later"));
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn the_model_reads_why_a_call_failed() {
    let harness = Harness::new(server().tool(Tool::new(
        "fail",
        "Fails.",
        async |_: HandlerContext, _: Nothing| Err::<ToolOutput, _>(HandlerError::failed("no luck")),
    )))
    .await;
    // The server is not trusted, and there is no prompt.
    let call_context =
        CallContext::new(harness.host.watch_pool(), &harness.paths()).expect("a call context");
    let calls = vec![
        call("denied", "x"),
        ("none", "mcp__s__ech", json!({})),
        ("bad", "mcp__s__echo", json!({"text": 1})),
    ];
    let model = StepModel::new([Step::Call("", calls), Step::Say("ok")]);
    let setup = ConversationSetup {
        call_context: Arc::new(call_context),
        ..harness.options(model.clone())
    };
    let (handle, mut events, task) = Conversation::start(setup);
    handle.send(vec![ContentBlock::Text { text: "go".to_owned() }]).await;
    while !matches!(
        events.recv().await,
        Some(switchboard_chat::conversation::event::ConversationEvent::TurnEnded(_))
    ) {}
    let result = lines(&model.last_messages())[2].clone();
    assert!(result.contains("`mcp__s__echo` is not permitted"), "{result}");
    assert!(
        result.contains("there is no tool `mcp__s__ech`; the nearest are mcp__s__echo"),
        "{result}"
    );
    assert!(result.contains("the arguments of `mcp__s__echo` do not fit"), "{result}");
    drop(handle);
    task.await.expect("no panic");

    let model =
        StepModel::new([Step::Call("", vec![("f", "mcp__s__fail", json!({}))]), Step::Say("ok")]);
    let mut conversation = harness.start(&model);
    let seen = conversation.ask("go").await;
    assert!(seen.contains(&"call f ToolError: no luck".to_owned()), "{seen:?}");
    assert_eq!(lines(&model.last_messages())[2], r#"User: <result f! ["no luck"]>"#);
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn a_turn_ends_after_so_many_rounds_and_a_cut_answer_makes_no_calls() {
    let harness = Harness::new(server()).await;
    let model = StepModel::new([
        Step::Call("", vec![call("a", "1")]),
        Step::Call("", vec![call("a", "2")]),
        Step::CutShort("I wanted", vec![call("b", "3")]),
        Step::Fail,
        Step::Say("ok"),
    ]);
    let setup = ConversationSetup { max_rounds: 2, ..harness.options(model.clone()) };
    let mut conversation = crate::harness::RunningConversation::new(Conversation::start(setup));
    assert_eq!(
        conversation.ask("go").await.last().map(String::as_str),
        Some("ended TooManyRounds")
    );
    assert_eq!(conversation.ask("on").await.last().map(String::as_str), Some("ended CutShort"));
    let failed = conversation.ask("on").await;
    assert_eq!(failed, ["taken up 1", "ended failed: it is overloaded: try later"]);
    assert_eq!(conversation.ask("on").await.last().map(String::as_str), Some("ended Finished"));
    let said = lines(&model.last_messages());
    assert!(said[7].starts_with("User: <result b! [\"the answer was cut short"), "{said:?}");
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn without_a_model_words_fail_and_one_that_is_set_later_answers() {
    let harness = Harness::new(server()).await;
    let model = StepModel::new([Step::Say("ok"), Step::Say("new")]);
    let setup = ConversationSetup { model: None, ..harness.options(model.clone()) };
    let mut conversation = crate::harness::RunningConversation::new(Conversation::start(setup));
    assert_eq!(conversation.ask("hi").await, ["taken up 1", "ended failed: no model is set up"]);
    conversation.handle.set_model(Some(model.clone())).await;
    conversation.ask("now?").await;
    assert_eq!(lines(&model.last_messages()), ["User: hi", "User: now?"]);
    conversation.handle.clear().await;
    conversation.ask("anew").await;
    assert_eq!(lines(&model.last_messages()), ["User: anew"]);
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn calls_without_ids_get_some_and_a_search_offers_deferred_tools() {
    let many = (0..50).fold(server(), |server, at| {
        let count = async |_: HandlerContext, _: Nothing| Ok(ToolOutput::text("counted"));
        server.tool(Tool::new(&format!("count_{at}"), "Counts sheep.", count).read_only())
    });
    let harness = Harness::new(many).await;
    let model = StepModel::new([
        Step::Call(
            "",
            vec![
                ("", "search_tools", json!({"query": "echo text"})),
                ("", "mcp__s__count_7", json!({})),
            ],
        ),
        Step::Say("ok"),
    ]);
    let mut conversation = harness.start(&model);
    conversation.ask("go").await;
    let offered = |at: usize| -> Vec<String> {
        model.requests()[at].tools.iter().map(|it| it.name.clone()).collect()
    };
    assert_eq!(offered(0), ["search_tools"]);
    assert_eq!(offered(1)[0], "search_tools");
    assert!(offered(1).contains(&"mcp__s__echo".to_owned()), "{:?}", offered(1));
    assert!(offered(1).contains(&"mcp__s__count_7".to_owned()), "{:?}", offered(1));
    assert!(offered(1).len() < 20, "{:?}", offered(1));
    let said = lines(&model.last_messages());
    assert!(said[2].contains("<result call_1 ") && said[2].contains("<result call_2 "), "{said:?}");
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn progress_and_pictures_come_through() {
    let seen = Arc::new(Notify::new());
    let is_seen = seen.clone();
    let step = move |context: HandlerContext, _: Nothing| {
        let is_seen = is_seen.clone();
        async move {
            context.progress(1, 2, "half").await;
            is_seen.notified().await;
            Ok(ToolOutput::text("whole"))
        }
    };
    let harness = Harness::new(Server::new("s", "1").tool(Tool::new("step", "Steps.", step))).await;
    let calls = vec![("1", "mcp__s__step", json!({}))];
    let model = StepModel::new([Step::Call("", calls), Step::Say("ok")]);
    let mut conversation = harness.start(&model);
    conversation.send("go").await;
    conversation.until(|it| it == "progress 1 1 Some(2.0) half").await;
    seen.notify_one();
    conversation.turn().await;
    conversation.end().await;
    harness.stop().await;

    let folder = tempfile::tempdir().expect("a temp folder");
    let demonstration = switchboard_builtin::demo::server(folder.path().join("notes.json"));
    let demonstration = Arc::try_unwrap(demonstration).expect("ours alone");
    let harness = Harness::new(demonstration).await;
    let model = StepModel::new([
        Step::Call("", vec![("1", "mcp__s__draw_clock", json!({"hour": 1, "minute": 2}))]),
        Step::Say("ok"),
    ]);
    let mut conversation = harness.start(&model);
    conversation.ask("go").await;
    assert!(
        lines(&model.last_messages())[2].contains("<image/png>"),
        "{:?}",
        lines(&model.last_messages())
    );
    conversation.end().await;
    harness.stop().await;
}

/// Changes what the tests ask for, and records the order of events.
struct RecordingHooks {
    before: fn(&ToolUse) -> BeforeCall,
    after: fn(FinishedCall<'_>) -> AfterCall,
    refuse: Option<&'static str>,
    continue_once: bool,
}

impl RecordingHooks {
    fn passive() -> RecordingHooks {
        RecordingHooks {
            before: |_| BeforeCall::default(),
            after: |_| AfterCall::default(),
            refuse: None,
            continue_once: false,
        }
    }
}

impl ConversationHooks for RecordingHooks {
    fn message_submitted<'a>(
        &'a self,
        message: &'a [ContentBlock],
    ) -> HookFuture<'a, SubmittedMessage> {
        let is_refused = self.refuse.is_some_and(|word| format!("{message:?}").contains(word));
        let refused_because = is_refused.then(|| "not that".to_owned());
        let context = vec![ContentBlock::Text { text: "by the way".to_owned() }];
        Box::pin(async { SubmittedMessage { context, refused_because } })
    }

    fn before_call<'a>(&'a self, call: &'a ToolUse) -> HookFuture<'a, BeforeCall> {
        Box::pin(async move { (self.before)(call) })
    }

    fn after_call<'a>(&'a self, call: FinishedCall<'a>) -> HookFuture<'a, AfterCall> {
        Box::pin(async move { (self.after)(call) })
    }

    fn after_round<'a>(&'a self) -> HookFuture<'a, Vec<ContentBlock>> {
        Box::pin(async { vec![ContentBlock::Text { text: "after the round".to_owned() }] })
    }

    fn turn_ending<'a>(&'a self, attempt: EndAttempt) -> HookFuture<'a, TurnEnding> {
        Box::pin(async move {
            match (self.continue_once, attempt) {
                (true, EndAttempt::First) => TurnEnding::Continue("one more thing".to_owned()),
                (_, _) => TurnEnding::End,
            }
        })
    }
}

/// Runs one turn with hooks. Returns its events and the last request to the model.
async fn turn_with(
    hooks: RecordingHooks,
    steps: impl IntoIterator<Item = Step>,
) -> (Vec<String>, Vec<String>) {
    let harness = Harness::new(server()).await;
    let model = StepModel::new(steps);
    let setup =
        ConversationSetup { hooks: vec![Arc::new(hooks)], ..harness.options(model.clone()) };
    let mut conversation = RunningConversation::new(Conversation::start(setup));
    let events = conversation.ask("go").await;
    let requested =
        if model.requests().is_empty() { Vec::new() } else { lines(&model.last_messages()) };
    conversation.end().await;
    harness.stop().await;
    (events, requested)
}

#[tokio::test]
async fn a_hook_changes_arguments_replaces_results_and_adds_context() {
    let hooks = RecordingHooks {
        before: |_| BeforeCall {
            arguments: Some(json!({"text": "changed"})),
            context: vec!["before".to_owned()],
            ..BeforeCall::default()
        },
        after: |finished| {
            assert_eq!(finished.call.arguments, json!({"text": "changed"}));
            let text = format!("replaced {}", finished.result.content.len());
            AfterCall {
                replaced_result: Some(vec![ContentBlock::Text { text }]),
                context: vec!["after".to_owned()],
                ..AfterCall::default()
            }
        },
        ..RecordingHooks::passive()
    };
    let (events, requested) =
        turn_with(hooks, [Step::Call("", vec![call("1", "x")]), Step::Say("ok")]).await;
    assert!(events.contains(&"call 1 Done: replaced 1".to_owned()), "{events:?}");
    let requested = requested.join("\n");
    for text in ["by the way", "replaced 1", "before", "after", "after the round"] {
        assert!(requested.contains(text), "{text}: {requested}");
    }
}

#[tokio::test]
async fn a_hook_that_denies_a_call_is_the_result_of_the_call() {
    let hooks = RecordingHooks {
        before: |_| BeforeCall {
            decision: CallDecision::Deny { message: "never".to_owned() },
            ..BeforeCall::default()
        },
        ..RecordingHooks::passive()
    };
    let (events, _) =
        turn_with(hooks, [Step::Call("", vec![call("1", "x")]), Step::Say("ok")]).await;
    assert!(events.contains(&"call 1 Denied: never".to_owned()), "{events:?}");
}

#[tokio::test]
async fn a_hook_that_asks_gets_the_user_asked_although_the_server_is_trusted() {
    let hooks = RecordingHooks {
        before: |_| BeforeCall {
            decision: CallDecision::Ask { because: "it is late".to_owned() },
            ..BeforeCall::default()
        },
        ..RecordingHooks::passive()
    };
    let (events, _) =
        turn_with(hooks, [Step::Call("", vec![call("1", "x")]), Step::Say("ok")]).await;
    let denied = events.iter().find(|it| it.starts_with("call 1 Denied")).expect("no user");
    assert!(denied.contains("it is late"), "{denied}");
}

#[tokio::test]
async fn a_hook_refuses_a_message_before_the_model_sees_it() {
    let hooks = RecordingHooks { refuse: Some("go"), ..RecordingHooks::passive() };
    let (events, requested) = turn_with(hooks, []).await;
    assert_eq!(events.last().map(String::as_str), Some("ended StoppedByHook(\"not that\")"));
    assert_eq!(requested, Vec::<String>::new());
}

#[tokio::test]
async fn a_hook_continues_a_turn_that_is_about_to_end() {
    let hooks = RecordingHooks { continue_once: true, ..RecordingHooks::passive() };
    let (events, requested) = turn_with(hooks, [Step::Say("done"), Step::Say("really")]).await;
    assert_eq!(events.last().map(String::as_str), Some("ended Finished"));
    assert!(requested.join("\n").contains("one more thing"), "{requested:?}");
}

#[tokio::test]
async fn a_turn_with_a_schema_ends_with_a_valid_output_and_reminds_the_model() {
    let harness = Harness::new(server()).await;
    let output = |value| vec![("1", "StructuredOutput", value)];
    let model = StepModel::new([
        Step::Say("seven"),
        Step::Call("", output(json!({"n": "seven"}))),
        Step::Call("", output(json!({"n": 7}))),
    ]);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let structured_output = Some(StructuredOutput::new(schema));
    let setup = ConversationSetup { structured_output, ..harness.options(model.clone()) };
    let mut conversation = RunningConversation::new(Conversation::start(setup));
    let events = conversation.ask("how many?").await;
    assert!(events.contains(&"output {\"n\":7}".to_owned()), "{events:?}");
    assert_eq!(events.last().map(String::as_str), Some("ended Finished"));
    let requested = lines(&model.last_messages()).join("\n");
    assert!(requested.contains("does not match the schema"), "{requested}");
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn a_model_that_never_gives_the_output_ends_the_turn_with_that() {
    let harness = Harness::new(server()).await;
    let model = StepModel::new([1, 2, 3, 4, 5].map(|_| Step::Say("no")));
    let structured_output = Some(StructuredOutput::new(json!({"type": "object"})));
    let setup = ConversationSetup { structured_output, ..harness.options(model) };
    let mut conversation = RunningConversation::new(Conversation::start(setup));
    let events = conversation.ask("how many?").await;
    assert_eq!(events.last().map(String::as_str), Some("ended NoStructuredOutput"));
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn a_model_that_gives_only_wrong_outputs_ends_the_turn_after_five() {
    let harness = Harness::new(server()).await;
    let wrong = || Step::Call("", vec![("1", "StructuredOutput", json!({"n": "seven"}))]);
    let model = StepModel::new([1, 2, 3, 4, 5, 6].map(|_| wrong()));
    let setup = harness.options(model.clone());
    let mut conversation = RunningConversation::new(Conversation::start(setup));
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    conversation.handle.set_structured_output(StructuredOutput::new(schema)).await;
    let events = conversation.ask("how many?").await;
    assert_eq!(events.last().map(String::as_str), Some("ended NoStructuredOutput"));
    assert_eq!(events.iter().filter(|it| it.contains("ToolError")).count(), 5, "{events:?}");
    conversation.end().await;
    harness.stop().await;
}

#[tokio::test]
async fn a_hook_that_ends_the_turn_prevents_its_call() {
    let hooks = RecordingHooks {
        before: |_| BeforeCall { stop_because: Some("enough".to_owned()), ..BeforeCall::default() },
        after: |finished| {
            assert_eq!(finished.outcome, CallOutcome::Denied);
            AfterCall::default()
        },
        ..RecordingHooks::passive()
    };
    let (events, _) = turn_with(hooks, [Step::Call("", vec![call("1", "x")])]).await;
    let denied = "call 1 Denied: a hook ended the turn: enough".to_owned();
    assert!(events.contains(&denied), "{events:?}");
}

/// The events of two calls of one response, when the mode changes from `first` to `second` during the first call.
async fn calls_with_modes(first: PermissionMode, second: PermissionMode) -> Vec<String> {
    let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begin, wait) = (began.clone(), go_on.clone());
    let slow = move |_: HandlerContext, _: Nothing| {
        let (begin, wait) = (begin.clone(), wait.clone());
        async move {
            begin.notify_one();
            wait.notified().await;
            Ok(ToolOutput::text("slow"))
        }
    };
    let quick = async |_: HandlerContext, _: Nothing| Ok(ToolOutput::text("quick"));
    let server = Server::new("s", "1")
        .tool(Tool::new("slow", "Waits.", slow).read_only())
        .tool(Tool::new("quick", "Returns.", quick));
    let harness = Harness::new(server).await;
    let calls = vec![("1", "mcp__s__slow", json!({})), ("2", "mcp__s__quick", json!({}))];
    let model = StepModel::new([Step::Call("", calls), Step::Say("ok")]);
    let context = CallContext::new(harness.host.watch_pool(), &harness.paths());
    let context = context.expect("a call context").with_trusted_server("s");
    let with_mode = |mode| Arc::new(CallContext { mode, ..context.clone() });
    let setup =
        ConversationSetup { call_context: with_mode(first), ..harness.options(model.clone()) };
    let mut conversation = RunningConversation::new(Conversation::start(setup));
    conversation.send("go").await;
    began.notified().await;
    conversation.handle.set_call_context(with_mode(second));
    go_on.notify_one();
    let events = conversation.turn().await;
    conversation.end().await;
    harness.stop().await;
    events
}

#[tokio::test]
async fn a_mode_that_changes_during_a_call_holds_for_the_next_call_of_the_same_response() {
    let events = calls_with_modes(PermissionMode::Bypass, PermissionMode::Plan).await;
    assert!(events.contains(&"call 1 Done: slow".to_owned()), "{events:?}");
    assert!(events.iter().any(|it| it.starts_with("call 2 Denied")), "{events:?}");
    let events = calls_with_modes(PermissionMode::Plan, PermissionMode::Bypass).await;
    assert!(events.contains(&"call 2 Done: quick".to_owned()), "{events:?}");
}
