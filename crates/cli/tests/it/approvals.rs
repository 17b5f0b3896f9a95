//! `swb approvals`: calls of gateway clients that wait for the operator's approval.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::processes::wait_until;
use testkit::{Sandbox, Script, ScriptedProgram, Terminal};

use crate::support::{USER, json as json_of, local_settings, scene};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A running `swb serve --pool --http` in front of a scripted server, for clients without elicitation.
pub struct GatewayProcess {
    child: Child,
    pub address: String,
}

impl GatewayProcess {
    pub fn start(scene: &Sandbox, more: &[&str]) -> GatewayProcess {
        scene.write_servers(
            USER,
            &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy())),
        );
        let arguments = ["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth"];
        let mut command = scene.command(&scene.project(), &[&arguments[..], more].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it prints its address");
        let address = line.trim().strip_prefix("listening on http://").expect(&line);
        let address = address.strip_suffix("/mcp").expect("the path").to_owned();
        GatewayProcess { child, address }
    }

    /// Sends a call and leaves the connection open.
    fn send(&self, text: &str) -> TcpStream {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "mcp__s__echo", "arguments": {"text": text, "apiKey": "canary"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }});
        let body = call.to_string();
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: mcp__s__echo\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n",
            self.address,
            body.len(),
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        stream.write_all(body.as_bytes()).expect("it reads");
        stream
    }

    /// Sends a call and reads the whole response on another thread.
    pub fn call(&self, text: &str) -> JoinHandle<String> {
        let mut stream = self.send(text);
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
        thread::spawn(move || {
            let mut response = String::new();
            stream.read_to_string(&mut response).expect("it answers");
            response
        })
    }

    /// The whole response to a GET request.
    pub fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it answers");
        response
    }

    /// Terminates the gateway and returns its standard error.
    pub fn end(mut self) -> String {
        let number = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &number]).status();
        assert!(sent.expect("kill can be run").success());
        let mut said = String::new();
        let errors = self.child.stderr.as_mut().expect("it is piped");
        errors.read_to_string(&mut said).expect("text");
        assert!(self.child.wait().expect("it is ours").success(), "{said}");
        said
    }
}

/// Waits until `count` calls need approval and returns them.
fn wait_for_calls(scene: &Sandbox, count: usize) -> Vec<Json> {
    wait_until(TIMEOUT, "the expected number of calls needs approval", || {
        let listed = json_of(scene, &["approvals", "--json"]);
        let calls = listed["waiting"].as_array().expect("a list").clone();
        (calls.len() == count).then_some(calls)
    })
}

#[test]
fn a_call_waits_until_it_is_allowed_and_secrets_are_not_shown() {
    let scene = scene();
    assert_eq!(scene.swb(&["approvals"]).expect_success(), "No calls are waiting.\n");
    let gateway = GatewayProcess::start(&scene, &[]);
    let call = gateway.call("hello");
    let calls = wait_for_calls(&scene, 1);
    assert_eq!(calls[0]["tool"], "echo");
    assert_eq!(calls[0]["arguments"], json!({"text": "hello", "apiKey": "•••"}));
    assert!(calls[0]["because"].as_str().is_some_and(|it| !it.is_empty()), "{calls:?}");
    let listed = scene.swb(&["approvals"]);
    let lines: Vec<&str> = listed.expect_success().lines().collect();
    assert_eq!(lines.len(), 2, "{}", listed.to_snapshot());
    assert!(lines[1].starts_with("1 ") && lines[1].contains("echo"), "{}", listed.to_snapshot());
    let allowed = scene.swb(&["approvals", "allow", "1"]);
    assert!(
        allowed.expect_success().starts_with("`echo` of `s` is allowed for "),
        "{}",
        allowed.to_snapshot()
    );
    let response = call.join().expect("it answers");
    assert!(response.contains(r#""text":"hello""#), "{response}");
    insta::assert_snapshot!(scene.swb(&["approvals", "allow", "1"]).expect_failure(5), @r"
    error: no call 1 is waiting

    hint: `swb approvals` lists the waiting calls
    ");
    // The approval covered that call only.
    let again = gateway.call("again");
    wait_for_calls(&scene, 1);
    scene.swb(&["approvals", "deny", "2", "--reason", "not today"]).expect_success();
    let response = again.join().expect("it answers");
    assert!(response.contains("the gateway's operator says: not today"), "{response}");
    let said = gateway.end();
    assert!(said.contains("`swb approvals allow 1`"), "{said}");
    assert!(!said.contains("canary"), "{said}");
    let audit = json_of(&scene, &["audit", "--json"]);
    let outcomes: Vec<&Json> =
        audit["calls"].as_array().expect("a list").iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["ok", "denied"]);
    assert_eq!(audit["calls"][0]["because"], "the gateway's operator allowed it");
}

#[test]
fn a_decision_lasts_for_the_session_or_permanently() {
    let scene = scene();
    let gateway = GatewayProcess::start(&scene, &[]);
    let call = gateway.call("one");
    wait_for_calls(&scene, 1);
    scene.swb(&["approvals", "allow", "1", "--session"]).expect_success();
    assert!(call.join().expect("it answers").contains(r#""text":"one""#));
    let response = gateway.call("two").join().expect("it answers");
    assert!(response.contains(r#""text":"two""#), "{response}");
    assert!(!local_settings(&scene).exists());
    gateway.end();
    let gateway = GatewayProcess::start(&scene, &[]);
    let call = gateway.call("three");
    wait_for_calls(&scene, 1);
    scene.swb(&["approvals", "allow", "1", "--always"]).expect_success();
    assert!(call.join().expect("it answers").contains(r#""text":"three""#));
    gateway.end();
    let settings = std::fs::read_to_string(local_settings(&scene)).expect("a file");
    assert!(settings.contains("mcp__s__echo"), "{settings}");
    let gateway = GatewayProcess::start(&scene, &[]);
    let response = gateway.call("four").join().expect("it answers");
    assert!(response.contains(r#""text":"four""#), "{response}");
    gateway.end();
}

#[test]
fn a_pending_call_ends_with_its_client_and_is_denied_at_its_timeout() {
    let scene = scene();
    let gateway = GatewayProcess::start(&scene, &["--approval-timeout", "1"]);
    let response = gateway.call("late").join().expect("it answers");
    assert!(response.contains("no answer came within 1 s"), "{response}");
    gateway.end();
    let gateway = GatewayProcess::start(&scene, &["--approval-timeout", "0"]);
    let response = gateway.call("nobody").join().expect("it answers");
    assert!(response.contains("approvals are turned off"), "{response}");
    gateway.end();
    let gateway = GatewayProcess::start(&scene, &[]);
    let stream = gateway.send("gone");
    wait_for_calls(&scene, 1);
    drop(stream);
    wait_for_calls(&scene, 0);
    gateway.end();
}

#[test]
fn a_watching_operator_is_asked_about_one_call_at_a_time() {
    let scene = scene();
    let refused = scene.swb(&["approvals", "--watch"]);
    assert!(
        refused.expect_failure(2).contains("--watch needs a terminal"),
        "{}",
        refused.to_snapshot()
    );
    let gateway = GatewayProcess::start(&scene, &[]);
    let first = gateway.call("one");
    wait_for_calls(&scene, 1);
    let second = gateway.call("two");
    wait_for_calls(&scene, 2);
    let mut terminal = Terminal::start(&scene.command(&scene.project(), &["approvals", "--watch"]));
    terminal
        .wait_for_output("Allow s to run echo, requested by")
        .wait_for_output("\"text\": \"one\"")
        .wait_for_output("? ")
        .send_keys("y\n");
    assert!(first.join().expect("it answers").contains(r#""text":"one""#));
    terminal.wait_for_output("\"text\": \"two\"").wait_for_output("? ").send_keys("n\n");
    let denied = second.join().expect("it answers");
    assert!(denied.contains("the gateway's operator denied it"), "{denied}");
    let stream = gateway.send("three");
    terminal.wait_for_output("\"text\": \"three\"").wait_for_output("? ");
    drop(stream);
    terminal.wait_for_output("(the call ended)").send_keys("\u{3}");
    assert_eq!(terminal.wait_for_exit().0, 0);
    gateway.end();
}

#[test]
fn a_number_that_two_gateways_use_needs_the_process_id() {
    let scene = scene();
    let gateways = [GatewayProcess::start(&scene, &[]), GatewayProcess::start(&scene, &[])];
    let calls = gateways.each_ref().map(|it| it.call("both"));
    let waiting = wait_for_calls(&scene, 2);
    let refused = scene.swb(&["approvals", "allow", "1"]);
    assert!(
        refused.expect_failure(6).contains("several gateways have a call 1"),
        "{}",
        refused.to_snapshot()
    );
    for call in &waiting {
        scene.swb(&["approvals", "allow", &format!("{}.1", call["process"])]).expect_success();
    }
    for call in calls {
        assert!(call.join().expect("it answers").contains(r#""text":"both""#));
    }
    for gateway in gateways {
        gateway.end();
    }
}
