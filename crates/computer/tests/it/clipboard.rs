//! The clipboard: in both directions, long texts, owners that do not answer.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;
use testkit::processes::wait_until;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateWindowAux, WindowClass};
use x11rb::wrapper::ConnectionExt as _;

use crate::computer::Computer;
use crate::screen::{Screen, TIMEOUT};

async fn with_clipboard(screen: &Screen) -> Computer {
    let computer = Computer::new(screen).await;
    let both =
        json!({"applications": ["desktop"], "clipboard_read": true, "clipboard_write": true});
    computer.grant(both).await;
    computer
}

/// Puts a text into the clipboard as another program does.
fn copy(screen: &Screen, text: &str) {
    let mut command = screen.command("xclip");
    command.args(["-i", "-selection", "clipboard"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("xclip");
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
    child.wait().expect("it goes to the background");
    wait_until(TIMEOUT, "it owns the clipboard", || {
        (screen.run("xclip", &["-o", "-selection", "clipboard"]).len() == text.len()).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_goes_to_other_programs_and_comes_from_them() {
    let screen = Screen::new();
    let computer = with_clipboard(&screen).await;
    let text = "Zoë 漢字 🦀\n€";
    let done = computer.text("write_clipboard", json!({"text": text})).await;
    assert_eq!(done, "the clipboard has 10 characters");
    assert_eq!(computer.text("read_clipboard", json!({})).await, text);
    assert_eq!(screen.run("xclip", &["-o", "-selection", "clipboard"]), text);
    let targets = screen.run("xclip", &["-o", "-selection", "clipboard", "-t", "TARGETS"]);
    assert_eq!(targets, "TARGETS\nUTF8_STRING\nTEXT\nSTRING\n");
    let long = "aé".repeat(60_000);
    computer.text("write_clipboard", json!({"text": long})).await;
    assert_eq!(screen.run("xclip", &["-o", "-selection", "clipboard"]), long);
    copy(&screen, "from elsewhere: ñ");
    assert_eq!(computer.text("read_clipboard", json!({})).await, "from elsewhere: ñ");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_too_long_is_refused_in_both_directions() {
    let screen = Screen::new();
    let computer = with_clipboard(&screen).await;
    let long = "a".repeat(200_001);
    let refused = "the clipboard holds more than 200000 bytes of text";
    assert_eq!(computer.error("write_clipboard", json!({"text": long})).await, refused);
    copy(&screen, &"b".repeat(150_000));
    assert_eq!(computer.text("read_clipboard", json!({})).await.len(), 150_000);
    // Sent in parts.
    copy(&screen, &"c".repeat(3_000_000));
    assert_eq!(computer.error("read_clipboard", json!({})).await, refused);
    copy(&screen, "short");
    assert_eq!(computer.text("read_clipboard", json!({})).await, "short");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_clipboard_and_an_owner_that_does_not_answer_are_reported() {
    let screen = Screen::new();
    let computer = with_clipboard(&screen).await;
    let error = computer.error("read_clipboard", json!({})).await;
    assert_eq!(error, "the clipboard is empty or holds no text");
    let connection = &screen.connection;
    let window = connection.generate_id().expect("an id");
    let options = CreateWindowAux::new();
    connection
        .create_window(0, window, screen.root, 0, 0, 1, 1, 0, WindowClass::INPUT_ONLY, 0, &options)
        .expect("a request");
    connection.set_selection_owner(window, screen.atom("CLIPBOARD"), 0u32).expect("a request");
    connection.sync().expect("a reply");
    let error = computer.error("read_clipboard", json!({})).await;
    assert_eq!(error, "the program that owns the clipboard did not answer within 1000 ms");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_direction_needs_its_own_grant() {
    let screen = Screen::new();
    let computer = Computer::with_access(&screen, &["desktop"]).await;
    let error = computer.error("read_clipboard", json!({})).await;
    assert_eq!(error, "the clipboard may not be read; call request_access with it first");
    let error = computer.error("write_clipboard", json!({"text": "a"})).await;
    assert_eq!(error, "the clipboard may not be written; call request_access with it first");
    computer.grant(json!({"applications": [], "clipboard_write": true})).await;
    computer.text("write_clipboard", json!({"text": "a"})).await;
    let error = computer.error("read_clipboard", json!({})).await;
    assert_eq!(error, "the clipboard may not be read; call request_access with it first");
    computer.shut_down().await;
}
