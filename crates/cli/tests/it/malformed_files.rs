//! Malformed and hostile configuration files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use testkit::model_service::{API_KEY, Reply};
use testkit::{ModelService, Script, ScriptedProgram, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, scene, states};

/// A valid server that must stay usable next to any malformed definition.
const GOOD: &str = r#""good": {"command": "x"}"#;

#[track_caller]
fn check(scene: &testkit::Sandbox, said: &str) {
    let ran = scene.swb(&["list"]);
    assert!(ran.expect_success().contains("good"), "{}", ran.to_snapshot());
    assert!(ran.stderr.contains(said), "{}", ran.to_snapshot());
    assert!(states(scene, &[]).contains(&"good user ready".to_owned()));
}

#[test]
fn an_invalid_project_file_affects_only_itself() {
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

/// The one line that every command prints about a project file with an open brace.
const BROKEN_LINE: &str = "error: .mcp.json:2: not valid JSON: unterminated object, so nothing in it is used; \
    correct the file; `swb config check` shows the line\n";

#[test]
fn every_command_that_needs_the_servers_names_a_file_that_cannot_be_used() {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    let allow = r#"{"permissions": {"allow": ["mcp__s"]}"#;
    scene.write(USER, &format!(r#"{allow}, "mcpServers": {{"s": {entry}}}}}"#));
    scene.write(".mcp.json", "\n{\"mcpServers\": {");
    for (words, code) in [
        (&["status"][..], 3),
        (&["status", "--json"], 3),
        (&["tools"], 3),
        (&["search", "echo"], 3),
        (&["resources"], 3),
        (&["prompts"], 3),
        (&["call", "mcp__team__x"], 3),
        (&["get", "team"], 3),
        (&["describe", "mcp__team__x"], 3),
        (&["serve", "--pool"], 0),
        (&["tools", "s"], 0),
        (&["status", "s"], 0),
        (&["call", "mcp__s__echo", "text=x"], 0),
    ] {
        let ran = scene.swb(words);
        assert_eq!(ran.code, code, "{words:?}: {}", ran.to_snapshot());
        assert_eq!(ran.stderr.matches(BROKEN_LINE).count(), 1, "{words:?}: {}", ran.to_snapshot());
    }
    // Commands that show every problem in full do not repeat it.
    assert!(!scene.swb(&["list"]).stderr.contains(BROKEN_LINE));
}

#[test]
fn a_prompt_runs_without_the_file_and_fails_at_the_end() {
    let service = ModelService::start([Reply::text("hello")]).expect("it starts");
    let mut scene = scene();
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    scene.write_servers(USER, GOOD).write(".mcp.json", "\n{\"mcpServers\": {");
    let ran = scene.swb(&["-p", "hi"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, "hello\n"), "{}", ran.to_snapshot());
    assert!(ran.stderr.starts_with(BROKEN_LINE), "{}", ran.to_snapshot());
}

#[test]
fn the_screen_and_plain_conversations_name_the_file_too() {
    let scene = scene();
    scene.write(".mcp.json", "\n{\"mcpServers\": {");
    screen(&scene, Size::LARGE).wait_for_screen(".mcp.json:2: not valid JSON");
    let command = scene.command(&scene.project(), &["--plain"]);
    Terminal::start(&command).wait_for_output(".mcp.json:2: not valid JSON");
}

#[test]
fn servers_that_are_not_approved_are_named_by_every_command_that_leaves_them_out() {
    let service = ModelService::start([Reply::text("hello")]).expect("it starts");
    let mut scene = scene();
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    scene.write_servers(".mcp.json", r#""team": {"command": "x"}, "more": {"command": "x"}"#);
    let note = "note: 2 project servers are not approved, so left out: more, team; \
                `swb get more` shows what would run, `swb approve --all` approves\n";
    for words in [
        &["tools"][..],
        &["search", "echo"],
        &["resources"],
        &["prompts"],
        &["call", "ListMcpResources"],
        &["-p", "hi"],
        &["serve", "--pool"],
    ] {
        let ran = scene.swb(words);
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.to_snapshot());
        assert_eq!(ran.stderr.matches(note).count(), 1, "{words:?}: {}", ran.to_snapshot());
    }
    let one = scene.swb(&["tools", "team"]);
    assert!(one.stderr.contains("left out: team; "), "{}", one.to_snapshot());
    let other = scene.swb(&["tools", "s"]);
    assert!(!other.stderr.contains("approved"), "{}", other.to_snapshot());
}

#[test]
fn a_byte_order_mark_and_crlf_are_accepted() {
    let scene = scene();
    scene.write(USER, "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"good\": {\"command\": \"x\"},\r\n    \"bad\": {\"command\": 5}\r\n  }\r\n}\r\n");
    let ran = scene.swb(&["list"]);
    assert!(ran.stderr.contains("settings.json:4:24\n   4 |     \"bad\": {\"command\": 5}\n     |                        ^"), "{}", ran.to_snapshot());
}

#[test]
fn paths_that_are_not_files_are_reported_and_not_read() {
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
fn a_symlink_loop_does_not_make_the_search_of_parents_endless() {
    let scene = scene();
    scene.write_servers(USER, GOOD).write_servers(".mcp.json", r#""p": {"command": "x"}"#);
    symlink(scene.project(), scene.path("loop")).expect("a link");
    let deep = scene.project().join("loop/loop/loop");
    let ran = scene.swb_in(&deep, &["list", "--all", "--json"]);
    let json: serde_json::Value = serde_json::from_str(ran.expect_success()).expect("it is JSON");
    assert_eq!(json["servers"].as_array().map(Vec::len), Some(2), "{}", ran.to_snapshot());
}

#[test]
fn an_unreadable_file_is_reported() {
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
fn names_and_paths_cannot_control_the_terminal() {
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
fn one_invalid_entry_does_not_affect_another() {
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
fn two_folders_with_invalid_utf8_names_are_two_projects() {
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
