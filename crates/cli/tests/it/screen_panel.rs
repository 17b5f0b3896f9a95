//! The panel of servers and the dialogs at a real terminal: what is changed there counts at once.

use serde_json::json;
use testkit::{Script, Scripted, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, scene};

/// Waits as long as somebody needs to see a question; keys that come before answer nothing.
fn read(terminal: &mut Terminal) -> String {
    for _ in 0..4 {
        terminal.calm_screen();
    }
    terminal.screen()
}

#[test]
fn a_server_that_is_switched_off_in_the_panel_ends_and_comes_back() {
    let scene = scene();
    let good = Scripted::entry(&Script::legacy());
    scene.servers(USER, &format!(r#""able": {good}, "gone": {{"command": "no-such-program"}}"#));
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/2 servers").types("/mcp\r").shows("2 servers, 1 connected");
    terminal.shows("✗ failed").shows("└ ").shows("● connected");
    terminal.types("e").shows("○ disabled").shows("0 connected");
    assert!(scene.read(USER).contains("\"disabled\""));
    terminal.types("e").shows("● connected");
    terminal.types("\x1b[B\r").shows("Defined in:").shows("no-such-program");
    terminal.types("\x1b").shows("2 servers").types("q").hides("2 servers, ");
}

#[test]
fn a_projects_server_is_approved_as_it_is_shown() {
    let scene = scene();
    let entry = r#""theirs": {"command": "no-such-program", "args": ["--flag"]}"#;
    scene.servers(".mcp.json", entry);
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("Servers of this project").shows("no-such-program --flag");
    read(&mut terminal);
    terminal.types("\x1b").hides("Servers of this project");
    terminal.types("/mcp\r").shows("? pending approval");
    terminal.types("p").shows("p once more approves").shows("no-such-program --flag");
    terminal.types("p").shows("Approved `theirs`").shows("failed");
}

#[test]
fn a_form_is_filled_in_with_keys() {
    let scene = scene();
    scene.write(USER, &json!({"permissions": {"allow": ["mcp__demo"]}}).to_string());
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server").types("/call mcp__demo__book_table\r").shows("demo asks");
    let text = read(&mut terminal);
    assert!(text.contains("● inside"), "{text}");
    // Not a date: it is said, and nothing is sent.
    terminal.types("Ada\tmonday\t").shows("a date like");
    terminal
        .types("\x1b[Z\x152026-11-30\r4\t\x1b[C\t\t\r")
        .shows("Booked (not really): Ada on 2026-11-30");
    terminal.shows("guests: 4, seating: terrace");
}
