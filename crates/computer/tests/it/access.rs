//! `request_access`: what the user reads, and what the answer allows.

use serde_json::{Value as Json, json};
use switchboard_computer::display_environment::NoDisplay;
use switchboard_computer::{Presence, TOOLS};
use switchboard_wire::protocol::era::Era;
use testkit::processes::wait_until;

use crate::computer::{Computer, settings};
use crate::screen::{Screen, TIMEOUT};
use crate::test_window::{Frame, TestWindow};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_works_before_access_is_granted() {
    let screen = Screen::new();
    let computer = Computer::new(&screen).await;
    let calls = [
        ("screenshot", json!({})),
        ("list_windows", json!({})),
        ("cursor_position", json!({})),
        ("left_click", json!({"coordinate": [1, 1]})),
        ("type", json!({"text": "a"})),
        ("key", json!({"keys": "a"})),
        ("read_clipboard", json!({})),
        ("write_clipboard", json!({"text": "a"})),
        ("open_application", json!({"name": "a"})),
        ("computer_batch", json!({"actions": [{"tool": "wait", "arguments": {"seconds": 0}}]})),
    ];
    for (tool, arguments) in calls {
        let error = computer.error(tool, arguments).await;
        assert!(error.contains("call request_access"), "{tool}: {error}");
    }
    let granted = computer.text("list_granted_applications", json!({})).await;
    assert_eq!(granted, "granted: nothing; call request_access");
    assert!(computer.asked().is_empty());
    computer.shut_down().await;
}

async fn the_user_reads_who_asks_for_what_in(era: Era) {
    let mut screen = Screen::new();
    screen.terminal();
    let computer = Computer::with_settings(settings(&screen), era).await;
    let arguments = json!({
        "applications": ["xterm", "desktop"], "reason": "to run\u{1b}[31m the tests", "clipboard_read": true,
    });
    let text = computer.text("request_access", arguments.clone()).await;
    assert_eq!(
        text,
        "granted: XTerm, the desktop: its background, panels and menus. Call screenshot before you act."
    );
    let asked = computer.asked().pop().expect("a question");
    let message = asked["message"].as_str().expect("a message");
    let terminal =
        "- XTerm (running: /usr/bin/xterm); commands that are typed into it run as you\n";
    assert!(message.contains(terminal), "{message}");
    assert!(message.contains("- Read the clipboard\n"), "{message}");
    assert!(message.contains("Its reason: to run\u{fffd}[31m the tests\n"), "{message}");
    let fields = &asked["requestedSchema"]["properties"];
    assert_eq!(fields["application_1"]["default"], true);
    assert_eq!(fields["clipboard_read"]["default"], false, "what is not ticked is not granted");
    // The same is not asked twice, but the clipboard was left out.
    let only = json!({"applications": ["XTerm"], "reason": "again"});
    let text = computer.text("request_access", only).await;
    assert!(text.starts_with("already granted: XTerm"), "{text}");
    computer.text("request_access", arguments).await;
    assert_eq!(computer.asked().len(), 2);
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_reads_who_asks_for_what() {
    the_user_reads_who_asks_for_what_in(Era::Legacy).await;
    the_user_reads_who_asks_for_what_in(Era::Modern).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_recorded_in_the_log() {
    let mut screen = Screen::new();
    screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    computer.user_answers(json!({"action": "decline"}));
    let request = json!({"applications": ["desktop"], "reason": "more"});
    let error = computer.error("request_access", request).await;
    assert!(error.contains("they declined"), "{error}");
    let logs = wait_until(TIMEOUT, "both are logged", || {
        let logs = computer.logs.lock().expect("no panic").clone();
        (logs.len() == 2).then_some(logs)
    });
    assert_eq!(logs, ["access granted for this session: XTerm", "access declined by the user"]);
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_leaves_out_is_not_granted() {
    let mut screen = Screen::new();
    screen.terminal();
    let computer = Computer::new(&screen).await;
    computer.user_answers(json!({"action": "cancel"}));
    let request =
        json!({"applications": ["XTerm", "desktop"], "reason": "a test", "system_keys": true});
    let error = computer.error("request_access", request.clone()).await;
    assert_eq!(error, "the user did not grant access: they closed the question");
    let none = json!({"application_1": false, "application_2": false});
    computer.user_answers(json!({"action": "accept", "content": none}));
    let error = computer.error("request_access", request.clone()).await;
    assert_eq!(error, "the user did not grant access: they left everything out");
    let some = json!({"application_2": false, "system_keys": true});
    computer.user_answers(json!({"action": "accept", "content": some}));
    let text = computer.text("request_access", request).await;
    assert!(text.starts_with("granted: XTerm, system_keys."), "{text}");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_application_is_answered_with_those_that_exist() {
    let screen = Screen::new();
    let hostile = ("Evil\u{1b}]0;x\u{7}", "title");
    let _window = TestWindow::show(&screen, hostile, [50, 50, 200, 100], (Frame::Managed, 0));
    let computer = Computer::new(&screen).await;
    let ask = async |applications: Json| {
        computer
            .error("request_access", json!({"applications": applications, "reason": "a test"}))
            .await
    };
    let error = ask(json!(["Paint"])).await;
    assert_eq!(
        error,
        "there is no application Paint; open: Evil\u{fffd}]0;x\u{fffd}; installed: none"
    );
    let error = ask(json!([])).await;
    assert_eq!(error, "applications has to be a list of 1 to 12 applications");
    assert!(computer.asked().is_empty());
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_calls_itself_the_desktop_is_not_the_desktop() {
    let screen = Screen::new();
    let area = [50, 50, 200, 100];
    let window = TestWindow::show(&screen, ("Desktop", "x"), area, (Frame::Managed, 0));
    let computer = Computer::with_access(&screen, &["desktop"]).await;
    computer.look().await;
    let error = computer.error("left_click", json!({"coordinate": [100, 120]})).await;
    assert!(error.contains("which the user has not granted"), "{error}");
    assert_eq!(window.input(), "");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_user_or_a_display_every_tool_says_why() {
    let screen = Screen::new();
    let absent = Presence::Absent("`swb -p` has no user who could grant access");
    let cases = [
        (
            absent,
            settings(&screen).display,
            "works only in an interactive session: `swb -p` has no user",
        ),
        (Presence::Interactive, Err(NoDisplay::Wayland), "this is a Wayland session"),
        (Presence::Interactive, Err(NoDisplay::NotSet), "DISPLAY is not set"),
        (Presence::Interactive, Ok(":987".to_owned()), "cannot connect to the X display :987"),
    ];
    for (presence, display, expected) in cases {
        let settings =
            switchboard_computer::ComputerSettings { presence, display, ..settings(&screen) };
        let computer = Computer::with_settings(settings, Era::Legacy).await;
        let request = json!({"applications": ["desktop"], "reason": "a test"});
        let error = computer.error("request_access", request).await;
        assert!(error.contains(expected), "{error}");
        assert!(computer.asked().is_empty());
        computer.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_are_those_that_are_promised_and_their_definitions_are_small() {
    let screen = Screen::new();
    let applications = screen.folder().join("applications");
    std::fs::create_dir(&applications).expect("a folder");
    let entry = "[Desktop Entry]\nType=Application\nName=Letter Writer\nExec=true\n";
    std::fs::write(applications.join("letters.desktop"), entry).expect("it is written");
    let computer = Computer::new(&screen).await;
    let list = computer.request("tools/list", json!({})).await;
    let tools = list["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, TOOLS);
    let description = |name: &str| {
        let tool = tools.iter().find(|it| it["name"] == name).expect("a tool");
        tool["description"].as_str().expect("a text").to_owned()
    };
    let access = description("request_access");
    assert!(access.ends_with("Installed applications: Letter Writer."), "{access}");
    let size = list["tools"].to_string().len();
    assert!(size < 12_000, "about {} tokens", size / 4);
    let read_only: Vec<&str> = tools
        .iter()
        .filter(|it| it["annotations"]["readOnlyHint"] == true)
        .filter_map(|it| it["name"].as_str())
        .collect();
    let expected = [
        "cursor_position",
        "list_granted_applications",
        "list_windows",
        "read_clipboard",
        "screenshot",
        "wait",
        "zoom",
    ];
    assert_eq!(read_only, expected);
    let prompt = computer.request("prompts/get", json!({"name": "computer_guide"})).await;
    let text = prompt["messages"][0]["content"]["text"].as_str().expect("a text");
    assert!(text.len() < 2500 && text.contains("request_access"), "{text}");
    computer.shut_down().await;
}
