//! `swb serve`: a workspace server over standard streams, for clients of both eras.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::processes::{is_alive, processes_with_environment, wait_until, wait_until_exited};
use testkit::{Sandbox, real_servers};

use crate::support::{USER, json as json_of, program, scene};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A client of `swb serve` over standard streams.
pub struct StdioClient {
    pub child: Child,
    pub input: Option<ChildStdin>,
    pub output: BufReader<ChildStdout>,
    pub last_id: u64,
    meta: Option<Json>,
}

impl StdioClient {
    pub fn start(scene: &Sandbox, arguments: &[&str]) -> StdioClient {
        let arguments = [&["serve"], arguments].concat();
        let mut command = scene.command(&scene.project(), &arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        StdioClient { child, input, output, last_id: 0, meta: None }
    }

    /// A legacy client without roots, after the handshake.
    pub fn legacy(scene: &Sandbox, arguments: &[&str]) -> StdioClient {
        let mut raw = StdioClient::start(scene, arguments);
        let hello = raw.request(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"},
            }),
        );
        assert_eq!(hello["protocolVersion"], "2025-06-18", "{hello}");
        raw.send_message(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        raw
    }

    pub fn modern(scene: &Sandbox, arguments: &[&str]) -> StdioClient {
        let mut raw = StdioClient::start(scene, arguments);
        raw.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }));
        let found = raw.request("server/discover", json!({}));
        assert_eq!(found["supportedVersions"][0], "2026-07-28", "{found}");
        raw
    }

    pub fn send_message(&mut self, message: &Json) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}").expect("it is read");
    }

    pub fn send_request(&mut self, method: &str, mut params: Json) {
        self.last_id += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.last_id;
        self.send_message(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// Sends a request and returns the response. Every line of output is JSON.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Json) -> Json {
        self.send_request(method, params);
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        let answer: Json = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(answer["id"], self.last_id, "{answer}");
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Sends a request and returns the whole response. Other messages are skipped.
    pub fn request_outcome(&mut self, method: &str, params: Json) -> Json {
        self.send_request(method, params);
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("it answers");
            let message: Json = serde_json::from_str(&line).expect("it is JSON");
            if message["id"] == self.last_id && message["method"].is_null() {
                return message;
            }
        }
    }

    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Json) -> Json {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub fn signal(&self, name: &str) {
        let number = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args([name, &number]).status();
        assert!(sent.expect("kill can be run").success());
    }

    /// Waits for the exit. Returns the exit code and the remaining output, including standard error.
    pub fn wait_exit(mut self) -> (Option<i32>, String) {
        let status = wait_until(TIMEOUT, "it ends", || self.child.try_wait().expect("it is ours"));
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).expect("text");
        let mut stderr = self.child.stderr.take().expect("it is piped");
        std::io::Read::read_to_string(&mut stderr, &mut rest).expect("text");
        (status.code(), rest)
    }
}

fn read_pid(scene: &Sandbox, place: &str) -> u32 {
    let path = scene.path(place);
    wait_until(TIMEOUT, "it says its number", || {
        std::fs::read_to_string(&path).ok()?.trim().parse().ok()
    })
}

#[test]
fn a_client_uses_the_server_in_both_eras() {
    for connect in [StdioClient::legacy, StdioClient::modern] {
        let scene = scene();
        scene.write("a.txt", "one\n");
        let mut raw = connect(&scene, &[]);
        let listed = raw.request("tools/list", json!({}));
        assert_eq!(listed["tools"].as_array().map(Vec::len), Some(10), "{listed}");
        let read = raw.call("Read", json!({"file_path": "a.txt"}));
        assert_eq!(read["content"][0]["text"], "     1\tone\n");
        let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
        raw.call("Edit", edit);
        assert_eq!(scene.read("a.txt"), "two\n");
        let ran = raw.call("Bash", json!({"command": "cat a.txt"}));
        assert_eq!(ran["structuredContent"]["output"], "two\n", "{ran}");
        raw.send_request("tools/call", json!({"name": "Raed", "arguments": {}})); // misspelt on purpose
        let mut line = String::new();
        raw.output.read_line(&mut line).expect("it answers");
        assert!(line.contains("there is no tool `Raed`"), "{line}"); // misspelt on purpose
        raw.input = None;
        assert_eq!(raw.wait_exit(), (Some(0), String::new()));
        let outputs = scene.path("~/.local/share/switchboard/workspace");
        assert_eq!(std::fs::read_dir(outputs).expect("a folder").count(), 0);
    }
}

#[test]
fn shutdown_is_clean_and_ends_all_processes() {
    enum End {
        Input,
        Terminate,
        Kill,
    }
    for end in [End::Input, End::Terminate, End::Kill] {
        let scene = scene();
        let mut raw = StdioClient::modern(&scene, &[]);
        let family = "echo $$ > leader; (setsid sh -c 'echo $$ > away; sleep 1000') & \
                      (env -i setsid sh -c 'echo $$ > hidden; exec sleep 1000' &); sleep 1000";
        raw.call("Bash", json!({"command": family, "run_in_background": true}));
        raw.send_request(
            "tools/call",
            json!({"name": "Bash", "arguments": {"command": "echo $$ > waited; sleep 1000"}}),
        );
        let numbers = ["leader", "away", "hidden", "waited"].map(|place| read_pid(&scene, place));
        assert!(numbers.iter().all(|it| is_alive(*it)));
        let mark = format!("SWITCHBOARD_OWNER={}.", raw.child.id());
        match end {
            End::Input => raw.input = None,
            End::Terminate => raw.signal("-TERM"),
            End::Kill => raw.signal("-KILL"),
        }
        let (code, rest) = raw.wait_exit();
        match end {
            End::Input => assert_eq!((code, rest.as_str()), (Some(0), "")),
            // The pending request may still get an error response; nothing else is written.
            End::Terminate => {
                assert_eq!(code, Some(0), "{rest}");
                let is_told = |line: &str| line.contains("dropped without a response");
                assert!(rest.lines().count() <= 1 && rest.lines().all(is_told), "{rest}");
            }
            End::Kill => assert_eq!(code, None),
        }
        for number in numbers {
            wait_until_exited(number, TIMEOUT);
        }
        wait_until(TIMEOUT, "nothing is left", || {
            processes_with_environment(&mark).is_empty().then_some(())
        });
    }
}

/// A PDF with one page for each text.
#[test]
fn a_command_ends_with_a_process_that_hides() {
    let scene = scene();
    let mut raw = StdioClient::modern(&scene, &[]);
    let hidden = "(env -i setsid sh -c 'echo $$ > hidden; exec sleep 1000' >/dev/null 2>&1 &); \
                  while [ ! -s hidden ]; do sleep 0.01; done; exit 3";
    let ran = raw.call("Bash", json!({"command": hidden}));
    assert_eq!(ran["structuredContent"]["exitCode"], 3, "{ran}");
    assert!(!is_alive(read_pid(&scene, "hidden")));
    raw.input = None;
    assert_eq!(raw.wait_exit(), (Some(0), String::new()));
}

fn pdf(texts: &[&str]) -> Vec<u8> {
    let page = |at: usize| 4 + 2 * at;
    let kids: String = (0..texts.len()).map(|at| format!("{} 0 R ", page(at))).collect();
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        format!("<</Type/Pages/Kids[{kids}]/Count {}>>", texts.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
    ];
    for (at, text) in texts.iter().enumerate() {
        let content = format!("BT /F 12 Tf 72 720 Td ({text}) Tj ET");
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents {} 0 R>>",
            page(at) + 1
        ));
        objects.push(format!("<</Length {}>>stream\n{content}\nendstream", content.len()));
    }
    let mut file = "%PDF-1.4\n".to_owned();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (number, object) in (1..).zip(&objects) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
    }
    let start = file.len();
    let size = objects.len() + 1;
    file.push_str(&format!(
        "{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n"
    ));
    file.into_bytes()
}

#[test]
fn the_text_of_a_pdf_is_read_and_a_broken_one_fails_only_its_call() {
    let scene = scene();
    let good = pdf(&["Hello there", "The second page"]);
    std::fs::write(scene.path("good.pdf"), &good).expect("it is written");
    std::fs::write(scene.path("cut.pdf"), &good[..good.len() / 2]).expect("it is written");
    let deep = ["%PDF-1.4\n1 0 obj\n", &"[".repeat(300_000)].concat();
    let deep = format!("{deep}\nendobj\nxref\n0 1\ntrailer<</Root 1 0 R>>\nstartxref\n9\n%%EOF");
    scene.write("deep.pdf", &deep);
    let mut raw = StdioClient::modern(&scene, &[]);
    let read = raw.call("Read", json!({"file_path": "good.pdf"}));
    let content = read["structuredContent"]["content"].as_str().expect("a text");
    assert_eq!(content, "[page 1]\nHello there\n\n[page 2]\nThe second page\n", "{read}");
    assert_eq!(read["structuredContent"]["kind"], "pdf");
    for path in ["cut.pdf", "deep.pdf"] {
        let refused = raw.call("Read", json!({"file_path": path}));
        assert_eq!(refused["isError"], true, "{refused}");
        let why = refused["content"][0]["text"].as_str().expect("a text");
        assert!(why.contains("it is damaged"), "{why}");
    }
    raw.input = None;
    assert_eq!(raw.wait_exit(), (Some(0), String::new()));
}

#[test]
fn root_options_set_the_folders() {
    let scene = scene();
    scene.write("a.txt", "project\n");
    scene.write("~/other/a.txt", "other\n");
    let other = scene.path("~/other").display().to_string();
    let mut raw = StdioClient::legacy(&scene, &["--root", &other, "--root", "."]);
    let read = raw.call("Read", json!({"file_path": "a.txt"}));
    assert_eq!(read["structuredContent"]["content"], "other", "{read}");
    let here = scene.path("a.txt").display().to_string();
    let read = raw.call("Read", json!({"file_path": here}));
    assert_eq!(read["structuredContent"]["content"], "project", "{read}");
    let outside = raw.call("Read", json!({"file_path": "../x"}));
    assert_eq!(outside["isError"], true, "{outside}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
    let wrong = scene.swb(&["serve", "--root", "missing"]);
    insta::assert_snapshot!(wrong.expect_failure(2), @"error: --root: `missing` is not a folder");
}

#[test]
fn commands_get_none_of_our_credentials() {
    let mut scene = scene();
    scene.set_env("GITHUB_TOKEN", "hidden").set_env("PLAIN", "shown");
    let mut raw = StdioClient::modern(&scene, &[]);
    let ran = raw.call("Bash", json!({"command": "echo $PLAIN $GITHUB_TOKEN"}));
    assert_eq!(ran["structuredContent"]["output"], "shown\n", "{ran}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn our_own_host_calls_it_as_a_program_and_in_its_process() {
    let scene = scene();
    scene.write("a.txt", "one\n");
    let program = program().display().to_string();
    let managed = scene.managed().display().to_string();
    let program = json!({
        "command": program, "args": ["serve"], "env": {"SWB_TESTBED_MANAGED": managed},
    });
    scene.write_servers(USER, &format!("\"program\": {program}"));
    // Configuration files cannot name the server of a running program; flags can.
    let inside = r#"{"mcpServers": {"inside": {"type": "sdk", "name": "workspace"}}}"#;
    let flags = ["--mcp-config", inside];
    let status = json_of(&scene, &[&["status", "--json"], &flags[..]].concat());
    assert_eq!(status["servers"].as_array().map(Vec::len), Some(2), "{status}");
    for server in status["servers"].as_array().expect("servers") {
        assert_eq!(
            (&server["state"], &server["era"], &server["counts"]["tools"]),
            (&json!("connected"), &json!("modern"), &json!(10)),
            "{server}"
        );
    }
    for name in ["inside", "program"] {
        let call = |tool: &str, words: &[&str]| {
            let tool = format!("mcp__{name}__{tool}");
            let words =
                [&["call", tool.as_str()], words, &["--mode", "bypass"], &flags[..]].concat();
            scene.swb(&words).expect_success().to_owned()
        };
        assert_eq!(call("Read", &["file_path=a.txt"]), "     1\tone\n");
        assert_eq!(call("Bash", &["command=pwd"]), "[ROOT]/person/project\n");
        let glob = call("Glob", &["pattern=*.txt"]);
        assert_eq!(glob, "[ROOT]/person/project/a.txt\n");
        let prompt = ["prompt", name, "review", "target=main"];
        let said = scene.swb(&[&prompt[..], &flags].concat());
        assert!(said.expect_success().contains("Review this code: main"), "{}", said.to_snapshot());
    }
}

#[test]
fn a_client_on_the_official_python_library_reads_edits_and_runs() {
    for (mode, is_modern) in [("legacy", false), ("auto", true)] {
        let scene = scene();
        scene.write("a.txt", "one\n");
        let server = [program().into(), "serve".into()];
        let client = real_servers::python_client(mode, &scene.project(), &server);
        let mut command = std::process::Command::new(&client.command);
        command.args(&client.args).env_clear().envs(client.env.iter().cloned());
        command.env("HOME", scene.home()).env("SWB_TESTBED_MANAGED", scene.managed());
        let output = command.stdin(Stdio::null()).output().expect("Python can be run");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let seen: Json = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(seen["protocol"] == "2026-07-28", is_modern, "{seen:#}");
        assert_eq!(seen["tools"].as_array().map(Vec::len), Some(10));
        assert_eq!(seen["unread"]["error"], true);
        assert_eq!(seen["read"]["value"]["content"], "one");
        assert_eq!(seen["edit"]["value"]["replacements"], 1);
        assert_eq!(
            (&seen["bash"]["value"]["output"], &seen["bash"]["value"]["exitCode"]),
            (&json!("two\n"), &json!(3))
        );
        assert!(seen["prompt"].as_str().expect("words").contains("a.txt"));
        wait_until_exited(read_pid(&scene, "leader"), TIMEOUT);
    }
}

#[test]
fn the_roots_of_a_client_are_used() {
    let scene = scene();
    scene.write("~/theirs/a.txt", "theirs\n");
    let theirs: PathBuf = scene.path("~/theirs");
    let mut raw = StdioClient::start(&scene, &[]);
    let roots = json!({"roots": {"listChanged": true}});
    raw.request(
        "initialize",
        json!({
            "protocolVersion": "2025-06-18", "capabilities": roots,
            "clientInfo": {"name": "raw", "version": "1"},
        }),
    );
    let read = |raw: &mut StdioClient, folder: &PathBuf| {
        raw.send_request(
            "tools/call",
            json!({"name": "Read", "arguments": {"file_path": "a.txt"}}),
        );
        let mut line = String::new();
        raw.output.read_line(&mut line).expect("it asks");
        let asked: Json = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(asked["method"], "roots/list", "{asked}");
        let uri = format!("file://{}", folder.display());
        raw.send_message(
            &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [{"uri": uri}]}}),
        );
        line.clear();
        raw.output.read_line(&mut line).expect("it answers");
        let answer: Json = serde_json::from_str(&line).expect("it is JSON");
        answer["result"]["structuredContent"]["content"].clone()
    };
    assert_eq!(read(&mut raw, &theirs), "theirs");
    scene.write("a.txt", "project\n");
    raw.send_message(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
    assert_eq!(read(&mut raw, &scene.project()), "project");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}
