//! Clicks, drags and the wheel, in real programs and in windows that remember them.

use serde_json::json;

use crate::computer::Computer;
use crate::screen::Screen;
use crate::test_window::{Frame, TestWindow};

#[tokio::test(flavor = "multi_thread")]
async fn a_click_goes_into_a_terminal_and_into_a_gtk_dialog() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let entry = screen.entry();
    let computer = Computer::with_access(&screen, &["XTerm", "zenity"]).await;
    computer.look().await;
    let text = computer.click((100, 120)).await;
    assert_eq!(text, "clicked (100, 120) in \"XTerm\"");
    computer.text("type", json!({"text": "to the terminal"})).await;
    terminal.wait_for("to the terminal");
    computer.look().await;
    computer.click(screen.middle_of(entry.window)).await;
    computer.text("type", json!({"text": "to the dialog\n"})).await;
    assert_eq!(entry.result(), "to the dialog");
    terminal.wait_for("to the terminal");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn buttons_modifiers_and_the_wheel_arrive_where_they_were_sent() {
    let screen = Screen::new();
    let area = [100, 100, 300, 200];
    let window = TestWindow::show(&screen, ("Target", "x"), area, (Frame::Unmanaged, 0));
    let computer = Computer::with_access(&screen, &["Target"]).await;
    computer.look().await;
    let at = json!([110, 120]);
    for (tool, expected) in [
        ("left_click", "b1@10,20"),
        ("middle_click", "b2@10,20"),
        ("right_click", "b3@10,20"),
        ("double_click", "b1@10,20 b1@10,20"),
        ("triple_click", "b1@10,20 b1@10,20 b1@10,20"),
    ] {
        computer.text(tool, json!({"coordinate": at})).await;
        assert_eq!(window.input(), expected, "{tool}");
    }
    for (direction, button) in [("up", 4), ("down", 5), ("left", 6), ("right", 7)] {
        let arguments = json!({"coordinate": at, "direction": direction, "amount": 2});
        computer.text("scroll", arguments).await;
        assert_eq!(window.input(), format!("b{button}@10,20 b{button}@10,20"));
    }
    computer.text("mouse_move", json!({"coordinate": [150, 160]})).await;
    computer.text("left_mouse_down", json!({})).await;
    assert_eq!(window.input(), "b1@50,60");
    let error = computer.error("left_mouse_down", json!({})).await;
    assert_eq!(error, "the left button has to be up; call left_mouse_up first");
    computer.text("left_mouse_up", json!({})).await;
    let error = computer.error("left_mouse_up", json!({})).await;
    assert_eq!(error, "the left button has to be down; call left_mouse_down first");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_is_released_when_the_session_ends() {
    let screen = Screen::new();
    let area = [100, 100, 300, 200];
    let _window = TestWindow::show(&screen, ("Target", "x"), area, (Frame::Unmanaged, 0));
    let computer = Computer::with_access(&screen, &["Target"]).await;
    computer.look().await;
    computer.text("mouse_move", json!({"coordinate": [150, 160]})).await;
    computer.text("left_mouse_down", json!({})).await;
    let buttons = || {
        use x11rb::protocol::xproto::ConnectionExt as _;
        let pointer = screen.connection.query_pointer(screen.root).expect("a request");
        u32::from(u16::from(pointer.reply().expect("a reply").mask)) & 0x1f00
    };
    assert_ne!(buttons(), 0);
    computer.shut_down().await;
    assert_eq!(buttons(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drag_selects_text_in_a_terminal() {
    let mut screen = Screen::new();
    let terminal = screen.terminal();
    let computer = Computer::with_access(&screen, &["XTerm"]).await;
    computer.text("type", json!({"text": "drag over me"})).await;
    terminal.wait_for("drag over me");
    let (x, y) = screen.middle_of(terminal.window);
    computer.look().await;
    let drag = json!({"start_coordinate": [x, y], "coordinate": [50, 65]});
    computer.text("left_click_drag", drag).await;
    let selected = testkit::processes::wait_until(crate::screen::TIMEOUT, "it is selected", || {
        let selected = screen.run("xclip", &["-o", "-selection", "primary"]);
        (!selected.is_empty()).then_some(selected)
    });
    assert!("drag over me".contains(selected.trim()) && selected.len() > 5, "{selected:?}");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_outside_granted_applications_is_refused() {
    let screen = Screen::new();
    let secret = ("Secret", "XTerm");
    let area = [100, 100, 300, 200];
    let window = TestWindow::show(&screen, secret, area, (Frame::Unmanaged, 0));
    let other = [600, 100, 100, 100];
    let own = TestWindow::show(&screen, ("Target", "x"), other, (Frame::Unmanaged, 0));
    let computer = Computer::with_access(&screen, &["Target"]).await;
    computer.look().await;
    let refused = "the window at this place belongs to \"Secret\", which the user has not granted; work in a granted \
                   application, or call request_access with \"Secret\"";
    for tool in ["left_click", "right_click", "mouse_move"] {
        assert_eq!(computer.error(tool, json!({"coordinate": [150, 150]})).await, refused);
    }
    let scroll = json!({"coordinate": [150, 150], "direction": "down"});
    assert_eq!(computer.error("scroll", scroll).await, refused);
    let drag = json!({"start_coordinate": [650, 150], "coordinate": [150, 150]});
    assert_eq!(computer.error("left_click_drag", drag).await, refused);
    let error = computer.error("left_click", json!({"coordinate": [900, 700]})).await;
    assert!(error.contains("belongs to \"the desktop\""), "{error}");
    assert_eq!((window.input().as_str(), own.input().as_str()), ("", ""));
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_stops_at_the_first_action_that_fails() {
    let screen = Screen::new();
    let area = [100, 100, 300, 200];
    let window = TestWindow::show(&screen, ("Target", "x"), area, (Frame::Unmanaged, 0));
    let computer = Computer::with_access(&screen, &["Target"]).await;
    computer.look().await;
    let click = |x: i32| json!({"tool": "left_click", "arguments": {"coordinate": [x, 150]}});
    let batch = json!({"actions": [click(150), {"tool": "wait", "arguments": {"seconds": 0.01}}, {"tool": "screenshot"}]});
    let (text, picture) = computer.picture("computer_batch", batch).await;
    assert_eq!(text, "1. clicked (150, 150) in \"Target\"\n2. waited 0.0 s\npicture 2: 1280x800");
    assert_eq!(picture.dimensions(), (1280, 800));
    assert_eq!(window.input(), "b1@50,50");
    let error = computer
        .error("computer_batch", json!({"actions": [click(160), click(900), click(170)]}))
        .await;
    assert!(
        error.starts_with(
            "action 2 (left_click): the window at this place belongs to \"the desktop\""
        ),
        "{error}"
    );
    assert!(error.ends_with("; done before: 1. clicked (160, 150) in \"Target\""), "{error}");
    assert_eq!(window.input(), "b1@60,50");
    // A batch with a mistake anywhere does nothing.
    for (last, expected) in [
        (json!({"tool": "open_application"}), "action 2 (open_application): a batch may contain"),
        (json!({"tool": "key", "arguments": {"keys": "nokey"}}), "action 2 (key): there is no key"),
    ] {
        let error = computer.error("computer_batch", json!({"actions": [click(160), last]})).await;
        assert!(error.starts_with(expected), "{error}");
    }
    let early = json!({"actions": [{"tool": "screenshot"}, click(160)]});
    let error = computer.error("computer_batch", early).await;
    assert!(error.contains("may only be the last action"), "{error}");
    let error = computer.error("computer_batch", json!({"actions": []})).await;
    assert_eq!(error, "actions has to be a list of 1 to 50 actions");
    assert_eq!(window.input(), "");
    computer.shut_down().await;
}
