//! The screen at a real terminal: how it starts, its menus and pages, how it follows the window, how it leaves.

use testkit::{Scene, Script, Scripted, Size, Terminal};

use crate::support::{USER, scene};

/// The screen, at a terminal that can draw.
pub fn screen(scene: &Scene, size: Size) -> Terminal {
    let mut command = scene.command(&scene.project(), &[]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    Terminal::sized(&command, size)
}

#[test]
fn the_first_screen_says_what_is_there_and_how_to_go_on() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server");
    insta::assert_snapshot!(terminal.calm_screen());
    let mut terminal = screen(&scene, Size::LARGE);
    terminal.shows("1/1 server");
    insta::assert_snapshot!(terminal.calm_screen());
}

#[test]
fn a_server_that_fails_is_named_at_the_bottom() {
    let scene = scene();
    let good = Scripted::entry(&Script::legacy());
    scene.servers(USER, &format!(r#""good": {good}, "gone": {{"command": "no-such-program"}}"#));
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/2 servers (not: gone)");
}

#[test]
fn help_is_a_page_that_scrolls_and_closes() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server").types("/help\r").shows("Commands").shows("/doctor");
    insta::assert_snapshot!(terminal.calm_screen());
    terminal.types("G").shows("Ctrl-Z").types("q").hides("Ctrl-Z").shows("> /help");
}

#[test]
fn menus_offer_commands_tools_and_what_servers_have() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server").types("/").shows("/permissions");
    insta::assert_snapshot!(terminal.calm_screen());
    terminal.types("ca\t").shows("> /call").types("dclo").shows("mcp__demo__draw_clock");
    terminal.types("\t").shows("> /call mcp__demo__draw_clock");
    terminal.types("\x15see @note").shows("@demo:note://{id}");
}

#[test]
fn the_screen_follows_the_window() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::LARGE);
    terminal.shows("1/1 server").types("/tools\r").shows("mcp__demo__now");
    terminal.types("a draft").resize(Size { columns: 60, rows: 16 }).shows("> a draft");
    let small = terminal.calm_screen();
    assert!(small.lines().all(|line| line.chars().count() <= 60), "{small}");
    insta::assert_snapshot!(small);
    terminal.resize(Size::LARGE).shows("ListMcpResources");
}

#[test]
fn free_text_without_a_model_says_how_to_set_one() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server").types("hello\r").shows("ANTHROPIC_API_KEY").shows("/call");
}

#[test]
fn two_interrupts_leave_and_the_terminal_is_as_it_was() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server");
    assert!(terminal.is_on_other_screen());
    terminal.types("half a line\x03").hides("half a line").shows("Ctrl-C again leaves");
    terminal.types("\x03").sees("\x1b[?1049l");
    let (code, _) = terminal.ends();
    assert_eq!(code, 0);
}

#[test]
fn what_was_sent_is_there_the_next_time() {
    let scene = scene();
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server").types("/permissions\r").shows("mode: default").types("\x04");
    terminal.ends();
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server").types("\x1b[A").shows("> /permissions");
    terminal.types("\x15\x12perm").shows("search: perm  /permissions");
}

#[test]
fn an_editor_has_the_terminal_and_gives_it_back() {
    let mut scene = scene();
    scene.set("EDITOR", "sed -i s/old/new/");
    let mut terminal = screen(&scene, Size::USUAL);
    terminal.shows("1/1 server").types("some old text\x07").shows("> some new text");
    assert!(terminal.is_on_other_screen());
    terminal.types(" and more").shows("> some new text and more");
}
