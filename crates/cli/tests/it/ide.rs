//! IDEs: `--ide`, the variables that select one, `/ide`, `swb doctor ide`, and edits, selections and mentions on the screen.

use std::path::PathBuf;

use serde_json::{Value as Json, json};
use testkit::model_service::{API_KEY, Reply, ReplyPart};
use testkit::{ModelService, Sandbox, Size, Terminal, TestIde};

use crate::support::{USER, scene};

/// A server with the tools that edit files.
const WORKSPACE: &str = r#"{"mcpServers": {"workspace": {"type": "sdk", "name": "workspace"}}}"#;

fn service(replies: impl IntoIterator<Item = Reply>) -> ModelService {
    ModelService::start(replies).expect("it starts")
}

/// A scene with this model.
pub fn with_model(service: &ModelService) -> Sandbox {
    let mut scene = scene();
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    scene
}

/// The folder in which IDEs write their lock files.
pub fn lock_folder(scene: &Sandbox) -> PathBuf {
    scene.home().join(".claude/ide")
}

/// The screen with the workspace server, once it is ready.
pub fn screen(scene: &Sandbox, arguments: &[&str]) -> Terminal {
    let arguments = [&["--mcp-config", WORKSPACE], arguments].concat();
    let mut command = scene.command(&scene.project(), &arguments);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::with_size(&command, Size::STANDARD);
    terminal.wait_for_screen("1/1 server").wait_for_screen("claude");
    terminal
}

/// The text of the first user message of a request.
pub fn first_message(body: &Json) -> String {
    let blocks = body["messages"][0]["content"].as_array().expect("blocks");
    let texts = blocks.iter().filter_map(|it| it["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_selection_is_shown_and_a_change_is_accepted_in_the_editor_beside_the_dialog() {
    let scene_service = service([
        Reply::message([ReplyPart::tool_call(
            "1",
            "mcp__workspace__Write",
            &json!({"file_path": "new.py", "content": "x = 1\n"}),
        )]),
        Reply::text("Written."),
    ]);
    let scene = with_model(&scene_service);
    let ide = TestIde::ws("secret");
    ide.write_lock(&lock_folder(&scene), &[&scene.project()]);
    let selected = scene.project().join("b.py");
    std::fs::write(&selected, "one\ntwo\nthree\n").expect("a file");
    let mut terminal = screen(&scene, &["--ide"]);
    ide.wait_for_method("tools/list", 1);
    ide.select(&selected.display().to_string(), "one\ntwo\nthree", (0, 0), (2, 5));
    terminal.wait_for_screen("⧉ 3 lines from b.py");
    terminal.send_keys("write it\r").wait_for_screen("Write");
    let diff = ide.wait_for_diff();
    assert_eq!(diff.new_contents, "x = 1\n");
    terminal.wait_for_screen("Yes");
    ide.accept_diff_as("x = 2\n");
    terminal.wait_for_screen("Written.").wait_until_absent("working");
    let written = std::fs::read_to_string(scene.project().join("new.py")).expect("a file");
    assert_eq!(written, "x = 2\n");
    let sent = first_message(&scene_service.request_body(0));
    assert!(sent.contains("selected the lines 1 to 3"), "{sent}");
    ide.wait_for_method("close_tab", 1);
}

#[test]
fn a_mention_is_typed_into_the_input_and_the_command_lists_and_disconnects() {
    let scene_service = service([Reply::text("Three lines.")]);
    let scene = with_model(&scene_service);
    let ide = TestIde::sse();
    ide.write_lock(&lock_folder(&scene), &[&scene.project()]);
    std::fs::write(scene.project().join("b.py"), "one\n").expect("a file");
    let mut terminal = screen(&scene, &["--ide"]);
    ide.wait_for_method("tools/list", 1);
    terminal.send_keys("what is");
    terminal.wait_for_screen("what is");
    ide.mention("b.py", Some((0, 2)));
    terminal.wait_for_screen("> what is @b.py#L1-3").send_keys("\r");
    terminal.wait_for_screen("Three lines.");
    let sent = first_message(&scene_service.request_body(0));
    assert!(sent.contains("refers to the lines 1 to 3 of"), "{sent}");
    terminal.send_keys("/ide\r").wait_for_screen("Test Editor (port");
    terminal.wait_for_screen("The IDE is connected.");
    terminal.send_keys("/ide off\r").wait_for_screen("The IDE is disconnected.");
    terminal.send_keys("/ide 1\r").wait_for_screen("is connected.");
    ide.wait_for_method("ide_connected", 2);
}

#[test]
fn without_the_flag_an_ide_is_connected_only_as_variables_and_settings_say() {
    let connects = |change: &dyn Fn(&mut Sandbox, &TestIde)| {
        let model = service([Reply::text("Hello.")]);
        let mut scene = with_model(&model);
        let (ide, other) = (TestIde::ws("secret"), TestIde::ws("other"));
        ide.write_lock(&lock_folder(&scene), &[&scene.project()]);
        other.write_lock(&lock_folder(&scene), &[&scene.root()]);
        change(&mut scene, &ide);
        let ran = scene.swb(&["-p", "hello"]);
        assert_eq!(ran.expect_success(), "Hello.\n");
        assert!(!other.methods().iter().any(|it| it == "ide_connected"));
        ide.methods().iter().any(|it| it == "ide_connected")
    };
    assert!(!connects(&|_, _| {}));
    assert!(connects(&|scene, ide| {
        scene.set_env("CLAUDE_CODE_SSE_PORT", &ide.port().to_string());
    }));
    assert!(connects(&|scene, ide| {
        scene.set_env("SWB_IDE_PORT", &ide.port().to_string());
    }));
    assert!(!connects(&|scene, ide| {
        scene.set_env("CLAUDE_CODE_SSE_PORT", &ide.port().to_string());
        scene.set_env("CLAUDE_CODE_AUTO_CONNECT_IDE", "false");
    }));
}

#[test]
fn the_setting_connects_the_only_ide_and_a_project_s_file_cannot() {
    let connects = |file: &str, text: &str| {
        let model = service([Reply::text("Hello.")]);
        let scene = with_model(&model);
        let ide = TestIde::ws("secret");
        ide.write_lock(&lock_folder(&scene), &[&scene.project()]);
        scene.write(file, text);
        scene.swb(&["-p", "hello"]);
        ide.methods().iter().any(|it| it == "ide_connected")
    };
    let setting = r#"{"autoConnectIde": true}"#;
    assert!(connects(USER, setting));
    assert!(!connects(".mcp.json", setting));
}

/// anthropics/claude-code#1411 and #23013: without the compared folders, a user cannot see why none matches.
#[test]
fn a_flag_that_finds_no_single_ide_says_why_and_goes_on() {
    let model = service([Reply::text("Hello."), Reply::text("Hello."), Reply::text("Hello.")]);
    let scene = with_model(&model);
    let ran = scene.swb(&["-p", "hello", "--ide"]);
    assert_eq!(ran.expect_success(), "Hello.\n");
    assert!(ran.stderr.contains("no IDE runs; lock files were looked for in"), "{}", ran.stderr);
    let ide = TestIde::ws("secret");
    ide.write_lock(&lock_folder(&scene), &[&scene.root().join("elsewhere")]);
    let ran = scene.swb(&["-p", "hello", "--ide"]);
    assert!(ran.stderr.contains("no IDE has this folder open"), "{}", ran.stderr);
    assert!(ran.stderr.contains("elsewhere"), "the compared folders are named: {}", ran.stderr);
    let (one, two) = (TestIde::ws("1"), TestIde::ws("2"));
    for ide in [&one, &two] {
        ide.write_lock(&lock_folder(&scene), &[&scene.project()]);
    }
    let ran = scene.swb(&["-p", "hello", "--ide"]);
    assert!(ran.stderr.contains("several IDEs have this folder open"), "{}", ran.stderr);
}

#[test]
fn a_stale_token_is_named_as_the_cause_and_no_login_is_suggested() {
    let model = service([Reply::text("Hello.")]);
    let scene = with_model(&model);
    let ide = TestIde::ws("old");
    ide.write_lock(&lock_folder(&scene), &[&scene.project()]);
    ide.change_token("new");
    let ran = scene.swb(&["-p", "hello", "--ide"]);
    assert_eq!(ran.expect_success(), "Hello.\n");
    assert!(ran.stderr.contains("the IDE refused the token"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("login"), "{}", ran.stderr);
}

#[test]
fn doctor_gives_a_verdict_on_every_lock_file_and_deletes_none() {
    let scene = scene();
    let folder = lock_folder(&scene);
    let (ide, other) = (TestIde::ws("secret"), TestIde::ws("secret"));
    ide.write_lock(&folder, &[&scene.project()]);
    let own = scene.home().join(".config/switchboard/ide");
    other.write_lock(&own, &[&scene.root().join("elsewhere")]);
    std::fs::write(folder.join("1.lock"), "not JSON").expect("a file");
    let dead = json!({"pid": 4_000_000, "workspaceFolders": [], "transport": "ws"});
    std::fs::write(folder.join("2.lock"), dead.to_string()).expect("a file");
    let windows =
        json!({"pid": 4_000_000, "runningInWindows": true, "workspaceFolders": [r"C:\a"]});
    std::fs::write(folder.join("3.lock"), windows.to_string()).expect("a file");
    let ran = scene.swb(&["doctor", "ide", "--json"]);
    let report: Json = serde_json::from_str(ran.expect_success()).expect("JSON");
    let locks = report["locks"].as_array().expect("a list");
    let verdict = |name: &str| {
        let found = locks.iter().find(|it| {
            it["file"].as_str().is_some_and(|file| file.ends_with(&format!("/{name}.lock")))
        });
        found.expect("it is listed")["verdict"].as_str().expect("a text").to_owned()
    };
    assert_eq!(verdict(&ide.port().to_string()), "valid");
    assert_eq!(verdict(&other.port().to_string()), "other-workspace");
    assert_eq!(verdict("1"), "invalid");
    assert_eq!(verdict("2"), "dead");
    assert_eq!(verdict("3"), "not-listening");
    assert!(!ran.stdout.contains("secret"), "{}", ran.stdout);
    let text = scene.swb(&["doctor", "ide"]);
    for part in
        ["can be connected", "skipped: it is not a JSON object", "skipped: the IDE has ended"]
    {
        assert!(text.stdout.contains(part), "{}", text.stdout);
    }
    assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 4);
}

#[test]
fn an_ide_is_no_server_of_the_lists() {
    let model = service([Reply::text("Hello.")]);
    let scene = with_model(&model);
    let ide = TestIde::ws("secret");
    ide.write_lock(&lock_folder(&scene), &[&scene.project()]);
    let ran = scene.swb(&["-p", "hello", "--ide", "--output-format", "stream-json"]);
    let first = ran.expect_success().lines().next().expect("an event").to_owned();
    let init: Json = serde_json::from_str(&first).expect("JSON");
    let servers = init["servers"].as_array().expect("a list");
    assert!(servers.iter().all(|it| it["name"] != "ide"), "{init}");
    let tools = init["tools"].as_array().expect("a list").iter().filter_map(|it| it.as_str());
    let of_ide: Vec<&str> = tools.filter(|it| it.starts_with("mcp__ide__")).collect();
    assert_eq!(of_ide, ["mcp__ide__executeCode", "mcp__ide__getDiagnostics"]);
}
