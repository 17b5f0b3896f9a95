//! Pictures: what they show and hide, their scale, monitors, and when coordinates in them are refused.

use image::Rgb;
use serde_json::json;
use x11rb::protocol::randr::{ConnectionExt as _, MonitorInfo};
use x11rb::wrapper::ConnectionExt as _;

use crate::computer::Computer;
use crate::screen::Screen;
use crate::test_window::{Frame, TestWindow};

const RED: u32 = 0x00d0_0000;
const BLUE: u32 = 0x0000_00d0;
const RED_PIXEL: Rgb<u8> = Rgb([0xd0, 0, 0]);
const GREY: Rgb<u8> = Rgb([96, 96, 96]);

fn menu(screen: &Screen, class: &str, area: [i16; 4], colour: u32) -> TestWindow {
    TestWindow::show(screen, (class, class), area, (Frame::Unmanaged, colour))
}

/// Adds a monitor.
fn monitor(screen: &Screen, name: &str, x: i16, width: u16) {
    let info = MonitorInfo {
        name: screen.atom(name),
        primary: x == 0,
        automatic: false,
        x,
        y: 0,
        width,
        height: 800,
        width_in_millimeters: 100,
        height_in_millimeters: 100,
        outputs: Vec::new(),
    };
    screen.connection.randr_set_monitor(screen.root, info).expect("a request");
    screen.connection.sync().expect("a reply");
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_that_are_not_granted_are_hidden() {
    let screen = Screen::new();
    let _secret = menu(&screen, "Secret", [100, 100, 200, 200], BLUE);
    let _shown = menu(&screen, "Shown", [250, 150, 200, 50], RED);
    let computer = Computer::with_access(&screen, &["Shown"]).await;
    let (text, picture) = computer.picture("screenshot", json!({})).await;
    assert_eq!(text, "picture 1: 1280x800; hidden, because not granted: Secret");
    assert_eq!(picture.dimensions(), (1280, 800));
    assert_eq!(*picture.get_pixel(270, 170), RED_PIXEL, "a granted window in front is shown");
    assert_eq!(*picture.get_pixel(150, 150), GREY);
    assert!(picture.pixels().all(|it| *it != Rgb([0, 0, 0xd0])), "no pixel of it is shown");
    computer.grant(json!({"applications": ["Secret"]})).await;
    let (text, picture) = computer.picture("screenshot", json!({})).await;
    assert_eq!(text, "picture 2: 1280x800");
    assert_eq!(*picture.get_pixel(150, 150), Rgb([0, 0, 0xd0]));
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_screen_is_scaled_and_clicks_are_scaled_back() {
    let screen = Screen::with_size("2560x1600");
    let window = menu(&screen, "Target", [2400, 1500, 100, 60], RED);
    let computer = Computer::with_access(&screen, &["Target"]).await;
    let (text, picture) = computer.picture("screenshot", json!({})).await;
    assert_eq!(text, "picture 1: 1356x848, of the screen at (0, 0) 2560x1600");
    // The left half and the right half of the target, in pixels of the picture.
    let red: Vec<(u32, u32)> = picture
        .enumerate_pixels()
        .filter(|(_, _, it)| **it == RED_PIXEL)
        .map(|(x, y, _)| (x, y))
        .collect();
    let (first, last) = (red.first().expect("red"), red.last().expect("red"));
    computer.click((first.0 as i32, first.1 as i32)).await;
    computer.click((last.0 as i32, last.1 as i32)).await;
    let input = window.input();
    let places: Vec<i32> = input
        .split([' ', '@', ','])
        .filter(|it| !it.starts_with('b'))
        .map(|it| it.parse().expect("a number"))
        .collect();
    assert_eq!(places.len(), 4, "{input}");
    assert!(places[0] < 6 && places[1] < 6 && places[2] > 90 && places[3] > 50, "{input}");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zoom_shows_full_resolution_and_leaves_coordinates_alone() {
    let screen = Screen::with_size("2560x1600");
    let window = menu(&screen, "Target", [200, 100, 100, 60], RED);
    let computer = Computer::with_access(&screen, &["Target"]).await;
    computer.look().await;
    let region = json!({"region": [100, 50, 160, 90]});
    let (text, picture) = computer.picture("zoom", region).await;
    assert_eq!(text, "picture 2: 113x74, of the screen at (189, 95) 113x74");
    assert_eq!(*picture.get_pixel(11, 5), RED_PIXEL);
    assert_ne!(*picture.get_pixel(10, 4), RED_PIXEL);
    // Without a number the coordinates are those of the screenshot, with it those of the zoom.
    computer.click((120, 60)).await;
    computer.text("left_click", json!({"coordinate": [11, 5], "picture": 2})).await;
    assert_eq!(window.input(), "b1@27,14 b1@0,0");
    let error = computer.error("zoom", json!({"region": [5, 5, 5, 9]})).await;
    assert_eq!(error, "region has to be [left, top, right, bottom]");
    let error = computer.error("left_click", json!({"coordinate": [113, 5], "picture": 2})).await;
    assert_eq!(error, "(113, 5) is outside picture 2, which is 113x74");
    let error = computer.error("left_click", json!({"coordinate": [1, 5], "picture": 7})).await;
    assert_eq!(error, "picture 7 is not known any more; use the newest one, or call screenshot");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_of_a_window_shows_only_its_part_of_the_screen() {
    let screen = Screen::new();
    let window = menu(&screen, "Target", [300, 200, 100, 60], RED);
    let secret = menu(&screen, "Secret", [700, 200, 100, 60], BLUE);
    let computer = Computer::with_access(&screen, &["Target"]).await;
    let arguments = json!({"window": window.window});
    let (text, picture) = computer.picture("screenshot", arguments).await;
    assert_eq!(text, "picture 1: 100x60, of the screen at (300, 200) 100x60");
    assert!(picture.pixels().all(|it| *it == RED_PIXEL));
    computer.click((99, 59)).await;
    assert_eq!(window.input(), "b1@99,59");
    let error = computer.error("screenshot", json!({"window": secret.window})).await;
    assert!(error.contains("belongs to \"Secret\", which the user has not granted"), "{error}");
    let error = computer.error("screenshot", json!({"window": 12345})).await;
    assert_eq!(error, "there is no window 12345; list_windows shows them");
    let error = computer.error("screenshot", json!({"window": window.window, "monitor": 1})).await;
    assert_eq!(error, "window has to be given without a monitor");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_monitor_has_its_own_picture() {
    let screen = Screen::new();
    monitor(&screen, "left", 0, 800);
    monitor(&screen, "right", 800, 480);
    let window = menu(&screen, "Target", [900, 100, 100, 60], RED);
    let computer = Computer::with_access(&screen, &["Target"]).await;
    // The third one is the whole screen, which the virtual server always has.
    let windows = computer.text("list_windows", json!({})).await;
    assert!(windows.contains("monitor 1 left (0, 0) 800x800, primary"), "{windows}");
    assert!(windows.contains("monitor 2 right (800, 0) 480x800"), "{windows}");
    let (text, _) = computer.picture("screenshot", json!({})).await;
    assert_eq!(text, "picture 1: 800x800; 3 monitors");
    let (text, picture) = computer.picture("screenshot", json!({"monitor": 2})).await;
    assert_eq!(text, "picture 2: 480x800, of the screen at (800, 0) 480x800; 3 monitors");
    assert_eq!(*picture.get_pixel(100, 100), RED_PIXEL);
    computer.click((110, 120)).await;
    assert_eq!(window.input(), "b1@10,20");
    let place = computer.text("cursor_position", json!({})).await;
    assert_eq!(place, "(110, 120) in picture 2");
    let (text, _) = computer.picture("screenshot", json!({"monitor": 0})).await;
    assert_eq!(text, "picture 3: 1280x800; 3 monitors");
    computer.look().await;
    assert_eq!(computer.text("cursor_position", json!({})).await, "outside picture 4");
    let error = computer.error("screenshot", json!({"monitor": 4})).await;
    assert_eq!(error, "there is no monitor 4; there are 3");
    computer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_is_refused_when_the_windows_have_changed_since_the_picture() {
    let screen = Screen::new();
    let window = menu(&screen, "Target", [300, 200, 100, 60], RED);
    let computer = Computer::with_access(&screen, &["Target", "desktop"]).await;
    computer.look().await;
    window.move_to(310, 200);
    let stale = "the windows at this place have changed since picture 1 was taken; nothing was done; call screenshot and \
                 look again";
    let error = computer.error("left_click", json!({"coordinate": [350, 230]})).await;
    assert_eq!(error, stale);
    // Where nothing has changed, a click is right.
    computer.click((600, 600)).await;
    computer.look().await;
    computer.click((350, 230)).await;
    let cover = menu(&screen, "Target", [340, 220, 20, 20], BLUE);
    let error = computer.error("left_click", json!({"coordinate": [350, 230]})).await;
    assert!(error.starts_with("the windows at this place have changed since picture 2"), "{error}");
    assert_eq!((window.input().as_str(), cover.input().as_str()), ("b1@40,30", ""));
    computer.shut_down().await;
}
