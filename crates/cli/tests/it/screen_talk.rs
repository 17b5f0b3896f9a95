//! A conversation on the screen, with a model that follows a script: answers, thoughts, calls, interrupts, what waits, and
//! conversations that are gone on with. And the same in plain lines.

use serde_json::json;
use testkit::model_service::{KEY, Piece, Reply};
use testkit::{ModelService, Scene, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, scene};

const ANSWER: &str = "## Tea\n\nThere are *three* kinds:\n\n1. green\n2. black\n\n\
    | kind | minutes |\n|---|--:|\n| green | 2 |\n| black | 4 |\n\n```rust\nfn brew() -> Tea {\n    \
    Tea::green()\n}\n```\n\nSee [the leaf](https://tea.example).\n";

fn service(replies: impl IntoIterator<Item = Reply>) -> ModelService {
    ModelService::start(replies).expect("it starts")
}

fn with_model(service: &ModelService) -> Scene {
    let mut scene = scene();
    scene.write(USER, &json!({"permissions": {"allow": ["mcp__demo"]}}).to_string());
    scene.set("ANTHROPIC_API_KEY", KEY).set("ANTHROPIC_BASE_URL", service.origin());
    scene
}

fn ready(scene: &Scene, size: Size) -> Terminal {
    let mut terminal = screen(scene, size);
    terminal.shows("1/1 server").shows("claude");
    terminal
}

#[test]
fn an_answer_is_laid_out_and_its_cost_is_shown() {
    let service = service([Reply::answer([Piece::think("Tea it is."), Piece::say(ANSWER)])]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size { columns: 80, rows: 34 });
    terminal.types("what about tea?\r").shows("the leaf").hides("working").shows("tokens");
    insta::assert_snapshot!(terminal.calm_screen());
}

#[test]
fn calls_of_the_model_are_cards_between_its_words() {
    let call = Piece::call("1", "mcp__demo__echo", &json!({"text": "from the tool"}));
    let service = service([
        Reply::answer([Piece::say("I ask the server."), call]),
        Reply::say("It said so."),
    ]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("go\r").shows("It said so.").hides("working");
    let screen = terminal.calm_screen();
    for (first, second) in [
        ("> go", "I ask the server."),
        ("● demo: echo", "│ from the tool"),
        ("from the tool", "It said"),
    ] {
        assert!(screen.find(first) < screen.find(second), "{first} {second}\n{screen}");
    }
}

#[test]
fn escape_stops_an_answer_and_what_waited_is_heard_next() {
    let stalled = Reply::answer([Piece::say("I begin"), Piece::Stall, Piece::say("never")]);
    let service = service([stalled, Reply::say("Now something else.")]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("first\r").shows("I begin").shows("working");
    terminal.types("second\r").shows("queued: second");
    terminal.types("\x1b").shows("Stopped.").shows("> second").shows("Now something else.");
    terminal.hides("queued").hides("working");
}

#[test]
fn what_waits_can_be_taken_back() {
    let stalled = Reply::answer([Piece::say("I begin"), Piece::Stall, Piece::say(" and end.")]);
    let service = service([stalled]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("first\r").shows("I begin");
    terminal.types("second thoughts\r").shows("queued: second thoughts");
    terminal.types("\x1b[A").hides("queued").shows("> second thoughts");
    service.release();
    terminal.shows("I begin and end.").hides("working").shows("> second thoughts");
    assert_eq!(service.requests().len(), 1);
}

#[test]
fn a_model_that_fails_says_why_and_what_helps() {
    let service = service([Reply::refuse(401, "authentication_error", "bad key")]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("hello\r").shows("does not accept the key").shows("hint:");
}

#[test]
fn leaving_says_how_to_go_on_and_that_shows_what_was_said() {
    let service = service([Reply::say("An answer."), Reply::say("Another.")]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("remember this\r").shows("An answer.").hides("working").types("\x04");
    let (code, shown) = terminal.ends();
    assert_eq!(code, 0, "{shown}");
    let id = shown.split("swb --resume ").nth(1).expect("it says how").trim().to_owned();
    let mut command = scene.command(&scene.project(), &["--resume", &id]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::sized(&command, Size::USUAL);
    terminal.shows("> remember this").shows("An answer.").types("and?\r").shows("Another.");
    let said = service.body(1)["messages"].to_string();
    assert!(said.contains("remember this") && said.contains("An answer."), "{said}");
    drop(terminal);
    let mut command = scene.command(&scene.project(), &["--resume"]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::sized(&command, Size::USUAL);
    terminal.shows("Which conversation?").shows("just now remember this").types("\r");
    terminal.shows("> remember this").shows("Another.");
}

#[test]
fn a_mention_puts_what_the_server_has_into_the_message() {
    let service = service([Reply::say("Read.")]);
    let scene = with_model(&service);
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("/call mcp__demo__add_note text='green tea'\r").shows("●");
    terminal.types("what is in @demo:note://1 please\r").shows("Read.");
    let said = service.body(0)["messages"].to_string();
    assert!(said.contains("green tea") && said.contains("@demo:note://1"), "{said}");
}

#[test]
fn in_plain_lines_it_is_the_same_conversation() {
    let call = Piece::call("1", "mcp__demo__echo", &json!({"text": "from the tool"}));
    let service = service([Reply::answer([Piece::say("I ask."), call]), Reply::say("It said so.")]);
    let scene = with_model(&service);
    let mut command = scene.command(&scene.project(), &["--plain"]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::start(&command);
    terminal.sees("Switchboard.").sees("> ").types("/permissions\r").sees("mode: default");
    terminal.sees("> ").types("go\r").sees("I ask.").sees("calling demo: echo");
    terminal.sees("from the tool").sees("It said so.").sees("> ").types("/quit\r");
    let (code, shown) = terminal.ends();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("\x1b[?1049h") && shown.contains("swb --resume "), "{shown}");
}
