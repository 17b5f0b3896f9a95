//! `--computer` and the computer server in commands.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use testkit::{Sandbox, Size, Terminal};

use crate::support::{USER, scene};

/// A virtual screen, which ends with the value or with the test.
struct VirtualScreen {
    display: String,
    server: Child,
}

impl VirtualScreen {
    fn new() -> VirtualScreen {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "Xvfb", "-displayfd", "1", "-screen", "0"]);
        command.args(["1280x800x24", "-nolisten", "tcp", "-noreset"]);
        let mut server =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("Xvfb");
        let mut number = String::new();
        let stdout = server.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut number).expect("a number");
        VirtualScreen { display: format!(":{}", number.trim()), server }
    }
}

impl Drop for VirtualScreen {
    fn drop(&mut self) {
        let _ended_already = self.server.kill();
        let _ended_already = self.server.wait();
    }
}

fn conversation(scene: &Sandbox, arguments: &[&str]) -> Terminal {
    let mut command = scene.command(&scene.project(), arguments);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    Terminal::with_size(&command, Size::STANDARD)
}

/// The entry of the computer server, which no file can contain.
const ENTRY: &str = r#"{"mcpServers": {"computer": {"type": "sdk", "name": "computer"}}}"#;

#[test]
fn the_user_grants_access_in_a_dialog_and_the_model_sees_the_screen() {
    let screen = VirtualScreen::new();
    let mut scene = scene();
    scene.set_env("DISPLAY", &screen.display).set_env("XDG_SESSION_TYPE", "x11");
    let mut terminal = conversation(&scene, &["--computer"]);
    terminal.wait_for_screen("1/1 server");
    terminal
        .send_keys("/call mcp__computer__screenshot\r")
        .wait_for_screen("access has not been granted yet; call request_access");
    terminal
        .send_keys("/call mcp__computer__request_access applications:='[\"desktop\"]' reason='to look around'\r")
        .wait_for_screen("The model asks to see and control these on your screen")
        .wait_for_screen("to look around");
    // Keys are ignored until the dialog has been visible for some time.
    for _ in 0..3 {
        terminal.stable_screen();
    }
    let dialog = terminal.stable_screen();
    assert!(dialog.contains("the desktop: its background, panels and menus"), "{dialog}");
    // To the answers, the first one, and it is confirmed.
    terminal.send_keys("\t1\r").wait_for_screen("granted: the desktop");
    terminal.send_keys("/call mcp__computer__screenshot\r").wait_for_screen("picture 1: 1280x800");
    let audit = scene.swb(&["audit"]);
    let recorded = audit.expect_success();
    let is_granted =
        |line: &str| line.contains(" computer ") && line.contains(" request_access  ok ");
    assert!(recorded.lines().any(is_granted), "{recorded}");
}

#[test]
fn without_a_user_the_option_is_refused_with_a_reason() {
    let scene = scene();
    for arguments in
        [&["--computer", "-p", "hi"][..], &["--computer-use"], &["--computer", "--json"]]
    {
        let ran = scene.swb(arguments);
        assert_eq!(ran.code, 2, "{}", ran.to_snapshot());
        assert!(
            ran.stderr.contains("--computer works only in an interactive session"),
            "{}",
            ran.to_snapshot()
        );
    }
    let ran = scene.swb(&["--computer", "list"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("conversation options cannot be combined with a command"));
}

#[test]
fn a_command_lists_the_tools_of_a_configured_server_but_calls_none() {
    let scene = scene();
    let ran = scene.swb(&["--mcp-config", ENTRY, "tools", "computer"]);
    assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
    assert!(ran.stdout.contains("request_access") && ran.stdout.contains("screenshot"));
    let ran = scene.swb(&[
        "--mcp-config",
        ENTRY,
        "call",
        "mcp__computer__screenshot",
        "--mode",
        "bypass",
    ]);
    assert_ne!(ran.code, 0);
    let all = ran.to_snapshot();
    assert!(
        all.contains("works only in an interactive session: this command has no user"),
        "{all}"
    );
}

#[test]
fn rules_hold_for_each_action_of_a_batch() {
    let scene = scene();
    scene.write(USER, r#"{"permissions": {"deny": ["mcp__computer__type"]}}"#);
    let call = |tool: &str, arguments: serde_json::Value| {
        let actions = format!(
            "actions:={}",
            serde_json::json!([{"tool": "wait", "arguments": {"seconds": 0.1}}, {"tool": tool, "arguments": arguments}])
        );
        let name = "mcp__computer__computer_batch";
        let ran = scene.swb(&["--mcp-config", ENTRY, "call", name, &actions, "--mode", "bypass"]);
        assert_ne!(ran.code, 0);
        ran.to_snapshot()
    };
    let denied = call("type", serde_json::json!({"text": "x"}));
    assert!(denied.contains("deny rule `mcp__computer__type`"), "{denied}");
    let reached = call("key", serde_json::json!({"keys": "a"}));
    assert!(reached.contains("works only in an interactive session"), "{reached}");
}

#[test]
fn a_server_of_a_user_cannot_take_the_names() {
    let scene = scene();
    for name in ["computer", "computer-use"] {
        let ran = scene.swb(&["add", name, "--", "true"]);
        assert_ne!(ran.code, 0, "{}", ran.to_snapshot());
        assert!(ran.stderr.contains("reserved for a built-in server"), "{}", ran.to_snapshot());
    }
}

#[test]
fn doctor_says_what_is_missing_and_which_package_has_it() {
    let mut scene = scene();
    scene.set_env("PATH", "/nowhere");
    let ran = scene.swb(&["doctor", "computer"]);
    assert_eq!(ran.code, 7, "{}", ran.to_snapshot());
    assert!(
        ran.stdout.starts_with("missing  X display: there is no X display: DISPLAY is not set"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("Xvfb (package xvfb)"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("limited  setsid: open_application cannot start anything"),
        "{}",
        ran.stdout
    );
    scene.set_env("XDG_SESSION_TYPE", "wayland").set_env("DISPLAY", ":0");
    let ran = scene.swb(&["doctor", "computer-use", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(found["computer"][0]["state"], "missing");
    let text = found["computer"][0]["text"].as_str().expect("a text");
    assert!(text.starts_with("this is a Wayland session"), "{text}");
}
