//! The user always wins: their keys and movements stop an action, and make pictures old.

use serde_json::json;
use testkit::processes::wait_until;

use crate::computer::{Computer, settings};
use crate::keyboard::after_user;
use crate::screen::{Screen, TIMEOUT};

const STOPPED: &str = "the user pressed Escape or used the pointer or keyboard during an action, so all control is stopped";
const STILL_STOPPED: &str = "control is stopped because the user took over";

async fn typing_is_stopped_by(arguments: &'static [&'static str]) {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    let text = "x".repeat(4000);
    let typing = computer.call("type", json!({"text": text}));
    let user = tokio::task::spawn_blocking(move || {
        wait_until(TIMEOUT, "typing has begun", || (terminal.text().len() > 5).then_some(()));
        screen.user(arguments);
        (screen, terminal)
    });
    let (result, user) = tokio::join!(typing, user);
    let (screen, terminal) = user.expect("a user");
    let error = result["content"][0]["text"].as_str().expect("a text");
    assert!(
        error.starts_with(STOPPED) && error.contains("of 4000 characters were typed"),
        "{error}"
    );
    let typed = terminal.text().matches('x').count();
    assert!(typed < 4000, "{typed}");
    // Looking is allowed, acting is not, until the user says so.
    computer.look().await;
    for (tool, arguments) in
        [("type", json!({"text": "y"})), ("left_click", json!({"coordinate": [60, 90]}))]
    {
        let error = computer.error(tool, arguments).await;
        assert!(error.starts_with(STILL_STOPPED), "{error}");
    }
    let error = computer.error("open_application", json!({"name": "x"})).await;
    assert!(error.starts_with(STILL_STOPPED), "{error}");
    computer.grant(json!({"applications": ["XTerm"]})).await;
    assert_eq!(computer.asked().len(), 2, "the user is asked again");
    let text = after_user(&computer, "type", json!({"text": "z"})).await;
    assert_eq!(text, "typed 1 characters in \"XTerm\"");
    wait_until(TIMEOUT, "it is typed", || terminal.text().ends_with('z').then_some(()));
    drop(screen);
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_movement_of_the_pointer_stops_typing() {
    typing_is_stopped_by(&["mousemove_relative", "30", "30"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_user_stops_typing() {
    typing_is_stopped_by(&["key", "q"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn escape_stops_also_between_actions() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    computer.text("type", json!({"text": "a"})).await;
    screen.user(&["key", "Escape"]);
    computer.look().await;
    let error = computer.error("type", json!({"text": "b"})).await;
    assert!(error.starts_with(STOPPED) && error.contains("(nothing was done)"), "{error}");
    let error = computer.error("type", json!({"text": "b"})).await;
    assert!(error.starts_with(STILL_STOPPED), "{error}");
    terminal.wait_for("a\u{1b}");
    // A refusal of the user leaves it stopped.
    computer.user_answers(json!({"action": "decline"}));
    computer.error("request_access", json!({"applications": ["XTerm"], "reason": "more"})).await;
    let error = computer.error("type", json!({"text": "b"})).await;
    assert!(error.starts_with(STILL_STOPPED), "{error}");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_does_between_actions_requires_a_new_look() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    computer.look().await;
    computer.text("type", json!({"text": "a"})).await;
    screen.user(&["mousemove_relative", "30", "30"]);
    let error = computer.error("type", json!({"text": "b"})).await;
    assert!(error.starts_with("the user is using the pointer or keyboard right now"), "{error}");
    // Without a new picture it is refused also later.
    let start = std::time::Instant::now();
    let error = loop {
        let error = computer.error("type", json!({"text": "b"})).await;
        let is_waiting = error.starts_with("the user is using the pointer");
        if !is_waiting || start.elapsed() > TIMEOUT {
            break error;
        }
    };
    assert!(
        error.starts_with("the user has used the pointer or keyboard since the last"),
        "{error}"
    );
    computer.look().await;
    computer.text("type", json!({"text": "b"})).await;
    terminal.wait_for("ab");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_types_into_the_own_terminal_disturbs_nothing() {
    let mut screen = Screen::new();
    let entry = screen.entry();
    let terminal = screen.terminal();
    let own = settings(&screen);
    let own = switchboard_computer::ComputerSettings { own_processes: vec![terminal.pid], ..own };
    let computer = Computer::with_settings(own, switchboard_wire::protocol::era::Era::Legacy).await;
    computer.grant(json!({"applications": ["zenity"]})).await;
    screen.user(&["key", "y", "Return"]);
    terminal.wait_for("y\n");
    computer.text("focus_window", json!({"window": entry.window})).await;
    computer.text("type", json!({"text": "typed\n"})).await;
    assert_eq!(entry.result(), "typed");
    computer.shut_down().await;
}
