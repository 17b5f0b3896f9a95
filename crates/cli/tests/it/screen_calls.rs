//! Calls on the screen, made by hand: cards, questions, progress, interrupts.

use serde_json::json;
use testkit::{Scene, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, local_settings, scene};

/// The demonstration's server, whose tools may run.
fn allowed() -> Scene {
    let scene = scene();
    scene.write(USER, &json!({"permissions": {"allow": ["mcp__demo"]}}).to_string());
    scene
}

fn ready(scene: &Scene, size: Size) -> Terminal {
    let mut terminal = screen(scene, size);
    terminal.shows("1/1 server");
    terminal
}

#[test]
fn a_call_is_a_card_with_its_arguments_and_its_result() {
    let scene = allowed();
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("/call mcp__demo__echo text='hello there'\r").shows("│ hello there");
    let screen = terminal.calm_screen();
    assert!(screen.contains("● demo: echo") && screen.contains("  text=hello there"), "{screen}");
}

#[test]
fn a_long_result_is_folded_and_unfolds() {
    let scene = allowed();
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("/call mcp__demo__long_text lines:=12\r").shows("9 more lines (Ctrl-O)");
    terminal.types("\x0f").hides("more lines").types("\x0f").shows("9 more lines");
}

#[test]
fn a_call_that_nobody_allowed_yet_asks_and_yes_lets_it_run() {
    let scene = scene();
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("/call mcp__demo__echo text=hi\r").shows("demo wants to run echo");
    // What is typed before somebody can have read it answers nothing.
    terminal.calm_screen();
    terminal.calm_screen();
    terminal.calm_screen();
    terminal.types("\r").shows("│ hi");
}

#[test]
fn always_writes_the_rule_that_it_shows_and_asks_no_more() {
    let scene = scene();
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("/call mcp__demo__echo text=hi\r").shows("demo wants to run echo");
    for _ in 0..3 {
        terminal.calm_screen();
    }
    terminal.types("3\r").shows("Which rule is written to").shows("allow mcp__demo__echo");
    terminal.types("\r").shows("│ hi");
    terminal.types("/call mcp__demo__echo text=again\r").shows("│ again");
    let settings = std::fs::read_to_string(local_settings(&scene)).expect("it was written");
    assert!(settings.contains(r#""mcp__demo__echo""#), "{settings}");
}

#[test]
fn a_call_under_way_shows_how_far_it_is_and_stops_on_escape() {
    let scene = allowed();
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("/call mcp__demo__count_slowly steps:=50\r").shows(" %").shows("Esc stop");
    terminal.types("\x1b").shows("stopped").hides("Esc stop");
}

#[test]
fn what_is_wrong_with_a_call_is_said_in_its_card() {
    let scene = allowed();
    let mut terminal = ready(&scene, Size::LARGE);
    terminal.types("/call mcp__demo__ecko\r").shows("did you mean `mcp__demo__echo`?");
    terminal.types("/call mcp__demo__echo\r").shows("do not fit");
    terminal.types("/nonsense\r").shows("there is no command `/nonsense`");
}

#[test]
fn a_prompt_asks_for_its_arguments_and_offers_what_they_could_be() {
    let scene = scene();
    let mut terminal = ready(&scene, Size::USUAL);
    terminal.types("/mcp__demo__write_about\r").shows("topic: ").shows(" tea");
    terminal.types("\x1b[B\r").shows("tone (may be left empty)").shows(" formal");
    terminal.types("\r").hides("tone (may").shows("telephone exchanges");
}
