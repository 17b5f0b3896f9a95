//! The screen at a terminal: start, menus and pages, window size, exit.

use testkit::{Sandbox, Script, ScriptedProgram, Size, Terminal};

use crate::support::{USER, scene};

/// Starts the screen at a terminal that supports it.
pub fn screen(scene: &Sandbox, size: Size) -> Terminal {
    let mut command = scene.command(&scene.project(), &[]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    Terminal::with_size(&command, size)
}

#[test]
fn the_first_screen_shows_servers_and_hints() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal.wait_for_screen("1/1 server");
    insta::assert_snapshot!(terminal.stable_screen());
    let mut terminal = screen(&scene, Size::LARGE);
    terminal.wait_for_screen("1/1 server");
    insta::assert_snapshot!(terminal.stable_screen());
}

#[test]
fn a_server_that_fails_is_named_at_the_bottom() {
    let scene = scene();
    let good = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(
        USER,
        &format!(r#""good": {good}, "gone": {{"command": "no-such-program"}}"#),
    );
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal.wait_for_screen("1/2 servers (not: gone)");
}

#[test]
fn help_is_a_page_that_scrolls_and_closes() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal
        .wait_for_screen("1/1 server")
        .send_keys("/help\r")
        .wait_for_screen("Commands")
        .wait_for_screen("/doctor");
    insta::assert_snapshot!(terminal.stable_screen());
    terminal
        .send_keys("G")
        .wait_for_screen("Ctrl-Z")
        .send_keys("q")
        .wait_until_absent("Ctrl-Z")
        .wait_for_screen("> /help");
}

#[test]
fn menus_offer_commands_tools_and_resources() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal.wait_for_screen("1/1 server").send_keys("/").wait_for_screen("/plugin");
    insta::assert_snapshot!(terminal.stable_screen());
    terminal
        .send_keys("ca\t")
        .wait_for_screen("> /call")
        .send_keys("dclo")
        .wait_for_screen("mcp__demo__draw_clock");
    terminal.send_keys("\t").wait_for_screen("> /call mcp__demo__draw_clock");
    terminal.send_keys("\x15see @note").wait_for_screen("@demo:note://{id}");
}

#[test]
fn the_screen_follows_the_window() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::LARGE);
    terminal.wait_for_screen("1/1 server").send_keys("/tools\r").wait_for_screen("mcp__demo__now");
    terminal
        .send_keys("a draft")
        .resize(Size { columns: 60, rows: 16 })
        .wait_for_screen("> a draft");
    let small = terminal.stable_screen();
    assert!(small.lines().all(|line| line.chars().count() <= 60), "{small}");
    insta::assert_snapshot!(small);
    terminal.resize(Size::LARGE).wait_for_screen("ListMcpResources");
}

#[test]
fn free_text_without_a_model_names_the_setting() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal
        .wait_for_screen("1/1 server")
        .send_keys("hello\r")
        .wait_for_screen("ANTHROPIC_API_KEY")
        .wait_for_screen("/call");
}

#[test]
fn two_interrupts_quit_and_restore_the_terminal() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal.wait_for_screen("1/1 server");
    assert!(terminal.is_on_alternate_screen());
    terminal
        .send_keys("half a line\x03")
        .wait_until_absent("half a line")
        .wait_for_screen("Ctrl-C again quits");
    terminal.send_keys("\x03").wait_for_output("\x1b[?1049l");
    let (code, _) = terminal.wait_for_exit();
    assert_eq!(code, 0);
}

#[test]
fn sent_messages_are_in_the_history_of_the_next_run() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal
        .wait_for_screen("1/1 server")
        .send_keys("/permissions\r")
        .wait_for_screen("mode: default")
        .send_keys("\x04");
    terminal.wait_for_exit();
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal.wait_for_screen("1/1 server").send_keys("\x1b[A").wait_for_screen("> /permissions");
    terminal.send_keys("\x15\x12perm").wait_for_screen("search: perm  /permissions");
}

#[test]
fn an_editor_uses_the_terminal_and_returns_it() {
    let mut scene = scene();
    scene.set_env("EDITOR", "sed -i s/old/new/");
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal
        .wait_for_screen("1/1 server")
        .send_keys("some old text\x07")
        .wait_for_screen("> some new text");
    assert!(terminal.is_on_alternate_screen());
    terminal.send_keys(" and more").wait_for_screen("> some new text and more");
}
