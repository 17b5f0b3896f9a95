//! A whole session at a real terminal, from a project's server that nobody knows yet to a conversation that is gone on
//! with the next day.

use serde_json::{Value, json};
use testkit::model_service::{KEY, Piece, Reply};
use testkit::scripted::program;
use testkit::{ModelService, Scene, Script, Size, Terminal};

use crate::support::scene;

const ANSWER: &str = "## Done\n\n| what | for whom |\n|---|---|\n| a table | Grace |\n\n```sh\nswb call mcp__theirs__ask\n```\n";

/// Waits as long as somebody needs to see a question; keys that come before answer nothing.
fn read(terminal: &mut Terminal) -> &mut Terminal {
    for _ in 0..4 {
        terminal.calm_screen();
    }
    terminal
}

fn at_terminal(scene: &Scene, arguments: &[&str]) -> Terminal {
    let mut command = scene.command(&scene.project(), arguments);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    Terminal::sized(&command, Size { columns: 100, rows: 36 })
}

/// A server that does not start while the file `broken` is there.
fn entry() -> String {
    let script =
        r#"test -e broken && { echo "cannot find my database" >&2; exit 3; }; exec "$0" "$1""#;
    let program = program();
    json!({"command": "sh", "args": ["-c", script, program, Script::legacy().json()]}).to_string()
}

fn call(id: &str, tool: &str, arguments: &Value) -> Piece {
    Piece::call(id, &format!("mcp__theirs__{tool}"), arguments)
}

fn replies() -> [Reply; 5] {
    [
        Reply::answer([Piece::say("I try it."), call("1", "echo", &json!({"text": "one"}))]),
        Reply::answer([call("2", "echo", &json!({"text": "two"}))]),
        Reply::answer([call("3", "ask", &json!({"kind": "booking"}))]),
        Reply::answer([Piece::say(ANSWER)]),
        Reply::say("For Grace, as I said."),
    ]
}

#[test]
fn a_session_from_an_unknown_server_to_a_conversation_that_goes_on() {
    let service = ModelService::start(replies()).expect("it starts");
    let mut scene = scene();
    scene.set("ANTHROPIC_API_KEY", KEY).set("ANTHROPIC_BASE_URL", service.origin());
    scene.servers(".mcp.json", &format!("\"theirs\": {}", entry()));
    let mut terminal = at_terminal(&scene, &[]);

    // The project's server waits for a word.
    terminal.shows("Servers of this project").shows("[later]").shows("claude");
    read(&mut terminal).types("a").shows("[approve]").types("\r\r");
    terminal.hides("Servers of this project").shows("1/1 server");

    // The model's call is asked about once, and then not again in this session.
    terminal.types("book a table\r").shows("theirs wants to run echo").shows("\"text\": \"one\"");
    read(&mut terminal).types("\x1b[C").shows("▸2").types("\r").shows("│ one").shows("│ two");

    // Another tool is another question, and the server has one of its own.
    terminal.shows("theirs wants to run ask");
    read(&mut terminal).types("\r").shows("A table for whom?");
    read(&mut terminal)
        .types("Grace\t\x153\t\x1b[C\t\t\t\r")
        .shows("a table │ Grace")
        .hides("working");
    let answered = terminal.calm_screen();
    assert!(answered.contains("swb call mcp__theirs__ask"), "{answered}");
    let booked = service.body(3)["messages"].to_string();
    assert!(booked.contains("Grace") && booked.contains("two"), "{booked}");

    crash_and_mend(&scene, &mut terminal);

    terminal.types("\x04");
    let (code, shown) = terminal.ends();
    assert_eq!(code, 0, "{shown}");
    let id = shown.split("swb --resume ").nth(1).expect("it says how to go on").trim().to_owned();
    gone_on_with(&scene, &service, &id);
}

/// The server ends in the middle of a call and cannot come back until somebody has mended what it lacks.
fn crash_and_mend(scene: &Scene, terminal: &mut Terminal) {
    scene.write("broken", "");
    terminal.types("/call mcp__theirs__crash\r").shows("theirs wants to run crash");
    read(terminal).types("\r").shows("0/1 server");
    terminal.types("/mcp\r").shows("1 server, 0 connected").types("\r").shows("Defined in:");
    std::fs::remove_file(scene.path("broken")).expect("it is there");
    terminal
        .types("r")
        .shows("State:        connected")
        .types("\x1b")
        .shows("1 server, 1 connected");
    terminal.types("q").hides("1 server, 1 connected").shows("1/1 server");
    // What was allowed for the session still is.
    terminal.types("/call mcp__theirs__echo text=again\r").shows("│ again");
}

fn gone_on_with(scene: &Scene, service: &ModelService, id: &str) {
    let mut terminal = at_terminal(scene, &["--resume", id]);
    terminal.shows("1/1 server").shows("> book a table").shows("a table │ Grace");
    terminal.types("for whom?\r").shows("For Grace, as I said.").hides("working").types("\x04");
    let (code, shown) = terminal.ends();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains(id), "it is the same conversation: {shown}");
    let messages = service.body(4)["messages"].clone();
    let messages = messages.as_array().expect("a list");
    let roles: Vec<&str> = messages.iter().filter_map(|it| it["role"].as_str()).collect();
    // What was asked, three rounds of calls and their results, the answer, and what is asked now.
    let expected = ["user", "assistant", "user", "assistant", "user", "assistant", "user"];
    assert_eq!(roles, [&expected[..], &["assistant", "user"]].concat());
    let said = json!(messages).to_string();
    for text in ["book a table", "I try it.", "\\\"text\\\"", "Grace", "## Done", "for whom?"] {
        assert!(said.contains(text) || said.contains(&text.replace('\\', "")), "{text}: {said}");
    }
}
