//! Conversations on the screen with a scripted model: answers, reasoning, tool calls, interrupts, queued messages and
//! resumed conversations. The same as plain lines.

use serde_json::json;
use testkit::model_service::{API_KEY, Reply, ReplyPart};
use testkit::{ModelService, Sandbox, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, scene};

const ANSWER: &str = "## Tea\n\nThere are *three* kinds:\n\n1. green\n2. black\n\n\
    | kind | minutes |\n|---|--:|\n| green | 2 |\n| black | 4 |\n\n```rust\nfn brew() -> Tea {\n    \
    Tea::green()\n}\n```\n\nSee [the leaf](https://tea.example).\n";

fn service(replies: impl IntoIterator<Item = Reply>) -> ModelService {
    ModelService::start(replies).expect("it starts")
}

fn with_model(service: &ModelService) -> Sandbox {
    let mut scene = scene();
    scene.write(USER, &json!({"permissions": {"allow": ["mcp__demo"]}}).to_string());
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    scene
}

fn ready(scene: &Sandbox, size: Size) -> Terminal {
    let mut terminal = screen(scene, size);
    terminal.wait_for_screen("1/1 server").wait_for_screen("claude");
    terminal
}

#[test]
fn a_response_is_laid_out_and_its_cost_is_shown() {
    let service =
        service([Reply::message([ReplyPart::thinking("Tea it is."), ReplyPart::text(ANSWER)])]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size { columns: 80, rows: 34 });
    terminal
        .send_keys("what about tea?\r")
        .wait_for_screen("the leaf")
        .wait_until_absent("working")
        .wait_for_screen("tokens");
    insta::assert_snapshot!(terminal.stable_screen());
}

#[test]
fn calls_of_the_model_are_cards_between_its_texts() {
    let call = ReplyPart::tool_call("1", "mcp__demo__echo", &json!({"text": "from the tool"}));
    let service = service([
        Reply::message([ReplyPart::text("I ask the server."), call]),
        Reply::text("It said so."),
    ]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal.send_keys("go\r").wait_for_screen("It said so.").wait_until_absent("working");
    let screen = terminal.stable_screen();
    for (first, second) in [
        ("> go", "I ask the server."),
        ("● demo: echo", "│ from the tool"),
        ("from the tool", "It said"),
    ] {
        assert!(screen.find(first) < screen.find(second), "{first} {second}\n{screen}");
    }
}

#[test]
fn escape_stops_a_response_and_the_queued_message_is_sent_next() {
    let stalled =
        Reply::message([ReplyPart::text("I begin"), ReplyPart::Stall, ReplyPart::text("never")]);
    let service = service([stalled, Reply::text("Now something else.")]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal.send_keys("first\r").wait_for_screen("I begin").wait_for_screen("working");
    terminal.send_keys("second\r").wait_for_screen("queued: second");
    terminal
        .send_keys("\x1b")
        .wait_for_screen("Stopped.")
        .wait_for_screen("> second")
        .wait_for_screen("Now something else.");
    terminal.wait_until_absent("queued").wait_until_absent("working");
}

#[test]
fn a_queued_message_can_be_edited_again() {
    let stalled = Reply::message([
        ReplyPart::text("I begin"),
        ReplyPart::Stall,
        ReplyPart::text(" and end."),
    ]);
    let service = service([stalled]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal.send_keys("first\r").wait_for_screen("I begin");
    terminal.send_keys("second thoughts\r").wait_for_screen("queued: second thoughts");
    terminal.send_keys("\x1b[A").wait_until_absent("queued").wait_for_screen("> second thoughts");
    service.resume_stalled();
    terminal
        .wait_for_screen("I begin and end.")
        .wait_until_absent("working")
        .wait_for_screen("> second thoughts");
    assert_eq!(service.requests().len(), 1);
}

#[test]
fn a_failed_model_request_shows_cause_and_remedy() {
    let service = service([Reply::error(401, "authentication_error", "bad key")]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal
        .send_keys("hello\r")
        .wait_for_screen("does not accept the key")
        .wait_for_screen("hint:");
}

#[test]
fn quitting_prints_the_continue_command_which_shows_the_conversation() {
    let service = service([Reply::text("An answer."), Reply::text("Another.")]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal
        .send_keys("remember this\r")
        .wait_for_screen("An answer.")
        .wait_until_absent("working")
        .send_keys("\x04");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    let id = shown.split("swb --resume ").nth(1).expect("it says how").trim().to_owned();
    let mut command = scene.command(&scene.project(), &["--resume", &id]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::with_size(&command, Size::STANDARD);
    terminal
        .wait_for_screen("> remember this")
        .wait_for_screen("An answer.")
        .send_keys("and?\r")
        .wait_for_screen("Another.");
    let said = service.request_body(1)["messages"].to_string();
    assert!(said.contains("remember this") && said.contains("An answer."), "{said}");
    drop(terminal);
    let mut command = scene.command(&scene.project(), &["--resume"]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::with_size(&command, Size::STANDARD);
    terminal
        .wait_for_screen("Which conversation?")
        .wait_for_screen("just now remember this")
        .send_keys("\r");
    terminal.wait_for_screen("> remember this").wait_for_screen("Another.");
}

#[test]
fn a_mention_adds_the_resource_to_the_message() {
    let service = service([Reply::text("Read.")]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal.send_keys("/call mcp__demo__add_note text='green tea'\r").wait_for_screen("●");
    terminal.send_keys("what is in @demo:note://1 please\r").wait_for_screen("Read.");
    let said = service.request_body(0)["messages"].to_string();
    assert!(said.contains("green tea") && said.contains("@demo:note://1"), "{said}");
}

#[test]
fn plain_mode_has_the_same_conversation() {
    let call = ReplyPart::tool_call("1", "mcp__demo__echo", &json!({"text": "from the tool"}));
    let service =
        service([Reply::message([ReplyPart::text("I ask."), call]), Reply::text("It said so.")]);
    let scene = with_model(&service);
    let mut command = scene.command(&scene.project(), &["--plain"]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::start(&command);
    terminal
        .wait_for_output("Switchboard.")
        .wait_for_output("> ")
        .send_keys("/permissions\r")
        .wait_for_output("mode: default");
    terminal
        .wait_for_output("> ")
        .send_keys("go\r")
        .wait_for_output("I ask.")
        .wait_for_output("calling demo: echo");
    terminal
        .wait_for_output("from the tool")
        .wait_for_output("It said so.")
        .wait_for_output("> ")
        .send_keys("/quit\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("\x1b[?1049h") && shown.contains("swb --resume "), "{shown}");
}
