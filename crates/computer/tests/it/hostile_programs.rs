//! Programs on the screen that act against the user: they show windows at the wrong moment, and a terminal multiplexer
//! hides which terminal is our own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use image::Rgb;
use serde_json::json;
use switchboard_computer::{ComputerSettings, Multiplexer};
use switchboard_wire::protocol::era::Era;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, GrabMode, GrabStatus};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::computer::{Computer, settings};
use crate::screen::Screen;
use crate::test_window::{Frame, TestWindow};

const RED: u32 = 0x00d0_0000;
const BLUE: u32 = 0x0000_00d0;
const BLUE_PIXEL: Rgb<u8> = Rgb([0, 0, 0xd0]);

fn unmanaged(screen: &Screen, class: &str, area: [i16; 4], colour: u32) -> TestWindow {
    TestWindow::show(screen, (class, class), area, (Frame::Unmanaged, colour))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_comes_and_goes_is_in_no_picture() {
    let screen = Screen::new();
    let _shown = unmanaged(&screen, "Shown", [100, 100, 200, 200], RED);
    let secret = unmanaged(&screen, "Secret", [150, 150, 40, 40], BLUE);
    let computer = Computer::with_access(&screen, &["Shown"]).await;
    computer.look().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let (display, window, end) = (screen.display.clone(), secret.window, is_over.clone());
    let flicker = thread::spawn(move || {
        let (connection, _) = RustConnection::connect(Some(&display)).expect("a connection");
        let mut changes = 0;
        while !end.load(Ordering::Relaxed) {
            connection.unmap_window(window).expect("a request");
            connection.sync().expect("a reply");
            connection.map_window(window).expect("a request");
            connection.sync().expect("a reply");
            changes += 1;
        }
        changes
    });
    let (mut with, mut without) = (0, 0);
    for _ in 0..150 {
        let region = json!({"region": [120, 120, 220, 220]});
        let (_, picture) = computer.picture("zoom", region).await;
        assert!(picture.pixels().all(|it| *it != BLUE_PIXEL), "its pixels are in a picture");
        match picture.pixels().any(|it| *it == Rgb([96, 96, 96])) {
            true => with += 1,
            false => without += 1,
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let changes = flicker.join().expect("it ends");
    assert!(
        changes > 0 && with > 0 && without > 0,
        "{changes} changes: {with} with, {without} without"
    );
    computer.shut_down().await;
}

/// The place of the pointer.
fn pointer(screen: &Screen) -> (i16, i16) {
    let pointer = screen.connection.query_pointer(screen.root).expect("a request");
    let pointer = pointer.reply().expect("a reply");
    (pointer.root_x, pointer.root_y)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drag_is_not_dropped_on_a_window_that_came_meanwhile() {
    let screen = Screen::new();
    let from = unmanaged(&screen, "From", [100, 100, 500, 300], RED);
    let secret = unmanaged(&screen, "Secret", [450, 250, 100, 100], BLUE);
    let computer = Computer::with_access(&screen, &["From"]).await;
    let drag = json!({"start_coordinate": [150, 150], "coordinate": [500, 300]});
    // Until the window came while the drag was on its way, and not before or after it.
    for attempt in 0.. {
        assert!(attempt < 50, "the window never came in time");
        screen.connection.unmap_window(secret.window).expect("a request");
        screen.connection.flush().expect("a connection");
        screen.connection.sync().expect("a reply");
        computer.look().await;
        from.input();
        let (display, root, window) = (screen.display.clone(), screen.root, secret.window);
        let show = thread::spawn(move || {
            let (connection, _) = RustConnection::connect(Some(&display)).expect("a connection");
            loop {
                let pointer = connection.query_pointer(root).expect("a request");
                let pointer = pointer.reply().expect("a reply");
                if pointer.root_x > 160 && u16::from(pointer.mask) & 0x100 != 0 {
                    break;
                }
            }
            connection.map_window(window).expect("a request");
            connection.sync().expect("a reply");
        });
        let result = computer.call("left_click_drag", drag.clone()).await;
        show.join().expect("it saw the drag");
        let text = result["content"][0]["text"].as_str().expect("a text");
        if text.contains("belongs to \"Secret\"") {
            break;
        }
        assert!(text.starts_with("dragged from"), "{text}");
    }
    assert_eq!(pointer(&screen), (150, 150), "the button was released where the drag began");
    let mask = screen.connection.query_pointer(screen.root).expect("a request");
    assert_eq!(u16::from(mask.reply().expect("a reply").mask) & 0x100, 0, "no button is down");
    assert_eq!(secret.input(), "");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_a_multiplexer_the_terminals_of_its_clients_are_our_own() {
    let mut screen = Screen::new();
    let socket = screen.folder().join("tmux");
    let socket = socket.to_str().expect("a path");
    // The session ends with its client. Its server is no child of the terminal.
    let session = ["new-session", "cat", ";", "set-option", "-g", "destroy-unattached", "on"];
    let arguments = [
        "-class",
        "Mux",
        "-geometry",
        "40x8+700+400",
        "-e",
        "tmux",
        "-S",
        socket,
        "-f",
        "/dev/null",
    ];
    screen.start("xterm", &[&arguments[..], &session].concat());
    let multiplexed = screen.window("Mux");
    screen.wait_for_focus(multiplexed);
    let terminal = screen.terminal();
    let type_into = async |multiplexer, window| {
        let computer = Computer::with_settings(
            ComputerSettings { multiplexer, ..settings(&screen) },
            Era::Legacy,
        )
        .await;
        computer.grant(json!({"applications": ["Mux", "XTerm"]})).await;
        let focus = computer.call("focus_window", json!({"window": window})).await;
        let typed = computer.call("type", json!({"text": "y"})).await;
        computer.shut_down().await;
        [focus, typed].map(|it| it["content"][0]["text"].as_str().expect("a text").to_owned())
    };
    // What is typed goes to the terminal that has the focus still.
    let [refused, _] = type_into(Multiplexer::Present, multiplexed).await;
    assert!(refused.contains("is the terminal in which swb itself runs"), "{refused}");
    let other = type_into(Multiplexer::Present, terminal.window).await;
    assert_eq!(other[1], "typed 1 characters in \"XTerm\"", "other terminals are not");
    let alone = type_into(Multiplexer::Absent, multiplexed).await;
    assert_eq!(alone[1], "typed 1 characters in \"Mux\"");
    terminal.wait_for("yy");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_not_sent_to_a_program_that_has_grabbed_the_keyboard() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    computer.look().await;
    let locker = RustConnection::connect(Some(&screen.display)).expect("a connection").0;
    let (mode, now) = (GrabMode::ASYNC, x11rb::CURRENT_TIME);
    let grab = locker.grab_keyboard(false, screen.root, now, mode, mode).expect("a request");
    assert_eq!(grab.reply().expect("a reply").status, GrabStatus::SUCCESS);
    for (tool, arguments) in [
        ("type", json!({"text": "secret"})),
        ("key", json!({"keys": "a"})),
        ("hold_key", json!({"keys": "a", "seconds": 0.1})),
    ] {
        let error = computer.error(tool, arguments).await;
        assert!(error.starts_with("another program has grabbed the keyboard"), "{tool}: {error}");
    }
    locker.ungrab_keyboard(now).expect("a request");
    locker.sync().expect("a reply");
    computer.text("type", json!({"text": "b"})).await;
    terminal.wait_for("b");
    assert!(!terminal.text().contains('s'), "{}", terminal.text());
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_button_is_not_released_over_a_window_that_came_meanwhile() {
    let screen = Screen::new();
    let _from = unmanaged(&screen, "From", [100, 100, 500, 300], RED);
    let computer = Computer::with_access(&screen, &["From"]).await;
    computer.look().await;
    computer.text("mouse_move", json!({"coordinate": [150, 150]})).await;
    computer.text("left_mouse_down", json!({})).await;
    computer.text("mouse_move", json!({"coordinate": [300, 200]})).await;
    let secret = unmanaged(&screen, "Secret", [250, 150, 100, 100], BLUE);
    secret.input();
    let error = computer.error("left_mouse_up", json!({})).await;
    assert!(error.contains("belongs to \"Secret\""), "{error}");
    assert_eq!(pointer(&screen), (150, 150), "it was released where it was pressed");
    let mask = screen.connection.query_pointer(screen.root).expect("a request");
    assert_eq!(u16::from(mask.reply().expect("a reply").mask) & 0x100, 0, "no button is down");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_that_window_managers_act_on_needs_the_keys_of_the_desktop() {
    let screen = Screen::new();
    let target = unmanaged(&screen, "Target", [100, 100, 300, 200], RED);
    let computer = Computer::new(&screen).await;
    let request = json!({"applications": ["Target"], "reason": "a test"});
    computer.text("request_access", request).await;
    computer.look().await;
    for modifiers in ["alt", "super", "ctrl+alt"] {
        let click = json!({"coordinate": [150, 150], "modifiers": modifiers});
        let error = computer.error("left_click", click).await;
        assert!(error.starts_with("a click with alt or super"), "{error}");
    }
    assert_eq!(target.input(), "");
    let click = json!({"coordinate": [150, 150], "modifiers": "ctrl"});
    computer.text("left_click", click).await;
    computer.grant(json!({"applications": ["Target"], "system_keys": true})).await;
    let click = json!({"coordinate": [150, 150], "modifiers": "alt"});
    computer.text("left_click", click).await;
    computer.shut_down().await;
}
