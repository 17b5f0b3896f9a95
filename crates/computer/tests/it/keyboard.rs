//! Typing and keys: any character, the right window, and a keyboard that is left as it was.

use serde_json::json;
use switchboard_computer::ComputerSettings;
use switchboard_wire::protocol::era::Era;
use testkit::processes::wait_until;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::ConnectionExt as _;

use crate::computer::{Computer, settings};
use crate::screen::{Screen, TIMEOUT};
use crate::test_window::{Frame, TestWindow};

/// Thirty characters: letters, accents, other scripts, an emoji, signs.
const UNICODE: &str = "Zoë 漢字 🦀 €µß ЖЩя λΩ ñ «x» ¿? œ";

/// How often the text is typed in a test run; `SWB_TYPE_RUNS` types it more often by hand.
fn runs() -> usize {
    std::env::var("SWB_TYPE_RUNS").ok().and_then(|it| it.parse().ok()).unwrap_or(4)
}

fn keyboard_map(screen: &Screen) -> Vec<u32> {
    let setup = screen.connection.setup();
    let count = setup.max_keycode - setup.min_keycode + 1;
    let map = screen.connection.get_keyboard_mapping(setup.min_keycode, count);
    let map = map.expect("a request").reply().expect("a map");
    // Only what keys make: the server may widen its table.
    map.keysyms.into_iter().filter(|it| *it != 0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_unicode_characters_arrive_in_a_terminal() {
    assert_eq!(UNICODE.chars().count(), 30);
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    let mut expected = String::new();
    for _ in 0..runs() {
        computer.text("type", json!({"text": UNICODE})).await;
        expected += UNICODE;
        terminal.wait_for(&expected);
    }
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_unicode_characters_arrive_in_a_gtk_dialog() {
    let mut screen = Screen::new();
    let entry = screen.entry();
    let computer = Computer::with_access(&screen, &["zenity"]).await;
    for _ in 0..runs() {
        computer.text("type", json!({"text": UNICODE})).await;
    }
    computer.text("key", json!({"keys": "Return"})).await;
    assert_eq!(entry.result(), UNICODE.repeat(runs()));
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_special_characters_than_free_keys_are_typed_in_parts() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    let text: String = ('\u{4e00}'..).take(60).collect();
    computer.text("type", json!({"text": text})).await;
    terminal.wait_for(&text);
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_map_is_restored_after_a_pause_and_at_the_end() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let before = keyboard_map(&screen);
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    computer.text("type", json!({"text": "漢"})).await;
    assert_ne!(keyboard_map(&screen), before);
    wait_until(TIMEOUT, "the map is restored", || (keyboard_map(&screen) == before).then_some(()));
    computer.text("type", json!({"text": "字"})).await;
    terminal.wait_for("漢字");
    computer.shut_down().await;
    assert_eq!(keyboard_map(&screen), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_combinations_are_pressed() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    let press = async |arguments| computer.text("key", arguments).await;
    let text = press(json!({"keys": "a shift+b C ! é", "repeat": 2})).await;
    assert_eq!(text, "pressed 10 in \"XTerm\"");
    press(json!({"keys": "ctrl+a Tab"})).await;
    terminal.wait_for("aBC!éaBC!é\u{1}\t");
    let text = computer.text("hold_key", json!({"keys": "shift+x", "seconds": 0.1})).await;
    assert_eq!(text, "held for 0.1 s");
    assert!(terminal.text().contains('X'));
    let error = computer.error("hold_key", json!({"keys": "a b", "seconds": 0.1})).await;
    assert_eq!(error, "keys has to be one key or combination");
    let error = computer.error("type", json!({"text": "a\u{1b}[2J"})).await;
    assert!(error.starts_with("the character '\\u{1b}' cannot be typed"), "{error}");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_lock_does_not_change_what_is_typed() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::new(&screen).await;
    screen.user(&["key", "Caps_Lock"]);
    computer.grant(json!({"applications": ["XTerm"]})).await;
    let typed = after_user(&computer, "type", json!({"text": "Straße ЖЩ"})).await;
    assert_eq!(typed, "typed 9 characters in \"XTerm\"");
    terminal.wait_for("Straße ЖЩ");
    let pointer = screen.connection.query_pointer(screen.root).expect("a request");
    let mask = u16::from(pointer.reply().expect("a reply").mask);
    assert_ne!(mask & 2, 0, "Caps Lock is on again");
    computer.shut_down().await;
}

/// Calls a tool when the user has left keyboard and pointer alone for long enough.
pub async fn after_user(computer: &Computer, tool: &str, arguments: serde_json::Value) -> String {
    let start = std::time::Instant::now();
    loop {
        computer.look().await;
        let result = computer.call(tool, arguments.clone()).await;
        let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
        let is_waiting = text.starts_with("the user is using the pointer or keyboard right now");
        if !is_waiting || start.elapsed() > TIMEOUT {
            return text;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_user_holds_is_waited_out() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    screen.user(&["keydown", "ctrl"]);
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    let error = computer.error("type", json!({"text": "a"})).await;
    assert!(error.starts_with("a modifier key, a mouse button"), "{error}");
    screen.user(&["keyup", "ctrl"]);
    computer.text("type", json!({"text": "a"})).await;
    terminal.wait_for("a");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_refused_where_the_focus_is_not_granted() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let area = [700, 100, 300, 200];
    // A lying title does not help: the class decides.
    let window = TestWindow::show(&screen, ("Secret", "XTerm"), area, (Frame::Managed, 0));
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    let refused = "the window with the focus belongs to \"Secret\", which the user has not granted; work in a granted \
                   application, or call request_access with \"Secret\"";
    assert_eq!(computer.error("type", json!({"text": "secret"})).await, refused);
    assert_eq!(computer.error("key", json!({"keys": "a"})).await, refused);
    let hold = json!({"keys": "a", "seconds": 0.1});
    assert_eq!(computer.error("hold_key", hold).await, refused);
    assert_eq!((window.input().as_str(), terminal.text().as_str()), ("", ""));
    // Focus first, then type.
    computer.text("focus_window", json!({"window": terminal.window})).await;
    computer.text("type", json!({"text": "ok"})).await;
    terminal.wait_for("ok");
    assert_eq!(window.input(), "");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_stops_when_another_window_takes_the_focus() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    let text = "x".repeat(4000);
    let typing = computer.call("type", json!({"text": text}));
    let stealing = tokio::task::spawn_blocking(move || {
        wait_until(TIMEOUT, "typing has begun", || (terminal.text().len() > 5).then_some(()));
        let area = [700, 100, 300, 200];
        let thief = TestWindow::show(&screen, ("Secret", "x"), area, (Frame::Managed, 0));
        (screen, terminal, thief)
    });
    let (result, stolen) = tokio::join!(typing, stealing);
    let (_screen, terminal, thief) = stolen.expect("a window");
    assert_eq!(result["isError"], true, "{result}");
    let error = result["content"][0]["text"].as_str().expect("a text");
    assert!(error.contains("belongs to \"Secret\""), "{error}");
    assert_eq!(thief.input(), "", "no character went to the other window");
    assert!(terminal.text().len() < 4000);
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_of_swb_itself_is_never_controlled() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    for settings in [
        ComputerSettings { own_processes: vec![terminal.pid], ..settings(&screen) },
        ComputerSettings { own_window: Some(terminal.window), ..settings(&screen) },
    ] {
        let computer = Computer::with_settings(settings, Era::Legacy).await;
        computer.grant(json!({"applications": ["XTerm"]})).await;
        let (text, picture) = computer.picture("screenshot", json!({})).await;
        assert!(text.ends_with("; hidden, because not granted: XTerm"), "{text}");
        let (x, y) = screen.middle_of(terminal.window);
        assert_eq!(picture.get_pixel(x as u32, y as u32).0, [96, 96, 96]);
        let error = computer.error("type", json!({"text": "yes"})).await;
        assert!(error.contains("is the terminal in which swb itself runs"), "{error}");
        let error = computer.error("left_click", json!({"coordinate": [x, y]})).await;
        assert!(error.contains("is the terminal in which swb itself runs"), "{error}");
        let windows = computer.text("list_windows", json!({})).await;
        assert!(windows.contains("[swb's own terminal: never controlled]"), "{windows}");
        computer.shut_down().await;
    }
    assert_eq!(terminal.text(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_the_desktop_need_a_grant_of_their_own() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    for keys in ["alt+Tab", "super", "ctrl+alt+t", "alt+F4", "Print"] {
        let error = computer.error("key", json!({"keys": keys})).await;
        assert!(error.ends_with("call request_access with system_keys first"), "{keys}: {error}");
    }
    computer.grant(json!({"applications": ["XTerm"], "system_keys": true})).await;
    computer.text("key", json!({"keys": "alt+Tab"})).await;
    for keys in ["ctrl+alt+F2", "ctrl+alt+BackSpace", "ctrl+alt+Delete"] {
        let error = computer.error("key", json!({"keys": keys})).await;
        assert!(error.ends_with("is never sent"), "{keys}: {error}");
    }
    assert_eq!(terminal.text(), "");
    computer.shut_down().await;
}
