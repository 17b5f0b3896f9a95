//! A program that serves over HTTP, and clients of both eras that come to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::Scene;
use testkit::processes::wait_until;

const SOON: Duration = Duration::from_secs(20);

/// The program. It is ended when it is dropped.
pub struct Door {
    child: Child,
    pub address: String,
}

impl Door {
    /// Serves the pool, and asks nobody for leave.
    pub fn open(scene: &Scene, arguments: &[&str]) -> Door {
        let pool = ["--pool", "--mode", "bypass"];
        Door::serve(scene, &[&pool, arguments].concat())
    }

    /// Serves at a free port.
    pub fn serve(scene: &Scene, arguments: &[&str]) -> Door {
        let arguments = [&["serve", "--http", "127.0.0.1:0"], arguments].concat();
        let mut command = scene.command(&scene.project(), &arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says where it is");
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.and_then(|it| it.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
        Door { child, address }
    }

    /// A modern question; comes back with the whole answer.
    pub fn ask(&self, token: Option<&str>, method: &str, params: Json) -> String {
        let (lines, body) = modern(token, method, params);
        self.post(&lines, &body)
    }

    /// The first thing that a modern question is told.
    pub fn first_told(&self, token: &str, method: &str, params: Json) -> Json {
        let (lines, body) = modern(Some(token), method, params);
        let told = BufReader::new(self.send("POST /mcp", &lines, &body.to_string()));
        let told = told.lines().map(|it| it.expect("something in time"));
        let data = told.into_iter().find_map(|it| it.strip_prefix("data: ").map(str::to_owned));
        serde_json::from_str(&data.expect("an event")).expect("it is JSON")
    }

    pub fn post(&self, lines: &str, body: &Json) -> String {
        whole(self.send("POST /mcp", lines, &body.to_string()))
    }

    /// What is at a path.
    pub fn get(&self, path: &str) -> String {
        whole(self.send(&format!("GET {path}"), "", ""))
    }

    fn send(&self, what: &str, lines: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("somebody listens");
        stream.set_read_timeout(Some(SOON)).expect("a deadline");
        let request = format!(
            "{what} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{lines}\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it is read");
        stream
    }

    /// What its processes have in their environment.
    pub fn mark(&self) -> String {
        format!("SWITCHBOARD_OWNER={}.", self.child.id())
    }

    pub fn signal(&self, name: &str) {
        let number = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &number]).status();
        assert!(sent.expect("kill can be run").success());
    }

    pub fn ended(mut self) -> Option<i32> {
        wait_until(SOON, "it ends", || self.child.try_wait().expect("it is ours")).code()
    }

    /// Ends it, which goes well.
    pub fn end(self) {
        self.signal("-TERM");
        assert_eq!(self.ended(), Some(0));
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

fn modern(token: Option<&str>, method: &str, mut params: Json) -> (String, Json) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut lines = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
    if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
        lines.push_str(&format!("Mcp-Name: {name}\r\n"));
    }
    lines.push_str(&shown(token));
    (lines, body)
}

/// A token as it is shown.
fn shown(token: Option<&str>) -> String {
    token.map(|it| format!("Authorization: Bearer {it}\r\n")).unwrap_or_default()
}

fn whole(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    answer
}

/// The answer in a response, whether it came as JSON or as the last event of a stream.
#[track_caller]
pub fn answer_in(response: &str) -> Json {
    let body = response.split_once("\r\n\r\n").expect("a head and a body").1;
    let event = body.lines().rfind(|it| it.starts_with("data: "));
    let text = event.map_or(body, |it| &it["data: ".len()..]);
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {response}"))
}

/// A client that is known by its token, in either era.
#[derive(Clone, Copy)]
pub enum Visitor<'a> {
    /// It stands for itself with every question.
    Modern { door: &'a Door, token: Option<&'a str> },
    /// It has a session.
    Legacy(&'a Session<'a>),
}

impl Visitor<'_> {
    /// The answer, which is a result or an error.
    #[track_caller]
    pub fn ask(self, method: &str, params: Json) -> Json {
        match self {
            Visitor::Modern { door, token } => answer_in(&door.ask(token, method, params)),
            Visitor::Legacy(session) => session.ask(method, params),
        }
    }

    /// The result.
    #[track_caller]
    pub fn result(self, method: &str, params: Json) -> Json {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// The result of a call.
    #[track_caller]
    pub fn call(self, tool: &str, arguments: Json) -> Json {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// One member of everything that is listed.
    #[track_caller]
    pub fn listed(self, method: &str, list: &str, member: &str) -> Vec<String> {
        let listed = self.result(method, json!({}));
        let all = listed[list].as_array().unwrap_or_else(|| panic!("no list: {listed}"));
        all.iter().map(|it| it[member].as_str().expect("text").to_owned()).collect()
    }
}

/// A legacy client's session.
pub struct Session<'a> {
    door: &'a Door,
    lines: String,
    /// What it was told at the beginning.
    pub hello: Json,
}

impl<'a> Session<'a> {
    #[track_caller]
    pub fn begin(door: &'a Door, token: Option<&str>) -> Session<'a> {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }});
        let answer = door.post(&shown(token), &hello);
        let named = |line: &str| line.strip_prefix("mcp-session-id: ").map(str::to_owned);
        let session = answer.lines().find_map(|it| named(&it.to_ascii_lowercase()));
        let session = session.unwrap_or_else(|| panic!("no session: {answer}"));
        let lines = format!(
            "Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n{}",
            shown(token)
        );
        let hello = answer_in(&answer)["result"].clone();
        let session = Session { door, lines, hello };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert!(door.post(&session.lines, &initialized).starts_with("HTTP/1.1 202 "));
        session
    }

    #[track_caller]
    fn ask(&self, method: &str, params: Json) -> Json {
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        answer_in(&self.door.post(&self.lines, &body))
    }

    /// Ends it.
    pub fn end(self) {
        let said = whole(self.door.send("DELETE /mcp", &self.lines, ""));
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    }
}

/// Writes a file of tokens, which belongs to nobody else; comes back with its path.
pub fn with_tokens(scene: &Scene, tokens: &[(&str, &str)]) -> String {
    use std::os::unix::fs::PermissionsExt;
    let lines: String = tokens.iter().map(|(name, token)| format!("{name}: {token}\n")).collect();
    scene.write("tokens", &lines);
    let path = scene.path("tokens");
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, own).expect("it is ours");
    path.display().to_string()
}
