//! Sessions of programs without an SDK: the command line, the first request, and what happens at the end of the input.
//! Servers, rules and editors of such sessions are left to `sdk_frames`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::model_service::Reply;
use testkit::processes::wait_until_exited;
use testkit::{ModelService, Sandbox, Script, ScriptedProgram};

use crate::sdk_support::{call, sandbox, service};

const START: [&str; 5] =
    ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];

/// A session whose other end is a test.
pub struct Frames {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    seen: Vec<Json>,
    /// The sandbox, where no test needs it.
    _sandbox: Option<Sandbox>,
}

impl Frames {
    /// Starts a session with these options.
    pub fn start(sandbox: &Sandbox, options: &[&str]) -> Frames {
        Frames::spawn(Frames::command(sandbox, options), None)
    }

    /// A session in a sandbox of its own, which stays until the session has ended.
    fn alone(service: &ModelService, options: &[&str]) -> Frames {
        let sandbox = sandbox(service);
        Frames::spawn(Frames::command(&sandbox, options), Some(sandbox))
    }

    fn command(sandbox: &Sandbox, options: &[&str]) -> Command {
        let mut command = sandbox.command(&sandbox.project(), &[&START[..], options].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn spawn(mut command: Command, sandbox: Option<Sandbox>) -> Frames {
        let mut child = command.spawn().expect("the program can be run");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let input = child.stdin.take();
        Frames { input, child, output, seen: Vec::new(), _sandbox: sandbox }
    }

    pub fn send(&mut self, frame: &Json) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{frame}").expect("the session reads");
    }

    pub fn user(&mut self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    /// Sends a request and returns its answer.
    fn request(&mut self, request: &Json) -> Json {
        let id = format!("r{}", self.seen.len());
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        self.until(|it| it["response"]["request_id"] == id)["response"].clone()
    }

    fn answer(&mut self, request: &Json, body: &Json) {
        let response =
            json!({"subtype": "success", "request_id": request["request_id"], "response": body});
        self.send(&json!({"type": "control_response", "response": response}));
    }

    #[track_caller]
    pub fn until(&mut self, is_wanted: impl Fn(&Json) -> bool) -> Json {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("it can be read");
            if read == 0 {
                let stderr = self.stderr();
                panic!("the output ended: {:#?}\n{stderr}", self.seen);
            }
            let frame: Json = serde_json::from_str(&line).expect("a line is JSON");
            self.seen.push(frame.clone());
            if is_wanted(&frame) {
                return frame;
            }
        }
    }

    fn asked(&mut self, subtype: &str) -> Json {
        self.until(|it| it["request"]["subtype"] == subtype)
    }

    fn result(&mut self) -> Json {
        self.until(|it| it["type"] == "result")
    }

    /// The results of calls so far.
    fn tool_results(&self) -> Vec<&Json> {
        let users = self.seen.iter().filter(|it| it["type"] == "user");
        let blocks = users.flat_map(|it| it["message"]["content"].as_array().into_iter().flatten());
        blocks.filter(|it| it["type"] == "tool_result").collect()
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut text).expect("it is text");
        text
    }

    /// Closes the input, and returns the exit code and stderr.
    pub fn end(mut self) -> (i32, String) {
        self.input = None;
        for line in (&mut self.output).lines() {
            line.expect("it can be read");
        }
        let stderr = self.stderr();
        (self.child.wait().expect("it ended").code().unwrap_or(-1), stderr)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // It has usually ended.
        let _ended = self.child.kill();
        let _code = self.child.wait();
    }
}

fn write(id: &str, path: &str, text: &str) -> Reply {
    call(id, "Write", &json!({"file_path": path, "content": text}))
}

/// A session with one call, and hooks for `PreToolUse`.
fn with_hook(replies: impl IntoIterator<Item = Reply>) -> (Frames, Sandbox, ModelService) {
    let service = service(replies);
    let sandbox = sandbox(&service);
    let mut frames = Frames::start(&sandbox, &["--permission-mode", "bypassPermissions"]);
    let hooks = json!({"PreToolUse": [{"matcher": null, "hookCallbackIds": ["h"]}]});
    frames.request(&json!({"subtype": "initialize", "hooks": hooks}));
    (frames, sandbox, service)
}

#[test]
fn a_call_is_not_made_when_the_input_ends_while_its_hook_is_open() {
    let (mut frames, sandbox, _service) =
        with_hook([write("t1", "made", "x"), Reply::text("I see")]);
    frames.user("go");
    frames.asked("hook_callback");
    frames.input = None;
    assert_eq!(frames.result()["result"], "I see");
    assert_eq!(frames.tool_results()[0]["is_error"], true);
    let (code, stderr) = frames.end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("a PreToolUse hook for `Write` failed"), "{stderr}");
    assert!(!sandbox.path("made").exists());
}

#[test]
fn an_open_permission_request_is_an_error_result_when_the_input_ends() {
    let service = service([write("t1", "made", "x"), Reply::text("I see")]);
    let sandbox = sandbox(&service);
    let mut frames = Frames::start(&sandbox, &["--permission-prompt-tool", "stdio"]);
    frames.user("go");
    frames.asked("can_use_tool");
    frames.input = None;
    assert_eq!(frames.result()["result"], "I see");
    let expected = "Tool permission stream closed before response received";
    assert_eq!(frames.tool_results()[0]["content"], expected);
    assert_eq!(frames.end().0, 0);
    assert!(!sandbox.path("made").exists());
}

#[test]
fn a_program_that_reads_nothing_can_end_the_session_with_a_signal() {
    let service = service([]);
    let mut frames = Frames::alone(&service, &[]);
    // More than all buffers on the way hold: an error names its subtype.
    let subtype = "x".repeat(20_000);
    for number in 0..500 {
        let request = json!({"subtype": subtype});
        let id = number.to_string();
        frames.send(&json!({"type": "control_request", "request_id": id, "request": request}));
    }
    let pid = frames.child.id();
    let killed = Command::new("kill").args(["-TERM", &pid.to_string()]).status();
    assert!(killed.is_ok_and(|it| it.success()));
    wait_until_exited(pid, Duration::from_secs(20));
}

#[test]
fn tools_settings_and_servers_of_the_first_request_count_as_options() {
    let service = service([
        write("t1", "made", "x"),
        call("t2", "mcp__added__echo", &json!({"text": "tea"})),
        Reply::text("done"),
    ]);
    let sandbox = sandbox(&service);
    let options =
        ["--initialize-fields=settings,disallowedTools", "--permission-mode", "acceptEdits"];
    let mut frames = Frames::start(&sandbox, &options);
    let entry: Json = serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy()))
        .expect("an entry is JSON");
    let answer = frames.request(&json!({
        "subtype": "initialize", "disallowedTools": ["Write"],
        "settings": {"permissions": {"allow": ["mcp__added__echo"]}},
        "mcpServers": {"added": entry, "broken": 5},
    }));
    assert_eq!(answer["subtype"], "success", "{answer}");
    frames.user("go");
    frames.result();
    let results = frames.tool_results();
    assert_eq!(results[0]["is_error"], true, "{results:?}");
    assert_eq!(results[1]["content"], "tea", "{results:?}");
    assert!(!sandbox.path("made").exists());
    let offered = service.request_body(0)["tools"].to_string();
    assert!(!offered.contains("\"Write\"") && offered.contains("\"Read\""), "{offered}");
    let (_, stderr) = frames.end();
    assert!(stderr.contains("the server broken of `initialize` cannot be used"), "{stderr}");
}

#[test]
fn a_rule_of_the_first_request_that_makes_no_sense_stops_every_message() {
    let service = service([write("t1", "made", "x"), Reply::text("done")]);
    let sandbox = sandbox(&service);
    let mut frames = Frames::start(&sandbox, &["--permission-mode", "bypassPermissions"]);
    let answer =
        frames.request(&json!({"subtype": "initialize", "disallowedTools": ["mcp__s__t(a="]}));
    let error = answer["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("disallowedTools: `mcp__s__t(a=` is not a valid rule"), "{answer}");
    frames.user("go");
    assert_eq!(frames.result()["is_error"], true);
    assert_eq!(service.requests().len(), 0);
    assert_eq!(frames.end().0, 1);
}

#[test]
fn a_folder_that_an_answer_adds_can_be_used_by_later_calls() {
    let service = service([]);
    let sandbox = sandbox(&service);
    sandbox.write("~/outside/note", "far away");
    let folder = sandbox.path("~/outside");
    let read = |id| call(id, "Read", &json!({"file_path": folder.join("note")}));
    for reply in [
        read("t1"),
        write("t2", "x", "1"),
        read("t3"),
        write("t4", "y", "1"),
        read("t5"),
        Reply::text("done"),
    ] {
        service.add_reply(reply);
    }
    let mut frames = Frames::start(&sandbox, &["--permission-prompt-tool", "stdio"]);
    frames.user("go");
    for kind in ["addDirectories", "removeDirectories"] {
        let asked = frames.asked("can_use_tool");
        let update = json!({"type": kind, "directories": [folder], "destination": "session"});
        frames.answer(&asked, &json!({"behavior": "allow", "updatedPermissions": [update]}));
    }
    frames.result();
    let results = frames.tool_results();
    let is_error: Vec<bool> = results.iter().map(|it| it["is_error"] == true).collect();
    assert_eq!(is_error, [true, false, false, false, true], "{results:#?}");
    assert!(results[2]["content"].to_string().contains("far away"), "{results:#?}");
    frames.end();
}

#[test]
fn the_status_of_a_refusal_is_that_of_the_service() {
    let statuses = [400, 401, 403, 404, 413, 429, 529];
    let refusal =
        |status| Reply::error(status, "some_error", "no").with_header("x-should-retry", "false");
    let service = service(statuses.map(refusal));
    let mut frames = Frames::alone(&service, &[]);
    for status in statuses {
        frames.user("go");
        let result = frames.result();
        assert_eq!(
            (&result["api_error_status"], &result["is_error"]),
            (&json!(status), &json!(true))
        );
    }
    frames.end();
}

#[test]
fn the_chosen_model_is_one_of_those_that_can_be_chosen() {
    let service = service([]);
    let mut frames = Frames::alone(&service, &[]);
    let models = |frames: &mut Frames| -> Vec<String> {
        let answer = frames.request(&json!({"subtype": "list_models"}));
        let models = answer["response"]["models"].as_array().cloned().unwrap_or_default();
        models.iter().filter_map(|it| it["value"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(models(&mut frames), ["default"]);
    let answer = frames.request(&json!({"subtype": "set_model", "model": "claude-opus-4-1"}));
    assert_eq!(answer["subtype"], "success", "{answer}");
    assert_eq!(models(&mut frames), ["default", "claude-opus-4-1"]);
    frames.request(&json!({"subtype": "set_model", "model": null}));
    assert_eq!(models(&mut frames), ["default"]);
    frames.end();
}

#[test]
fn a_limit_that_cannot_be_kept_is_said_before_the_first_answer() {
    let service = service([Reply::text("one"), Reply::text("two")]);
    let options = ["--max-budget-usd", "0.01", "--task-budget", "1000"];
    let mut frames = Frames::alone(&service, &options);
    frames.user("go");
    let notice = frames.until(|it| it["subtype"] == "informational");
    assert_eq!((&notice["type"], &notice["level"]), (&json!("system"), &json!("warning")));
    assert!(notice["content"].as_str().is_some_and(|it| it.contains("--max-budget-usd")));
    assert_eq!(frames.result()["subtype"], "success");
    let (code, stderr) = frames.end();
    assert_eq!(code, 0, "{stderr}");
    for option in ["--max-budget-usd", "--task-budget"] {
        assert!(stderr.contains(&format!("{option} has no effect")), "{stderr}");
    }
}

#[test]
fn a_part_of_a_conversation_is_not_continued_as_if_it_were_the_whole() {
    let service = service([Reply::text("one")]);
    let sandbox = sandbox(&service);
    for option in ["--resume-session-at=4be0643f", "--resume-drops-turn=4be0643f"] {
        let frames = Frames::start(&sandbox, &["--continue", option]);
        let (code, stderr) = frames.end();
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("messages are stored without ids"), "{stderr}");
    }
}

#[test]
fn stray_words_are_left_out_and_a_prompt_is_the_first_message() {
    let service = service([Reply::text("one"), Reply::text("two")]);
    let options = ["-p", "hello", "--channels", "plugin:a@b", "server:c", "--debug", "api"];
    let mut frames = Frames::alone(&service, &options);
    frames.user("second");
    assert_eq!(frames.result()["result"], "one");
    assert_eq!(frames.result()["result"], "two");
    let first = service.request_body(0)["messages"].to_string();
    assert!(first.contains("hello") && !first.contains("second"), "{first}");
    let (code, stderr) = frames.end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("the unexpected word api is ignored"), "{stderr}");
}

#[test]
fn a_line_that_is_no_frame_ends_the_session_with_one_sentence() {
    let lines: [&[u8]; 6] = [
        b"hello",
        b"[1]",
        b"{\"type\":",
        b"{\"type\":\"user\"} x",
        b"{\"type\":\"\xff\"}",
        b"\x00",
    ];
    for line in lines {
        let service = service([]);
        let mut frames = Frames::alone(&service, &[]);
        frames.send(&json!({"type": "keep_alive"}));
        frames.send(&json!({"type": "of_a_later_version", "request": {"subtype": "x"}}));
        let answer = frames.request(&json!({"subtype": "get_binary_version"}));
        assert_eq!(answer["subtype"], "success", "{answer}");
        let input = frames.input.as_mut().expect("the input is open");
        input.write_all(line).and_then(|()| input.write_all(b"\n")).expect("the session reads");
        let (code, stderr) = frames.end();
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains("is not a JSON object"), "{line:?}: {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_message_of_many_megabytes_and_a_flood_of_small_frames_are_taken() {
    const BYTES: usize = 20_000_000;
    const FRAMES: usize = 5_000;
    let service = service([Reply::text("read")]);
    let mut frames = Frames::alone(&service, &[]);
    for number in 0..FRAMES {
        frames.send(&json!({"type": "control_cancel_request", "request_id": number.to_string()}));
        frames.send(&json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": number.to_string(), "response": {"behavior": "allow"}}}));
    }
    frames.user(&"x".repeat(BYTES));
    assert_eq!(frames.result()["result"], "read");
    let sent = service.request_body(0)["messages"].to_string();
    assert!(sent.len() >= BYTES, "{} bytes", sent.len());
    assert_eq!(frames.end().0, 0);
}

#[test]
fn a_schema_in_the_first_request_shapes_the_answer() {
    let give = |value: Json| call("t1", "StructuredOutput", &value);
    let service = service([give(json!({"n": "seven"})), give(json!({"n": 7}))]);
    let mut frames = Frames::alone(&service, &[]);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let answer = frames.request(&json!({"subtype": "initialize", "jsonSchema": schema}));
    assert_eq!(answer["subtype"], "success", "{answer}");
    frames.user("how many?");
    let result = frames.result();
    assert_eq!(result["structured_output"], json!({"n": 7}), "{result}");
    assert_eq!(frames.end().0, 0);
}

#[test]
fn a_schema_that_is_none_is_an_error() {
    let service = service([]);
    let mut frames = Frames::alone(&service, &[]);
    let answer = frames.request(&json!({"subtype": "initialize", "jsonSchema": ["x"]}));
    assert_eq!(answer["error"], "`jsonSchema` must be an object", "{answer}");
    frames.end();
}
