//! `swb demo`: runs to its end on the screen and as plain lines, hands over to the user at a key press, and leaves no
//! files behind.

use std::process::Stdio;

use testkit::{Sandbox, Size, Terminal};

use crate::support::{USER, scene};

const WALK_OUTPUT: &str = include_str!("../../../../xtask/src/commands/walk/demo.txt");

fn demo(scene: &Sandbox, size: Size) -> Terminal {
    let mut command = scene.command(&scene.project(), &["demo", "--speed", "40"]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    Terminal::with_size(&command, size)
}

/// Every file in the home and temporary folders.
fn files(scene: &Sandbox) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![scene.home(), scene.root().join("temporary")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

fn with_temporary_folder() -> Sandbox {
    let mut scene = scene();
    let folder = scene.root().join("temporary");
    std::fs::create_dir(&folder).expect("a folder");
    scene.set_env("TMPDIR", &folder.display().to_string());
    scene
}

#[test]
fn the_demo_plays_to_the_end_and_leaves_no_files() {
    let scene = with_temporary_folder();
    let before = files(&scene);
    let mut terminal = demo(&scene, Size::LARGE);
    terminal.wait_for_output("demo wants to run add_note").wait_for_output("demo asks");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("\x1b[?1049l") && shown.contains("swb add NAME"), "{shown}");
    assert!(shown.contains("Booked (not really)") && shown.contains("terrace"), "{shown}");
    assert_eq!(files(&scene), before);
}

#[test]
fn the_demo_ignores_configured_servers() {
    let scene = with_temporary_folder();
    scene.write_servers(USER, r#""gone": {"command": "no-such-program"}"#);
    scene.write_servers(".mcp.json", r#""theirs": {"command": "no-such-program"}"#);
    let mut terminal = demo(&scene, Size::STANDARD);
    terminal.wait_for_output("1/1 server");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("Servers of this project"), "{shown}");
}

#[test]
fn a_key_press_hands_the_demo_over_to_the_user() {
    let scene = with_temporary_folder();
    let mut terminal = demo(&scene, Size::LARGE);
    terminal
        .wait_for_screen("side by side")
        .send_keys("x")
        .wait_for_screen("The keys are yours now");
    terminal
        .wait_until_absent("working")
        .send_keys("\x15hello\r")
        .wait_for_screen("demo wants to run add_note");
    // After the key press, the demo no longer answers the permission request: it waits for the user.
    for _ in 0..4 {
        terminal.stable_screen();
    }
    terminal
        .send_keys("\x1b")
        .wait_for_screen("I wrote nothing down")
        .wait_until_absent("working")
        .send_keys("/quit\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
}

#[test]
fn escape_and_control_c_leave_at_once() {
    let scene = with_temporary_folder();
    for key in ["\x1b", "\x03"] {
        let mut terminal = demo(&scene, Size::STANDARD);
        terminal.wait_for_screen("1/1 server").send_keys(key);
        let (code, shown) = terminal.wait_for_exit();
        assert_eq!(code, 0, "{shown}");
    }
    assert_eq!(files(&scene).iter().filter(|it| it.ends_with("notes.json")).count(), 0);
}

#[test]
fn without_a_terminal_it_is_the_same_conversation_in_lines() {
    let scene = with_temporary_folder();
    let before = files(&scene);
    let mut command = scene.command(&scene.project(), &["demo"]);
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
    let text = ran.expect_success();
    // The output that `cargo xtask walk` expects: `...` stands for any lines, `[..]` for any text.
    let places = WALK_OUTPUT.lines().filter(|line| *line != "...");
    let places = places.flat_map(|line| line.split("[..]")).filter(|place| !place.is_empty());
    let mut at = 0;
    for place in places {
        let found = text[at..].find(place);
        at += found.unwrap_or_else(|| panic!("`{place}` is not there, or not in order:\n{text}"));
    }
    for place in ["calling demo: now", "| 1 | buy tea for the operators |"] {
        assert!(text.contains(place), "`{place}` is not there:\n{text}");
    }
    assert_eq!(ran.stderr, "", "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    assert_eq!(files(&scene), before);
}

#[test]
fn an_administrators_rules_apply_to_the_demo() {
    let scene = scene();
    scene.write("managed/managed-settings.json", r#"{"allowedMcpServers": []}"#);
    assert!(scene.swb(&["demo"]).expect_failure(4).contains("administrator"));
}
