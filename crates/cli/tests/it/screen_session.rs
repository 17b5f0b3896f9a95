//! A whole session at a terminal, from the approval of a project's server to a conversation that is resumed the next
//! day.

use serde_json::{Value, json};
use testkit::model_service::{API_KEY, Reply, ReplyPart};
use testkit::scripted::program;
use testkit::{ModelService, Sandbox, Script, Size, Terminal};

use crate::support::scene;

const ANSWER: &str = "## Done\n\n| what | for whom |\n|---|---|\n| a table | Grace |\n\n```sh\nswb call mcp__theirs__ask\n```\n";

/// Waits until a prompt accepts keys: it ignores those that arrive before the user can have read it.
fn read(terminal: &mut Terminal) -> &mut Terminal {
    for _ in 0..4 {
        terminal.stable_screen();
    }
    terminal
}

fn at_terminal(scene: &Sandbox, arguments: &[&str]) -> Terminal {
    let mut command = scene.command(&scene.project(), arguments);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    Terminal::with_size(&command, Size { columns: 100, rows: 36 })
}

/// The entry of a server that fails to start while the file `broken` exists.
fn entry() -> String {
    let script =
        r#"test -e broken && { echo "cannot find my database" >&2; exit 3; }; exec "$0" "$1""#;
    let program = program();
    json!({"command": "sh", "args": ["-c", script, program, Script::legacy().to_json()]})
        .to_string()
}

fn call(id: &str, tool: &str, arguments: &Value) -> ReplyPart {
    ReplyPart::tool_call(id, &format!("mcp__theirs__{tool}"), arguments)
}

fn replies() -> [Reply; 5] {
    [
        Reply::message([ReplyPart::text("I try it."), call("1", "echo", &json!({"text": "one"}))]),
        Reply::message([call("2", "echo", &json!({"text": "two"}))]),
        Reply::message([call("3", "ask", &json!({"kind": "booking"}))]),
        Reply::message([ReplyPart::text(ANSWER)]),
        Reply::text("For Grace, as I said."),
    ]
}

#[test]
fn a_session_from_an_unknown_server_to_a_continued_conversation() {
    let service = ModelService::start(replies()).expect("it starts");
    let mut scene = scene();
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    scene.write_servers(".mcp.json", &format!("\"theirs\": {}", entry()));
    let mut terminal = at_terminal(&scene, &[]);

    // The project's server needs approval.
    terminal
        .wait_for_screen("Servers of this project")
        .wait_for_screen("[later]")
        .wait_for_screen("claude");
    read(&mut terminal).send_keys("a").wait_for_screen("[approve]").send_keys("\r\r");
    terminal.wait_until_absent("Servers of this project").wait_for_screen("1/1 server");

    // The model's first call needs permission, which the user grants for the session.
    terminal
        .send_keys("book a table\r")
        .wait_for_screen("theirs wants to run echo")
        .wait_for_screen("\"text\": \"one\"");
    read(&mut terminal)
        .send_keys("\x1b[C")
        .wait_for_screen("▸2")
        .send_keys("\r")
        .wait_for_screen("│ one")
        .wait_for_screen("│ two");

    // Another tool needs permission of its own, and its server sends an elicitation.
    terminal.wait_for_screen("theirs wants to run ask");
    read(&mut terminal).send_keys("\r").wait_for_screen("A table for whom?");
    read(&mut terminal)
        .send_keys("Grace\t\x153\t\x1b[C\t\t\t\r")
        .wait_for_screen("a table │ Grace")
        .wait_until_absent("working");
    let answered = terminal.stable_screen();
    assert!(answered.contains("swb call mcp__theirs__ask"), "{answered}");
    let booked = service.request_body(3)["messages"].to_string();
    assert!(booked.contains("Grace") && booked.contains("two"), "{booked}");

    crash_and_mend(&scene, &mut terminal);

    terminal.send_keys("\x04");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    let id = shown.split("swb --resume ").nth(1).expect("it says how to go on").trim().to_owned();
    gone_on_with(&scene, &service, &id);
}

/// The server crashes during a call and cannot restart until the user has removed the cause.
fn crash_and_mend(scene: &Sandbox, terminal: &mut Terminal) {
    scene.write("broken", "");
    terminal.send_keys("/call mcp__theirs__crash\r").wait_for_screen("theirs wants to run crash");
    read(terminal).send_keys("\r").wait_for_screen("0/1 server");
    terminal
        .send_keys("/mcp\r")
        .wait_for_screen("1 server, 0 connected")
        .send_keys("\r")
        .wait_for_screen("Defined in:");
    std::fs::remove_file(scene.path("broken")).expect("it is there");
    terminal
        .send_keys("r")
        .wait_for_screen("State:        connected")
        .send_keys("\x1b")
        .wait_for_screen("1 server, 1 connected");
    terminal
        .send_keys("q")
        .wait_until_absent("1 server, 1 connected")
        .wait_for_screen("1/1 server");
    // Permission for the session survives the restart.
    terminal.send_keys("/call mcp__theirs__echo text=again\r").wait_for_screen("│ again");
}

fn gone_on_with(scene: &Sandbox, service: &ModelService, id: &str) {
    let mut terminal = at_terminal(scene, &["--resume", id]);
    terminal
        .wait_for_screen("1/1 server")
        .wait_for_screen("> book a table")
        .wait_for_screen("a table │ Grace");
    terminal
        .send_keys("for whom?\r")
        .wait_for_screen("For Grace, as I said.")
        .wait_until_absent("working")
        .send_keys("\x04");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains(id), "it is the same conversation: {shown}");
    let messages = service.request_body(4)["messages"].clone();
    let messages = messages.as_array().expect("a list");
    let roles: Vec<&str> = messages.iter().filter_map(|it| it["role"].as_str()).collect();
    // The first message, three rounds of calls and results, the answer, and the new message.
    let expected = ["user", "assistant", "user", "assistant", "user", "assistant", "user"];
    assert_eq!(roles, [&expected[..], &["assistant", "user"]].concat());
    let said = json!(messages).to_string();
    for text in ["book a table", "I try it.", "\\\"text\\\"", "Grace", "## Done", "for whom?"] {
        assert!(said.contains(text) || said.contains(&text.replace('\\', "")), "{text}: {said}");
    }
}
