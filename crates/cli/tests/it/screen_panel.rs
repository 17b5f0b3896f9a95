//! The server panel and the dialogs at a terminal: changes take effect at once.

use serde_json::json;
use testkit::{Script, ScriptedProgram, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, scene, states};

/// Waits until a prompt accepts keys: it ignores those that arrive before the user can have read it.
fn read(terminal: &mut Terminal) -> String {
    for _ in 0..4 {
        terminal.stable_screen();
    }
    terminal.screen()
}

#[test]
fn a_server_is_disabled_and_enabled_in_the_panel() {
    let scene = scene();
    let good = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(
        USER,
        &format!(r#""able": {good}, "gone": {{"command": "no-such-program"}}"#),
    );
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal
        .wait_for_screen("1/2 servers")
        .send_keys("/mcp\r")
        .wait_for_screen("2 servers, 1 connected");
    terminal.wait_for_screen("✗ failed").wait_for_screen("└ ").wait_for_screen("● connected");
    terminal.send_keys("e").wait_for_screen("○ disabled").wait_for_screen("0 connected");
    assert!(scene.read(USER).contains("\"disabled\""));
    terminal.send_keys("e").wait_for_screen("● connected");
    terminal
        .send_keys("\x1b[B\r")
        .wait_for_screen("Defined in:")
        .wait_for_screen("no-such-program");
    terminal
        .send_keys("\x1b")
        .wait_for_screen("2 servers")
        .send_keys("q")
        .wait_until_absent("2 servers, ");
}

#[test]
fn a_projects_server_is_approved_as_it_is_shown() {
    let scene = scene();
    let entry = r#""theirs": {"command": "no-such-program", "args": ["--flag"]}"#;
    scene.write_servers(".mcp.json", entry);
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal.wait_for_screen("Servers of this project").wait_for_screen("no-such-program --flag");
    read(&mut terminal);
    terminal.send_keys("\x1b").wait_until_absent("Servers of this project");
    terminal.send_keys("/mcp\r").wait_for_screen("? pending approval");
    terminal
        .send_keys("p")
        .wait_for_screen("press p again to approve")
        .wait_for_screen("no-such-program --flag");
    terminal.send_keys("p").wait_for_screen("Approved `theirs`").wait_for_screen("failed");
}

#[test]
fn a_plugins_server_is_approved_at_the_start() {
    let scene = scene();
    let plugin =
        json!({"name": "p", "mcpServers": {"s": {"command": "no-such-program", "trust": true}}});
    scene.write("lab/p/.claude-plugin/plugin.json", &plugin.to_string());
    let plugins = json!([{"name": "p", "source": "./p"}]);
    let market = json!({"name": "lab", "owner": {"name": "M"}, "plugins": plugins});
    scene.write("lab/.claude-plugin/marketplace.json", &market.to_string());
    scene.swb(&["plugin", "marketplace", "add", "./lab"]).expect_success();
    scene.swb(&["plugin", "install", "p@lab"]).expect_success();
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal
        .wait_for_screen("Servers that wait for approval")
        .wait_for_screen("plugin:p:s")
        .wait_for_screen("no-such-program")
        .wait_for_screen("It requests trust");
    read(&mut terminal);
    terminal.send_keys("a").wait_for_screen("[approve]").send_keys("\r\r");
    terminal
        .wait_until_absent("Servers that wait for approval")
        .wait_for_screen("Approved `plugin:p:s`");
    assert!(states(&scene, &[]).contains(&"plugin:p:s plugin ready".to_owned()));
}

#[test]
fn a_form_is_filled_in_with_keys() {
    let scene = scene();
    scene.write(USER, &json!({"permissions": {"allow": ["mcp__demo"]}}).to_string());
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal
        .wait_for_screen("1/1 server")
        .send_keys("/call mcp__demo__book_table\r")
        .wait_for_screen("demo asks");
    let text = read(&mut terminal);
    assert!(text.contains("● inside"), "{text}");
    // Not a date: the form reports it and is not sent.
    terminal.send_keys("Ada\tmonday\t").wait_for_screen("a date like");
    terminal
        .send_keys("\x1b[Z\x152026-11-30\r4\t\x1b[C\t\t\r")
        .wait_for_screen("Booked (not really): Ada on 2026-11-30");
    terminal.wait_for_screen("guests: 4, seating: terrace");
}
