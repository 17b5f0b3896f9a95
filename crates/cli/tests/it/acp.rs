//! `swb acp`: an agent for editors, over standard streams.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use testkit::model_service::{API_KEY, Reply, ReplyPart};
use testkit::processes::{is_alive, wait_until, wait_until_exited};
use testkit::real_servers::{self, RealServer};
use testkit::{ModelService, Sandbox, Script, ScriptedProgram};

use crate::support::{USER, program, scene};

/// The timeout of every wait for the program.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long the program may take to end after the editor has gone.
const END_TIMEOUT: Duration = Duration::from_secs(2);

fn service(replies: impl IntoIterator<Item = Reply>) -> ModelService {
    ModelService::start(replies).expect("it starts")
}

/// A sandbox whose model is this service.
fn with_model(service: &ModelService) -> Sandbox {
    let mut scene = scene();
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    scene
}

fn call(id: &str, tool: &str, arguments: Json) -> Reply {
    Reply::message([ReplyPart::tool_call(id, tool, &arguments)])
}

/// An editor: sends lines, and receives those of the program on a thread.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<Json>,
    last_id: u64,
    /// The updates received so far, without their session.
    updates: Vec<Json>,
    /// The permission requests received so far.
    asked: Vec<Json>,
    /// The option that permission requests are answered with.
    option: &'static str,
}

impl Editor {
    fn start(scene: &Sandbox, arguments: &[&str]) -> Editor {
        let mut command = scene.command(&scene.home(), &[&["acp"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let line = line.expect("it is text");
                let message = serde_json::from_str(&line);
                let message = message.unwrap_or_else(|_| panic!("not JSON: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (updates, asked) = (Vec::new(), Vec::new());
        Editor { child, input, lines, last_id: 0, updates, asked, option: "allow_once" }
    }

    /// An editor after the handshake.
    fn initialized(scene: &Sandbox, arguments: &[&str]) -> Editor {
        let mut editor = Editor::start(scene, arguments);
        editor.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        editor
    }

    fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{line}").expect("it is read");
    }

    fn send(&mut self, message: &Json) {
        self.send_line(&message.to_string());
    }

    fn send_request(&mut self, method: &str, params: Json) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn notify(&mut self, method: &str, params: Json) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The next message. Updates are recorded, and permission requests answered.
    #[track_caller]
    fn receive(&mut self) -> Json {
        let message = self.lines.recv_timeout(TIMEOUT).expect("a message");
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        match message["method"].as_str() {
            Some("session/update") => self.updates.push(message["params"]["update"].clone()),
            Some("session/request_permission") => {
                self.asked.push(message["params"].clone());
                let outcome = json!({"outcome": "selected", "optionId": self.option});
                let response =
                    json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}});
                self.send(&response);
            }
            Some(_) | None => {}
        }
        message
    }

    /// The whole response to a request.
    #[track_caller]
    fn response(&mut self, id: u64) -> Json {
        loop {
            let message = self.receive();
            if message["method"].is_null() && message["id"] == id {
                return message;
            }
        }
    }

    #[track_caller]
    fn request(&mut self, method: &str, params: Json) -> Json {
        let id = self.send_request(method, params);
        let response = self.response(id);
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    #[track_caller]
    fn error(&mut self, method: &str, params: Json) -> (i64, String) {
        let id = self.send_request(method, params);
        let response = self.response(id);
        let error = &response["error"];
        let text = error["message"].as_str().unwrap_or_default().to_owned();
        (error["code"].as_i64().unwrap_or_else(|| panic!("{response}")), text)
    }

    /// Opens a session in a folder and returns its id.
    #[track_caller]
    fn open(&mut self, folder: &Path, servers: Json) -> String {
        let params = json!({"cwd": folder, "mcpServers": servers});
        let response = self.request("session/new", params);
        response["sessionId"].as_str().expect("an id").to_owned()
    }

    #[track_caller]
    fn prompt(&mut self, session: &str, text: &str) -> Json {
        self.request("session/prompt", prompt_params(session, text))["stopReason"].clone()
    }

    /// Receives until an update fits.
    #[track_caller]
    fn wait_for_update(&mut self, is_it: impl Fn(&Json) -> bool) -> Json {
        loop {
            if let Some(found) = self.updates.iter().find(|it| is_it(it)) {
                return found.clone();
            }
            self.receive();
        }
    }

    /// The text of the agent's messages so far.
    fn text(&self) -> String {
        self.text_of("agent_message_chunk")
    }

    /// The text of the chunks of this kind so far.
    fn text_of(&self, kind: &str) -> String {
        let chunks = self.updates.iter().filter(|it| it["sessionUpdate"] == kind);
        chunks.filter_map(|it| it["content"]["text"].as_str()).collect()
    }

    /// The statuses of this call so far. A call without one is pending.
    fn call_statuses(&self, id: &str) -> Vec<&str> {
        let updates = self.updates.iter().filter(|it| it["toolCallId"] == id);
        updates.filter_map(call_status).collect()
    }

    /// Closes standard input, and expects the program to end in time.
    #[track_caller]
    fn close(mut self) -> String {
        self.input = None;
        let started = Instant::now();
        let output = self.child.wait_with_output().expect("it ends");
        assert!(started.elapsed() < END_TIMEOUT, "{:?}", started.elapsed());
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or("-")
}

fn prompt_params(session: &str, text: &str) -> Json {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

#[test]
fn the_handshake_names_the_version_and_the_capabilities() {
    let scene = scene();
    let mut editor = Editor::start(&scene, &[]);
    let too_early = editor.error("session/list", json!({}));
    assert_eq!(too_early, (-32600, "send `initialize` first".to_owned()));
    let params = json!({"protocolVersion": 7, "clientCapabilities": {}});
    let response = editor.request("initialize", params);
    assert_eq!(response["protocolVersion"], 1);
    assert_eq!(response["agentInfo"]["name"], "switchboard");
    let capabilities = &response["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(capabilities["promptCapabilities"]["image"], true);
    assert_eq!(capabilities["promptCapabilities"]["embeddedContext"], true);
    let mcp = json!({"http": true, "sse": true});
    assert_eq!(capabilities["mcpCapabilities"], mcp);
    let sessions: Vec<&str> = capabilities["sessionCapabilities"]
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(sessions, ["list", "additionalDirectories", "resume", "close"]);
    assert_eq!(editor.error("authenticate", json!({"methodId": "x"})).0, -32602);
    assert_eq!(editor.error("no/such_method", json!({})).0, -32601);
    assert_eq!(editor.error("session/new", json!({"cwd": "relative", "mcpServers": []})).0, -32602);
    assert_eq!(editor.error("session/prompt", prompt_params("unknown", "hi")).0, -32002);
    assert_eq!(editor.close(), "");
}

#[test]
fn a_line_that_is_no_message_gets_an_error_and_the_next_request_is_answered() {
    let scene = scene();
    let mut editor = Editor::start(&scene, &[]);
    editor.send_line("{\"jsonrpc\": \"2.0\", \"id\": 1,");
    let error = editor.receive();
    assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32700), &Json::Null), "{error}");
    editor.send_line("{\"jsonrpc\": \"2.0\"}");
    assert_eq!(editor.receive()["error"]["code"], -32600);
    editor.request("initialize", json!({"protocolVersion": 1}));
    editor.close();
}

#[test]
fn a_prompt_streams_the_answer_and_the_calls_that_the_user_allows() {
    let service = service([
        Reply::message([
            ReplyPart::thinking("Hm."),
            ReplyPart::text("I ask. "),
            ReplyPart::tool_call("c1", "mcp__s__echo", &json!({"text": "tea"})),
        ]),
        Reply::text("It says tea."),
    ]);
    let scene = with_model(&service);
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"s\": {entry}"));
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&scene.project(), json!([]));
    assert_eq!(editor.prompt(&session, "what?"), "end_turn");
    assert_eq!(editor.text(), "I ask. It says tea.");
    assert_eq!(editor.text_of("agent_thought_chunk"), "Hm.");
    assert_eq!(editor.call_statuses("c1"), ["pending", "in_progress", "completed"]);
    let started = editor.wait_for_update(|it| it["sessionUpdate"] == "tool_call");
    assert_eq!(
        (&started["rawInput"], &started["name"]),
        (&json!({"text": "tea"}), &json!("mcp__s__echo"))
    );
    let ended = editor.wait_for_update(|it| it["status"] == "completed");
    assert_eq!(ended["content"][0]["content"]["text"], "tea");
    let asked = &editor.asked[0];
    assert_eq!(
        (&asked["sessionId"], &asked["toolCall"]["toolCallId"]),
        (&json!(session), &json!("c1"))
    );
    let kinds: Vec<&str> =
        asked["options"].as_array().expect("options").iter().map(|it| text(&it["kind"])).collect();
    assert_eq!(
        kinds,
        [
            "allow_once",
            "allow_always",
            "allow_always",
            "allow_always",
            "allow_always",
            "reject_once"
        ]
    );
    let usage = editor.wait_for_update(|it| it["sessionUpdate"] == "usage_update");
    assert!(usage["used"].as_u64() > Some(0) && usage["size"].as_u64() > usage["used"].as_u64());
    let system = service.request_body(0)["system"].to_string();
    assert!(system.contains(&*scene.project().to_string_lossy()), "{system}");
    editor.close();
}

#[test]
fn a_rejected_call_fails_and_one_that_is_always_allowed_is_not_asked_about_again() {
    let echo = |id: &str| call(id, "mcp__s__echo", json!({"text": "x"}));
    let replies = [echo("c1"), Reply::text("no"), echo("c2"), echo("c3"), Reply::text("yes")];
    let service = service(replies);
    let scene = with_model(&service);
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"s\": {entry}"));
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&scene.project(), json!([]));
    editor.option = "reject_once";
    assert_eq!(editor.prompt(&session, "go"), "end_turn");
    assert_eq!(editor.call_statuses("c1"), ["pending", "failed"]);
    editor.option = "allow_always_tool";
    assert_eq!(editor.prompt(&session, "again"), "end_turn");
    assert_eq!(editor.call_statuses("c3").last(), Some(&"completed"));
    assert_eq!(editor.asked.len(), 2);
    editor.close();
    let rules = scene.swb(&["permissions", "list", "--json"]);
    assert!(rules.expect_success().contains("mcp__s__echo"), "{}", rules.to_snapshot());
}

#[test]
fn the_workspace_tools_read_without_asking_and_show_changes_before_they_are_made() {
    let service = service([
        call("r", "mcp__workspace__Read", json!({"file_path": "a.txt"})),
        call(
            "e",
            "mcp__workspace__Edit",
            json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
        ),
        call("w", "mcp__workspace__Write", json!({"file_path": "a.txt", "content": "three\n"})),
        call("b", "mcp__workspace__Bash", json!({"command": "pwd"})),
        Reply::text("done"),
    ]);
    let scene = with_model(&service);
    let folder = scene.project().canonicalize().expect("it exists");
    scene.write("a.txt", "one\n");
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&folder, json!([]));
    assert_eq!(editor.prompt(&session, "go"), "end_turn");
    let started: Vec<String> = editor
        .updates
        .iter()
        .filter(|it| it["sessionUpdate"] == "tool_call")
        .map(|it| format!("{}: {}", text(&it["kind"]), text(&it["title"])))
        .collect();
    assert_eq!(
        started,
        ["read: Read a.txt", "edit: Edit a.txt", "edit: Write a.txt", "execute: `pwd`"]
    );
    let asked: Vec<&str> =
        editor.asked.iter().map(|it| text(&it["toolCall"]["toolCallId"])).collect();
    assert_eq!(asked, ["e", "w", "b"]);
    let path = folder.join("a.txt");
    let diff = |old: &str, new: &str| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    assert_eq!(editor.asked[0]["toolCall"]["content"][0], diff("one", "two"));
    assert_eq!(editor.asked[1]["toolCall"]["content"][0], diff("two\n", "three\n"));
    assert_eq!(editor.asked[0]["toolCall"]["locations"], json!([{"path": path}]));
    let shown = editor.wait_for_update(|it| it["toolCallId"] == "w" && it["content"].is_array());
    assert_eq!(shown["content"], json!([diff("two\n", "three\n")]));
    let ran = editor.wait_for_update(|it| it["toolCallId"] == "b" && it["status"] == "completed");
    assert!(ran["content"].to_string().contains(&*folder.to_string_lossy()), "{ran}");
    assert_eq!(scene.read("a.txt"), "three\n");
    editor.close();
}

#[test]
fn a_cancelled_prompt_ends_with_that_reason_and_the_session_goes_on() {
    let stalled = Reply::message([ReplyPart::text("I begin"), ReplyPart::Stall]);
    let service = service([stalled, Reply::text(" again")]);
    let scene = with_model(&service);
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&scene.project(), json!([]));
    let prompt = editor.send_request("session/prompt", prompt_params(&session, "go"));
    editor.wait_for_update(|it| it["sessionUpdate"] == "agent_message_chunk");
    let busy = editor.error("session/prompt", prompt_params(&session, "more"));
    assert_eq!(busy.0, -32600);
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.response(prompt)["result"]["stopReason"], "cancelled");
    service.resume_stalled();
    assert_eq!(editor.prompt(&session, "again"), "end_turn");
    assert_eq!(editor.text(), "I begin again");
    editor.close();
}

#[test]
fn a_stored_session_is_listed_and_loaded_with_its_messages_and_calls() {
    let service = service([
        call("c1", "mcp__workspace__LS", json!({"path": "."})),
        Reply::text("A file."),
        Reply::text("Still a file."),
        Reply::text("Yes."),
    ]);
    let scene = with_model(&service);
    let project = scene.project();
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&project, json!([]));
    editor.prompt(&session, "what is here?");
    let mut params = json!({"sessionId": session, "cwd": project, "mcpServers": []});
    assert_eq!(editor.error("session/load", params.clone()).0, -32600);
    editor.request("session/close", json!({"sessionId": session}));
    for list in [json!({}), json!({"cwd": project})] {
        let listed = editor.request("session/list", list);
        let found = &listed["sessions"][0];
        assert_eq!(
            (&found["sessionId"], &found["title"]),
            (&json!(session), &json!("what is here?")),
            "{listed}"
        );
        assert!(text(&found["updatedAt"]).ends_with('Z'), "{listed}");
    }
    editor.updates.clear();
    editor.request("session/load", params.clone());
    let kinds: Vec<&str> = editor
        .updates
        .iter()
        .map(|it| text(&it["sessionUpdate"]))
        .filter(|it| *it != "available_commands_update")
        .collect();
    assert_eq!(
        kinds,
        [
            "user_message_chunk",
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "agent_message_chunk"
        ]
    );
    assert_eq!(editor.updates[1]["kind"], "search");
    assert_eq!(editor.prompt(&session, "and now?"), "end_turn");
    assert_eq!(service.request_body(2)["messages"].as_array().map(Vec::len), Some(5));
    editor.request("session/close", json!({"sessionId": session}));
    editor.updates.clear();
    editor.request("session/resume", params.clone());
    assert_eq!(editor.text(), "");
    assert_eq!(editor.prompt(&session, "sure?"), "end_turn");
    params["sessionId"] = json!("no-such-session");
    assert_eq!(editor.error("session/load", params).0, -32002);
    editor.close();
}

#[test]
fn the_editors_servers_are_used_in_their_session_only_and_obey_the_policy() {
    let service = service([
        call("c1", "mcp__editors_own__echo", json!({"text": "hi"})),
        Reply::text("done"),
        Reply::text("none"),
    ]);
    let scene = with_model(&service);
    let entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    let env: Vec<Json> = entry["env"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let args = entry["args"].as_array().cloned().unwrap_or_default();
    let server =
        |name: &str| json!({"name": name, "command": entry["command"], "args": args, "env": env});
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&scene.project(), json!([server("editors own")]));
    let other = editor.open(&scene.home(), json!([]));
    assert_eq!(editor.prompt(&session, "go"), "end_turn");
    assert_eq!(editor.call_statuses("c1").last(), Some(&"completed"));
    assert_eq!(editor.prompt(&other, "go"), "end_turn");
    let tools = service.request_body(2)["tools"].to_string();
    assert!(tools.contains("mcp__workspace__Read") && !tools.contains("echo"), "{tools}");
    let twice = json!({"cwd": scene.home(), "mcpServers": [server("a b"), server("a_b")]});
    assert_eq!(editor.error("session/new", twice).0, -32602);
    editor.close();
    // The administrator's list of servers leaves out everything else.
    scene.write("managed/managed-mcp.json", r#"{"mcpServers": {}}"#);
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&scene.project(), json!([server("editors own")]));
    service.add_reply(Reply::text("locked"));
    assert_eq!(editor.prompt(&session, "go"), "end_turn");
    let tools = service.request_body(3)["tools"].to_string();
    assert!(!tools.contains("echo"), "{tools}");
    editor.close();
}

#[test]
fn two_sessions_work_at_the_same_time_and_a_mode_holds_for_one() {
    let stalled = Reply::message([ReplyPart::text("first"), ReplyPart::Stall]);
    let denied = call("c1", "mcp__workspace__Bash", json!({"command": "true"}));
    let service = service([stalled, denied, Reply::text("second")]);
    let scene = with_model(&service);
    let mut editor = Editor::initialized(&scene, &[]);
    let one = editor.open(&scene.project(), json!([]));
    let two = editor.open(&scene.home(), json!([]));
    let running = editor.send_request("session/prompt", prompt_params(&one, "go"));
    editor.wait_for_update(|it| it["content"]["text"] == "first");
    editor.request("session/set_mode", json!({"sessionId": two, "modeId": "plan"}));
    editor.wait_for_update(|it| it["currentModeId"] == "plan");
    assert_eq!(editor.prompt(&two, "go"), "end_turn");
    assert_eq!(editor.call_statuses("c1"), ["pending", "failed"]);
    assert_eq!(editor.asked, Vec::<Json>::new());
    service.resume_stalled();
    assert_eq!(editor.response(running)["result"]["stopReason"], "end_turn");
    let unknown = json!({"sessionId": two, "modeId": "wild"});
    assert_eq!(editor.error("session/set_mode", unknown).0, -32602);
    editor.close();
}

#[test]
fn prompts_of_servers_are_commands() {
    let service = service([Reply::text("reviewed")]);
    let scene = with_model(&service);
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&scene.project(), json!([]));
    let listed = editor.wait_for_update(|it| {
        it["sessionUpdate"] == "available_commands_update" && it["availableCommands"][0].is_object()
    });
    assert_eq!(listed["availableCommands"][0]["name"], "mcp__workspace__review");
    assert_eq!(editor.prompt(&session, "/mcp__workspace__review main"), "end_turn");
    let sent = service.request_body(0)["messages"][0]["content"].to_string();
    assert!(sent.contains("main") && !sent.contains("/mcp__"), "{sent}");
    editor.close();
}

#[test]
fn a_failed_model_request_is_an_error_with_its_cause() {
    let service = service([Reply::error(400, "invalid_request_error", "too odd")]);
    let scene = with_model(&service);
    let mut editor = Editor::initialized(&scene, &[]);
    let session = editor.open(&scene.project(), json!([]));
    let (code, message) = editor.error("session/prompt", prompt_params(&session, "hi"));
    assert!(code == -32603 && message.contains("too odd"), "{code} {message}");
    let audio = json!([{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]);
    let params = json!({"sessionId": session, "prompt": audio});
    assert_eq!(editor.error("session/prompt", params).0, -32602);
    editor.close();
    let mut without_model = Editor::initialized(&crate::support::scene(), &[]);
    let session = without_model.open(&scene.project(), json!([]));
    let (_, message) = without_model.error("session/prompt", prompt_params(&session, "hi"));
    assert!(message.contains("no model is set up"), "{message}");
}

#[test]
fn the_end_of_the_input_ends_a_running_command_and_the_process_in_time() {
    let command = json!({"command": "echo $$ > leader; sleep 1000"});
    let service = service([call("b", "mcp__workspace__Bash", command)]);
    let scene = with_model(&service);
    let mut editor = Editor::initialized(&scene, &["--mode", "bypass"]);
    let session = editor.open(&scene.project(), json!([]));
    editor.send_request("session/prompt", prompt_params(&session, "go"));
    let leader = scene.project().join("leader");
    let pid: u32 = wait_until(TIMEOUT, "the command runs", || {
        std::fs::read_to_string(&leader).ok()?.trim().parse().ok()
    });
    assert!(is_alive(pid));
    editor.close();
    wait_until_exited(pid, TIMEOUT);
}

/// Runs a client library against the program, and returns what it saw.
fn library(scene: &Sandbox, client: &RealServer) -> Json {
    let base = scene.command(&scene.project(), &[]);
    let variables: Vec<_> =
        base.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
    let mut command = std::process::Command::new(&client.command);
    command.args(&client.args).env_clear().envs(client.env.iter().cloned()).envs(variables);
    let output = command.output().expect("it runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}\n{stderr}"))
}

/// The replies of the model to the scripts of the client libraries.
fn library_replies() -> [Reply; 5] {
    [
        Reply::message([
            ReplyPart::text("I read."),
            ReplyPart::tool_call("r", "mcp__workspace__Read", &json!({"file_path": "a.txt"})),
        ]),
        call(
            "e",
            "mcp__workspace__Edit",
            json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
        ),
        Reply::text("Changed."),
        Reply::message([ReplyPart::text("Slow"), ReplyPart::Stall]),
        Reply::text("unused"),
    ]
}

#[track_caller]
fn check_library(seen: &Json, scene: &Sandbox) {
    assert_eq!(seen["agent"], "switchboard", "{seen}");
    assert_eq!(seen["stop"], "end_turn", "{seen}");
    assert_eq!(seen["cancelled"], "cancelled", "{seen}");
    assert_eq!(seen["text"], "I read.Changed.Slow", "{seen}");
    assert_eq!(seen["asked"], json!(["e"]), "{seen}");
    let diff = json!({"old": "one", "new": "two"});
    assert_eq!(seen["diff"], diff, "{seen}");
    assert_eq!(seen["kinds"], json!(["read", "edit"]), "{seen}");
    assert_eq!(seen["listed"], json!(["change a.txt"]), "{seen}");
    assert_eq!(seen["mode"], "acceptEdits", "{seen}");
    assert_eq!(scene.read("a.txt"), "two\n");
}

#[test]
fn the_python_library_of_the_protocol_drives_a_session() {
    let service = service(library_replies());
    let scene = with_model(&service);
    scene.write("a.txt", "one\n");
    let seen = library(&scene, &real_servers::python_acp_client(&scene.project(), &program()));
    check_library(&seen, &scene);
}

#[test]
fn the_typescript_library_of_the_protocol_drives_a_session() {
    let service = service(library_replies());
    let scene = with_model(&service);
    scene.write("a.txt", "one\n");
    let seen = library(&scene, &real_servers::typescript_acp_client(&scene.project(), &program()));
    check_library(&seen, &scene);
}

/// The status in an update. A call that is announced without one is pending.
fn call_status(update: &Json) -> Option<&str> {
    match (update["sessionUpdate"].as_str(), update["status"].as_str()) {
        (Some("tool_call"), None) => Some("pending"),
        (_, status) => status,
    }
}
