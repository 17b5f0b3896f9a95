//! The user always wins: their keys and movements stop an action, and make pictures old.

use serde_json::json;
use switchboard_wire::protocol::era::Era;
use testkit::processes::wait_until;
use x11rb::protocol::xproto::ConnectionExt as _;

use crate::computer::{Computer, settings};
use crate::keyboard::after_user;
use crate::screen::{Screen, TIMEOUT};
use crate::test_window::{Frame, TestWindow};

const STOPPED: &str = "the user pressed Escape or used the pointer or keyboard during an action, so all control is stopped";
const STILL_STOPPED: &str = "control is stopped because the user took over";

async fn typing_is_stopped_by(arguments: &'static [&'static str]) {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::new(&screen).await;
    let clipboard =
        json!({"applications": ["XTerm"], "clipboard_read": true, "clipboard_write": true});
    computer.grant(clipboard).await;
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
    let text = json!({"text": "x"});
    for (tool, arguments) in [
        ("open_application", json!({"name": "x"})),
        ("read_clipboard", json!({})),
        ("write_clipboard", text),
    ] {
        let error = computer.error(tool, arguments).await;
        assert!(error.starts_with(STILL_STOPPED), "{tool}: {error}");
    }
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
    let computer = Computer::with_settings(own, Era::Legacy).await;
    computer.grant(json!({"applications": ["zenity"]})).await;
    screen.user(&["key", "y", "Return"]);
    terminal.wait_for("y\n");
    computer.text("focus_window", json!({"window": entry.window})).await;
    computer.text("type", json!({"text": "typed\n"})).await;
    assert_eq!(entry.result(), "typed");
    computer.shut_down().await;
}

/// The buttons that are down, as bits of the pointer's mask.
fn buttons(screen: &Screen) -> u16 {
    let pointer = screen.connection.query_pointer(screen.root).expect("a request");
    u16::from(pointer.reply().expect("a reply").mask) & 0x1f00
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_that_is_held_is_released_as_soon_as_the_user_moves() {
    let screen = Screen::new();
    let area = [100, 100, 300, 200];
    let _window = TestWindow::show(&screen, ("Target", "x"), area, (Frame::Unmanaged, 0));
    let computer = Computer::with_access(&screen, &["Target"]).await;
    computer.look().await;
    computer.text("mouse_move", json!({"coordinate": [150, 150]})).await;
    computer.text("left_mouse_down", json!({})).await;
    assert_eq!(buttons(&screen), 0x100);
    screen.user(&["mousemove_relative", "5", "5"]);
    // Without another call of the model.
    let released = || (buttons(&screen) == 0).then_some(());
    wait_until(TIMEOUT, "the button is released", released);
    computer.shut_down().await;
}

#[tokio::test]
async fn what_is_granted_is_listed_while_an_action_works() {
    let screen = Screen::new();
    let computer = Computer::with_settings(settings(&screen), Era::Legacy).await;
    computer.grant(json!({"applications": ["desktop"]})).await;
    let mut lists = 0;
    {
        let mut waiting = std::pin::pin!(computer.text("wait", json!({"seconds": 2})));
        loop {
            tokio::select! {
                biased;
                _ = &mut waiting => break,
                text = computer.text("list_granted_applications", json!({})) => {
                    assert!(text.starts_with("granted: the desktop"), "{text}");
                    lists += 1;
                }
            }
        }
    }
    assert!(lists > 20, "{lists}");
    computer.shut_down().await;
}
