//! Calls that the user starts on the screen: cards, prompts, progress, interrupts.

use serde_json::json;
use testkit::{Sandbox, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, local_settings, scene};

/// The built-in server `demo`, with all tools allowed.
fn allowed() -> Sandbox {
    let scene = scene();
    scene.write(USER, &json!({"permissions": {"allow": ["mcp__demo"]}}).to_string());
    scene
}

fn ready(scene: &Sandbox, size: Size) -> Terminal {
    let mut terminal = screen(scene, size);
    terminal.wait_for_screen("1/1 server");
    terminal
}

#[test]
fn a_call_is_a_card_with_its_arguments_and_its_result() {
    let scene = allowed();
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal
        .send_keys("/call mcp__demo__echo text='hello there'\r")
        .wait_for_screen("│ hello there");
    let screen = terminal.stable_screen();
    assert!(screen.contains("● demo: echo") && screen.contains("  text=hello there"), "{screen}");
}

#[test]
fn a_long_result_is_folded_and_unfolds() {
    let scene = allowed();
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal
        .send_keys("/call mcp__demo__long_text lines:=12\r")
        .wait_for_screen("9 more lines (Ctrl-O)");
    terminal
        .send_keys("\x0f")
        .wait_until_absent("more lines")
        .send_keys("\x0f")
        .wait_for_screen("9 more lines");
}

#[test]
fn a_call_without_an_allow_rule_prompts_and_yes_runs_it() {
    let scene = scene();
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal.send_keys("/call mcp__demo__echo text=hi\r").wait_for_screen("demo wants to run echo");
    // Keys are ignored until the prompt has been visible for some time.
    terminal.stable_screen();
    terminal.stable_screen();
    terminal.stable_screen();
    terminal.send_keys("\r").wait_for_screen("│ hi");
}

#[test]
fn always_writes_the_displayed_rule_and_does_not_ask_again() {
    let scene = scene();
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal.send_keys("/call mcp__demo__echo text=hi\r").wait_for_screen("demo wants to run echo");
    for _ in 0..3 {
        terminal.stable_screen();
    }
    terminal
        .send_keys("3\r")
        .wait_for_screen("Which rule is written to")
        .wait_for_screen("allow mcp__demo__echo");
    terminal.send_keys("\r").wait_for_screen("│ hi");
    terminal.send_keys("/call mcp__demo__echo text=again\r").wait_for_screen("│ again");
    let settings = std::fs::read_to_string(local_settings(&scene)).expect("it was written");
    assert!(settings.contains(r#""mcp__demo__echo""#), "{settings}");
}

#[test]
fn a_running_call_shows_progress_and_stops_on_escape() {
    let scene = allowed();
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal
        .send_keys("/call mcp__demo__count_slowly steps:=50\r")
        .wait_for_screen(" %")
        .wait_for_screen("Esc stop");
    terminal.send_keys("\x1b").wait_for_screen("stopped").wait_until_absent("Esc stop");
}

#[test]
fn a_failed_call_shows_the_error_in_its_card() {
    let scene = allowed();
    let mut terminal = ready(&scene, Size::LARGE);
    terminal
        .send_keys("/call mcp__demo__ecko\r")
        .wait_for_screen("did you mean `mcp__demo__echo`?");
    terminal.send_keys("/call mcp__demo__echo\r").wait_for_screen("do not fit");
    terminal.send_keys("/nonsense\r").wait_for_screen("there is no command `/nonsense`");
}

#[test]
fn a_prompt_asks_for_its_arguments_and_offers_completions() {
    let scene = scene();
    let mut terminal = ready(&scene, Size::STANDARD);
    terminal
        .send_keys("/mcp__demo__write_about\r")
        .wait_for_screen("topic: ")
        .wait_for_screen(" tea");
    terminal
        .send_keys("\x1b[B\r")
        .wait_for_screen("tone (may be left empty)")
        .wait_for_screen(" formal");
    terminal.send_keys("\r").wait_until_absent("tone (may").wait_for_screen("telephone exchanges");
}
