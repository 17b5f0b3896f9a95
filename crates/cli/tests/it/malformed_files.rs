//! Files that make no sense, or that somebody means us harm with.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::{USER, scene, states};

/// The good server that must survive whatever else is there.
const GOOD: &str = r#""good": {"command": "x"}"#;

#[track_caller]
fn check(scene: &testkit::Sandbox, said: &str) {
    let ran = scene.swb(&["list"]);
    assert!(ran.expect_success().contains("good"), "{}", ran.to_snapshot());
    assert!(ran.stderr.contains(said), "{}", ran.to_snapshot());
    assert!(states(scene, &[]).contains(&"good user ready".to_owned()));
}

#[test]
fn a_project_file_in_any_condition_costs_only_itself() {
    for (text, said) in [
        (&b"{\"mcpServers\": {"[..], "not valid JSON: unterminated object"),
        (b"{\"mcpServers\": []}", "expected an object of servers, found an array"),
        (b"not json", "not valid JSON: unexpected word"),
        (b"{\"a\": 1} {\"b\": 2}", "text cannot contain more than one JSON value"),
        (b"\xff\xfe{\x00}\x00", "is not UTF-8 text"),
        (b"{\"mcpServers\": {\"s\": {\"command\": \"\\ud800\"}}}", "not valid JSON"),
        (b"{'mcpServers': {}}", "single-quoted strings are not allowed"),
    ] {
        let scene = scene();
        scene.write_servers(USER, GOOD);
        fs::write(scene.path(".mcp.json"), text).expect("a file");
        check(&scene, said);
    }
}

#[test]
fn a_mark_and_foreign_line_endings_are_fine() {
    let scene = scene();
    scene.write(USER, "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"good\": {\"command\": \"x\"},\r\n    \"bad\": {\"command\": 5}\r\n  }\r\n}\r\n");
    let ran = scene.swb(&["list"]);
    assert!(ran.stderr.contains("settings.json:4:24\n   4 |     \"bad\": {\"command\": •}\n     |                        ^"), "{}", ran.to_snapshot());
}

#[test]
fn what_is_no_file_is_named_and_never_waited_for() {
    let scene = scene();
    scene.write_servers(USER, GOOD);
    let file = scene.path(".mcp.json");
    fs::create_dir(&file).expect("a folder");
    check(&scene, "is a folder, not a file\n  --> .mcp.json");
    fs::remove_dir(&file).expect("an empty folder");
    symlink(".mcp.json", &file).expect("a link");
    check(&scene, "is a symbolic link to itself");
    fs::remove_file(&file).expect("a link");
    symlink("/dev/zero", &file).expect("a link");
    check(&scene, "is not a regular file");
    fs::remove_file(&file).expect("a link");
    let made = std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo can be run");
    assert!(made.success());
    check(&scene, "is not a regular file");
}

#[test]
fn a_large_file_is_read_and_a_far_too_large_one_is_refused() {
    let scene = scene();
    let padding = "a long argument ".repeat(60);
    let server = |n: u32| format!("\"s{n}\": {{\"command\": \"run\", \"args\": [\"{padding}\"]}}");
    let many: Vec<String> = (0..10_000).map(server).collect();
    scene.write_servers(".mcp.json", &many.join(",\n"));
    assert!(scene.path(".mcp.json").metadata().expect("it is there").len() > 9_000_000);
    assert_eq!(scene.swb(&["list"]).expect_success().lines().count(), 10_001);
    scene.write_servers(USER, GOOD);
    fs::File::create(scene.path(".mcp.json"))
        .and_then(|file| file.set_len(20_000_000))
        .expect("a hole");
    check(&scene, "is larger than 16 MB");
}

#[test]
fn deep_nesting_neither_crashes_nor_hangs() {
    let scene = scene();
    scene.write_servers(USER, GOOD).write(".mcp.json", &"{\"a\":".repeat(100_000));
    check(&scene, "maximum nesting depth exceeded");
}

#[test]
fn a_linked_folder_that_leads_to_itself_does_not_make_the_way_up_endless() {
    let scene = scene();
    scene.write_servers(USER, GOOD).write_servers(".mcp.json", r#""p": {"command": "x"}"#);
    symlink(scene.project(), scene.path("loop")).expect("a link");
    let deep = scene.project().join("loop/loop/loop");
    let ran = scene.swb_in(&deep, &["list", "--all", "--json"]);
    let json: serde_json::Value = serde_json::from_str(ran.expect_success()).expect("it is JSON");
    assert_eq!(json["servers"].as_array().map(Vec::len), Some(2), "{}", ran.to_snapshot());
}

#[test]
fn an_unreadable_file_is_named() {
    let scene = scene();
    scene.write_servers(USER, GOOD).write_servers(".mcp.json", r#""p": {"command": "x"}"#);
    let file = scene.path(".mcp.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).expect("rights");
    let readable = fs::read(&file).is_ok(); // root reads everything
    let ran = scene.swb(&["list"]);
    assert_eq!(
        ran.stderr.contains("may not be read by this user"),
        !readable,
        "{}",
        ran.to_snapshot()
    );
    assert!(ran.expect_success().contains("good"));
}

#[test]
fn a_terminal_is_told_nothing_by_names_and_paths() {
    let scene = scene();
    let folder = scene.project().join("evil\u{1b}[2J\nfolder");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join(".mcp.json"), "{\"mcpServers\": {\"a\\u001b]0;title\\u0007\": {\"command\": \"x\\u202e\", \"args\": [\"\\u009b2J\"]}, \"ok\": {\"command\": \"x\\u001b[31m\", \"description\": \"\\u001b[2J\", \"\\u001bkey\": 1}}}").expect("a file");
    for arguments in [
        &["list", "--all"][..],
        &["list", "--json"],
        &["get", "ok"],
        &["get", "ok", "--json"],
        &["config", "explain", "ok"],
        &["config", "check"],
        &["approve", "ok"],
        &["get", "a\u{1b}]0;title\u{7}"],
        &["get", "none\u{1b}[2J"],
    ] {
        let ran = scene.swb_in(&folder, arguments);
        let bad = ran
            .to_snapshot()
            .chars()
            .find(|c| *c != '\n' && switchboard_config::display::is_unprintable(*c));
        assert_eq!(bad, None, "{arguments:?}\n{:?}", ran.to_snapshot());
    }
}

#[test]
fn one_entry_may_lack_nothing_that_another_has() {
    let scene = scene();
    scene.write_servers(USER, &format!("{GOOD}, \"\": {{\"command\": \"x\"}}, \"null\": null, \"nested\": {{\"mcpServers\": {{}}}}"));
    check(&scene, "a server name must not be empty");
}

#[test]
fn a_working_folder_that_is_gone_is_an_error_not_a_crash() {
    let scene = scene();
    let gone = scene.project().join("gone");
    fs::create_dir(&gone).expect("a folder");
    let program = crate::support::program();
    let output = std::process::Command::new("sh")
        .args(["-c", "rmdir ../gone; exec \"$0\" list"])
        .arg(program)
        .current_dir(&gone)
        .output()
        .expect("a shell can be run");
    let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
    assert!(
        ran.expect_failure(1).contains("the working folder cannot be read"),
        "{}",
        ran.to_snapshot()
    );
    let script = "rmdir ../gone; exec \"$0\" --version";
    fs::create_dir(&gone).expect("a folder");
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(crate::support::program())
        .current_dir(&gone)
        .output()
        .expect("a shell can be run");
    assert_eq!(output.status.code(), Some(0), "help and version need no folder");
}

#[test]
fn a_small_file_cannot_flood_the_screen() {
    let scene = scene();
    let bad: Vec<String> = (0..5000).map(|n| format!("\"s{n}\":{{\"command\":5}}")).collect();
    scene.write(".mcp.json", &format!("{{\"mcpServers\":{{{}}}}}", bad.join(",")));
    let ran = scene.swb(&["list"]);
    assert!(ran.stderr.len() < 50_000, "{} bytes", ran.stderr.len());
    assert!(ran.stderr.contains("… and 4950 more: swb config check --json"), "{}", ran.stderr);
}

#[test]
fn joined_characters_on_a_narrow_terminal_do_not_crash() {
    let scene = scene();
    scene.write_servers(".mcp.json", "\"s\": {\"command\": \"x\", \"args\": [\"❤️❤️❤️❤️ yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\"]}");
    let program = crate::support::program().display().to_string();
    let output = scene
        .command(&scene.project(), &[])
        .get_envs()
        .fold(
            std::process::Command::new("script").env_clear(),
            |command, (name, value)| match value {
                Some(value) => command.env(name, value),
                None => command,
            },
        )
        .args(["-qec", &format!("stty cols 80; {program} list"), "/dev/null"])
        .current_dir(scene.project())
        .output()
        .expect("script can be run");
    let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
    assert!(ran.expect_success().contains("pending approval"), "{}", ran.to_snapshot());
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let scene = scene();
    let full = fs::File::options().write(true).open("/dev/full").expect("a device");
    let output = scene.command(&scene.project(), &["list"]).stdout(full).output().expect("it runs");
    let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
    assert!(
        ran.expect_failure(1).contains("the output could not be written"),
        "{}",
        ran.to_snapshot()
    );
}

#[test]
fn two_folders_whose_names_are_no_text_are_two_projects() {
    use std::os::unix::ffi::OsStrExt;
    let scene = scene();
    let folder = |byte: u8| scene.home().join(std::ffi::OsStr::from_bytes(&[b'p', byte]));
    for byte in [0xfe, 0xff] {
        fs::create_dir(folder(byte)).expect("a folder");
        fs::write(folder(byte).join(".mcp.json"), r#"{"mcpServers": {"s": {"command": "x"}}}"#)
            .expect("a file");
    }
    scene.swb_in(&folder(0xfe), &["approve", "s"]).expect_success();
    scene.swb_in(&folder(0xfe), &["add", "mine", "--", "x"]).expect_success();
    let other = scene.swb_in(&folder(0xff), &["list"]);
    assert!(
        other.expect_success().contains("pending approval") && !other.stdout.contains("mine"),
        "{}",
        other.to_snapshot()
    );
}
