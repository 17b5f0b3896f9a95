//! Sessions of programs, frame by frame, without an SDK: what the SDKs hide or never send.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::model_service::{API_KEY, Reply, ReplyPart};
use testkit::processes::wait_until;
use testkit::{ModelService, Sandbox, TestIde};

use crate::support::{USER, local_settings, scene};

/// How long a frame may take.
const FRAME_TIMEOUT: Duration = Duration::from_secs(60);
/// The options of every session.
const OPTIONS: [&str; 5] =
    ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];

/// A running session.
pub struct Frames {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<Json>,
    request_count: u32,
    /// The tools of the servers that the program hosts, as definitions.
    pub hosted_tools: Json,
    /// Calls of this tool are not answered.
    pub silent_tool: Option<&'static str>,
    /// The messages for hosted servers so far: the server, and the message.
    pub served: Vec<(String, Json)>,
}

impl Frames {
    pub fn start(scene: &Sandbox, options: &[&str]) -> Frames {
        let arguments = [&OPTIONS, options].concat();
        let mut command = scene.command(&scene.project(), &arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, frames) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let frame = serde_json::from_str(&line).expect("every line is JSON");
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Frames {
            child,
            stdin,
            frames,
            request_count: 0,
            hosted_tools: json!([]),
            silent_tool: None,
            served: Vec::new(),
        }
    }

    pub fn send(&mut self, frame: &Json) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        writeln!(stdin, "{frame}").expect("the session reads");
    }

    pub fn say(&mut self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    /// The next frame that meets the condition. Messages for hosted servers are answered on the way.
    #[track_caller]
    pub fn until(&mut self, condition: impl Fn(&Json) -> bool) -> Json {
        loop {
            let frame = self.frames.recv_timeout(FRAME_TIMEOUT).expect("a frame");
            if frame["request"]["subtype"] == "mcp_message" {
                self.serve(&frame);
            }
            if condition(&frame) {
                return frame;
            }
        }
    }

    /// Answers for a hosted server: a call of any of its tools returns `called`.
    fn serve(&mut self, frame: &Json) {
        let message = &frame["request"]["message"];
        let server = frame["request"]["server_name"].as_str().unwrap_or_default();
        self.served.push((server.to_owned(), message.clone()));
        if self.silent_tool.is_some_and(|it| message["params"]["name"] == it) {
            return;
        }
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hosted", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": self.hosted_tools}),
            Some("tools/call") => json!({"content": [{"type": "text", "text": "called"}]}),
            Some(_) | None => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        self.respond(frame, &json!({"mcp_response": answer}));
    }

    pub fn respond(&mut self, frame: &Json, response: &Json) {
        let response = json!({
            "subtype": "success", "request_id": frame["request_id"], "response": response,
        });
        self.send(&json!({"type": "control_response", "response": response}));
    }

    /// Sends a request and returns the response, or the error.
    #[track_caller]
    pub fn request(&mut self, request: &Json) -> Result<Json, String> {
        self.request_count += 1;
        let id = format!("test-{}", self.request_count);
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        let frame = self.until(|it| it["response"]["request_id"] == id);
        match frame["response"]["subtype"].as_str() {
            Some("success") => Ok(frame["response"]["response"].clone()),
            Some(_) | None => Err(frame["response"]["error"].as_str().unwrap_or("").to_owned()),
        }
    }

    #[track_caller]
    pub fn initialize(&mut self, mut request: Json) -> Json {
        request["subtype"] = "initialize".into();
        self.request(&request).expect("it is initialized")
    }

    /// `name status error` of every server.
    #[track_caller]
    pub fn servers(&mut self) -> Vec<String> {
        let status = self.request(&json!({"subtype": "mcp_status"})).expect("a status");
        let line = |it: &Json| {
            let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("name"), text("status"), text("error")).trim().to_owned()
        };
        status["mcpServers"].as_array().expect("a list").iter().map(line).collect()
    }

    /// Waits until a server has a state.
    #[track_caller]
    pub fn wait_for_server(&mut self, line: &str) {
        for _attempt in 0..200 {
            if self.servers().iter().any(|it| it == line) {
                return;
            }
            // The session connects to its servers beside its requests.
            thread::sleep(Duration::from_millis(50)); // waits for another process
        }
        panic!("`{line}` is not in {:?}", self.servers());
    }

    /// Closes the input and returns what was written to standard error.
    pub fn finish(mut self) -> String {
        drop(self.stdin.take());
        let output = self.child.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// A scene with a model that gives these replies.
pub fn with_model(replies: impl IntoIterator<Item = Reply>) -> (Sandbox, ModelService) {
    let service = ModelService::start(replies).expect("it starts");
    let mut scene = scene();
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    (scene, service)
}

/// A reply with one call.
pub fn call(id: &str, tool: &str, arguments: &Json) -> Reply {
    Reply::message([ReplyPart::tool_call(id, tool, arguments)])
}

const HOSTED: &str = r#"{"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}}"#;

#[test]
fn servers_that_the_program_hosts_stay_beside_a_managed_file_however_they_are_named() {
    let (scene, _service) = with_model([]);
    scene.write("managed/managed-mcp.json", r#"{"mcpServers": {}}"#);
    let mut by_option = Frames::start(&scene, &["--mcp-config", HOSTED]);
    by_option.initialize(json!({}));
    by_option.wait_for_server("calc connected");
    let mut by_request = Frames::start(&scene, &[]);
    by_request.initialize(json!({"sdkMcpServers": ["calc"]}));
    by_request.wait_for_server("calc connected");
    let added = json!({"subtype": "mcp_set_servers", "servers": {"x": {"command": "true"}}});
    let errors = &by_request.request(&added).expect("an answer")["errors"];
    assert!(errors["x"].to_string().contains("has exclusive control over MCP servers"), "{errors}");
}

#[test]
fn servers_that_are_not_used_are_listed_with_the_reason_and_cannot_be_enabled() {
    let (scene, _service) = with_model([]);
    scene
        .write_servers(USER, r#""off": {"command": "true", "disabled": true}"#)
        .write(".mcp.json", r#"{"mcpServers": {"new": {"command": "true"}}}"#);
    let mut session = Frames::start(&scene, &[]);
    session.initialize(json!({"sdkMcpServers": ["my tools"]}));
    let servers = session.servers();
    assert!(servers.iter().any(|it| it.starts_with("off disabled")), "{servers:?}");
    assert!(servers.iter().any(|it| it.starts_with("new pending pending approval")), "{servers:?}");
    assert!(servers.iter().any(|it| it.starts_with("my tools failed")), "{servers:?}");
    for name in ["off", "new"] {
        let toggle = json!({"subtype": "mcp_toggle", "serverName": name, "enabled": true});
        let error = session.request(&toggle).expect_err("it is not enabled here");
        assert!(error.contains("cannot be enabled here"), "{error}");
    }
    let error = session.request(&json!({"subtype": "mcp_set_servers", "servers": ["x"]}));
    assert_eq!(error, Err("`servers` must be an object of entries".to_owned()));
    let stderr = session.finish();
    assert!(stderr.contains("the server `my tools` of the program cannot be used"), "{stderr}");
}

#[test]
fn rules_are_replaced_where_they_are_stored() {
    let write = |id: &str| call(id, "Write", &json!({"file_path": "a.txt", "content": "x"}));
    let (scene, _service) = with_model([write("1"), Reply::text("ok")]);
    let options = ["--permission-prompt-tool", "stdio", "--tools", "default"];
    let mut session = Frames::start(&scene, &options);
    session.initialize(json!({}));
    session.say("write");
    let asked = session.until(|it| it["request"]["subtype"] == "can_use_tool");
    let update = |kind: &str, tool: &str| {
        json!({"type": kind, "behavior": "allow", "destination": "localSettings",
            "rules": [{"toolName": tool, "ruleContent": null}]})
    };
    let updates = [update("addRules", "Bash"), update("replaceRules", "Edit")];
    let answer = json!({
        "behavior": "allow", "updatedInput": asked["request"]["input"], "updatedPermissions": updates,
    });
    session.respond(&asked, &answer);
    session.until(|it| it["type"] == "result");
    let rules = session.request(&json!({"subtype": "list_permission_rules"})).expect("rules");
    let rules = rules["state"]["rules"].to_string();
    assert!(rules.contains("Edit") && !rules.contains("Bash"), "{rules}");
    session.finish();
    let stored = std::fs::read_to_string(local_settings(&scene)).expect("the file");
    let stored: Json = serde_json::from_str(&stored).expect("JSON");
    let allowed = stored["permissions"]["allow"].to_string();
    assert!(!allowed.contains("Bash") && allowed != "[]", "{allowed}");
}

#[test]
fn an_ide_shows_edits_beside_the_programs_callback() {
    let write = call("1", "Write", &json!({"file_path": "new.py", "content": "x = 1\n"}));
    let (scene, _service) = with_model([write, Reply::text("Written.")]);
    let ide = TestIde::ws("secret");
    ide.write_lock(&scene.home().join(".claude/ide"), &[&scene.project()]);
    let options = ["--ide", "--permission-prompt-tool", "stdio", "--tools", "default"];
    let mut session = Frames::start(&scene, &options);
    session.initialize(json!({}));
    ide.wait_for_method("tools/list", 1);
    session.say("write it");
    session.until(|it| it["request"]["subtype"] == "can_use_tool");
    assert_eq!(ide.wait_for_diff().new_contents, "x = 1\n");
    ide.accept_diff_as("x = 2\n");
    session.until(|it| it["type"] == "result");
    assert_eq!(scene.read("new.py"), "x = 2\n");
    session.finish();
}

#[test]
fn an_ide_of_the_surroundings_is_connected_only_where_it_is_asked_for() {
    let connects = |options: &[&str], variable: &str| {
        let (mut scene, _service) = with_model([Reply::text("Hello.")]);
        let ide = TestIde::ws("secret");
        ide.write_lock(&scene.home().join(".claude/ide"), &[&scene.project()]);
        scene.set_env(variable, &ide.port().to_string());
        let mut session = Frames::start(&scene, options);
        session.initialize(json!({}));
        if variable == "SWB_IDE_PORT" || options.contains(&"--ide") {
            ide.wait_for_method("ide_connected", 1);
        }
        session.say("hello");
        session.until(|it| it["type"] == "result");
        session.finish();
        ide.client_count() > 0 || ide.methods().iter().any(|it| it == "ide_connected")
    };
    assert!(!connects(&[], "CLAUDE_CODE_SSE_PORT"));
    assert!(connects(&["--ide"], "CLAUDE_CODE_SSE_PORT"));
    assert!(connects(&[], "SWB_IDE_PORT"));
}

#[test]
fn an_edit_in_a_folder_that_an_answer_adds_is_shown_in_the_ide() {
    let (scene, service) = with_model([]);
    let outside = scene.root().join("outside");
    std::fs::create_dir_all(&outside).expect("a folder");
    let write =
        |id: &str, path: &str| call(id, "Write", &json!({"file_path": path, "content": "x = 1\n"}));
    let added = outside.join("b.py").display().to_string();
    service.add_reply(write("1", "a.py"));
    service.add_reply(write("2", &added));
    service.add_reply(Reply::text("Written."));
    let ide = TestIde::ws("secret");
    ide.write_lock(&scene.home().join(".claude/ide"), &[&scene.project()]);
    let options = ["--ide", "--permission-prompt-tool", "stdio", "--tools", "default"];
    let mut session = Frames::start(&scene, &options);
    session.initialize(json!({}));
    ide.wait_for_method("tools/list", 1);
    session.say("write them");
    let asked = session.until(|it| it["request"]["subtype"] == "can_use_tool");
    let folders = json!({
        "type": "addDirectories", "directories": [outside], "destination": "session",
    });
    session.respond(&asked, &json!({"behavior": "allow", "updatedPermissions": [folders]}));
    session.until(|it| it["request"]["input"]["file_path"] == added.as_str());
    // The diff of the first call may still be open.
    wait_until(FRAME_TIMEOUT, "the diff of the second call", || {
        let diffs = ide.diffs();
        (diffs.len() == 1 && diffs[0].path.ends_with("outside/b.py")).then_some(())
    });
    ide.accept_diff();
    session.until(|it| it["type"] == "result");
    assert_eq!(std::fs::read_to_string(&added).expect("it was written"), "x = 1\n");
    session.finish();
}

#[test]
fn overlapping_changes_of_servers_are_applied_in_their_order() {
    let (scene, _service) = with_model([]);
    let mut session = Frames::start(&scene, &[]);
    session.initialize(json!({}));
    let off = json!({"command": "no-such-program-here"});
    for round in 0..10 {
        let (first, last) = (format!("first{round}"), format!("last{round}"));
        let requests = [
            json!({"subtype": "mcp_set_servers", "servers": {(first.as_str()): off}}),
            json!({"subtype": "reload_plugins"}),
            json!({"subtype": "mcp_set_servers", "servers": {(last.as_str()): off}}),
            json!({"subtype": "reload_plugins"}),
        ];
        let ids: Vec<String> = (0..requests.len()).map(|it| format!("{round}-{it}")).collect();
        for (id, request) in ids.iter().zip(&requests) {
            session.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        }
        let mut open = ids.len();
        while open > 0 {
            let answer = session.until(|it| it["type"] == "control_response");
            assert_eq!(answer["response"]["subtype"], "success", "{answer}");
            open -= 1;
        }
        let servers = session.servers();
        let named = |name: &str| servers.iter().any(|it| it.starts_with(name));
        assert!(named(&last) && !named(&first), "{round}: {servers:?}");
    }
    session.finish();
}

#[test]
fn a_rule_that_denies_reading_a_folder_applies_to_links_into_it() {
    let read = call("1", "Read", &json!({"file_path": "pub/link/key.txt"}));
    let (scene, service) = with_model([read, Reply::text("ok")]);
    scene.write("secret/key.txt", "canary").write("pub/a.txt", "public");
    std::os::unix::fs::symlink(scene.path("secret"), scene.path("pub/link")).expect("a link");
    let options = ["--tools", "Read", "--disallowedTools", "Read(secret/**)"];
    scene.swb(&[&["-p", "read"], &options[..]].concat()).expect_success();
    let sent = service.request_body(1)["messages"].to_string();
    assert!(!sent.contains("canary"), "{sent}");
    assert!(sent.contains("not permitted"), "{sent}");
}

#[test]
fn a_rule_about_a_folder_holds_for_arguments_that_the_program_changes_to_a_link_into_it() {
    let write = |id: &str| call(id, "Write", &json!({"file_path": "a.txt", "content": "x"}));
    let (scene, _service) =
        with_model([write("1"), Reply::text("one"), write("2"), Reply::text("two")]);
    scene.write("secret/key.txt", "canary").write("pub/a.txt", "public");
    std::os::unix::fs::symlink(scene.path("secret"), scene.path("pub/link")).expect("a link");
    let changed = json!({"file_path": "pub/link/new.txt", "content": "stolen"});
    let options = ["--permission-prompt-tool", "stdio", "--tools", "default"];
    let options = [&options[..], &["--disallowedTools", "Write(secret/**)"]].concat();
    let mut session = Frames::start(&scene, &options);
    let hooks = json!({"PreToolUse": [{"matcher": null, "hookCallbackIds": ["h"]}]});
    session.initialize(json!({"hooks": hooks}));
    // The callback changes them.
    session.say("write");
    let asked = session.until(|it| it["request"]["subtype"] == "hook_callback");
    session.respond(&asked, &json!({}));
    let asked = session.until(|it| it["request"]["subtype"] == "can_use_tool");
    session.respond(&asked, &json!({"behavior": "allow", "updatedInput": changed}));
    let result = session.until(|it| it["type"] == "result");
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write", "{result}");
    // A hook changes them, and allows the call.
    session.say("write");
    let asked = session.until(|it| it["request"]["subtype"] == "hook_callback");
    let specific = json!({"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": changed});
    session.respond(&asked, &json!({"hookSpecificOutput": specific}));
    let result = session.until(|it| it["type"] == "result");
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write", "{result}");
    session.finish();
    assert!(!scene.path("secret/new.txt").exists());
}
