//! A running HTTP gateway, and clients of both eras.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::Sandbox;
use testkit::processes::wait_until;

const TIMEOUT: Duration = Duration::from_secs(20);

/// The gateway process. Dropping it terminates the process.
pub struct HttpGateway {
    child: Child,
    /// What it has written to standard error so far.
    stderr: Arc<Mutex<String>>,
    pub address: String,
}

impl HttpGateway {
    /// Serves the pool without permission prompts.
    pub fn start_pool(scene: &Sandbox, arguments: &[&str]) -> HttpGateway {
        let pool = ["--pool", "--mode", "bypass"];
        HttpGateway::start(scene, &[&pool, arguments].concat())
    }

    /// Serves at a free port.
    pub fn start(scene: &Sandbox, arguments: &[&str]) -> HttpGateway {
        HttpGateway::start_at(scene, "127.0.0.1:0", arguments)
    }

    /// Serves at an address.
    pub fn start_at(scene: &Sandbox, address: &str, arguments: &[&str]) -> HttpGateway {
        let arguments = [&["serve", "--http", address], arguments].concat();
        HttpGateway::spawn(scene.command(&scene.project(), &arguments))
    }

    /// Starts a command that serves over HTTP or HTTPS.
    pub fn spawn(mut command: Command) -> HttpGateway {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says where it is");
        let address = line.trim().strip_prefix("listening on ");
        let scheme = |it: &str| it.find("://").map_or(0, |end| end + "://".len());
        let address = address.map(|it| &it[scheme(it)..]);
        let address = address.and_then(|it| it.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
        let stderr = Arc::new(Mutex::new(String::new()));
        let mut stream = BufReader::new(child.stderr.take().expect("it is piped"));
        let written = stderr.clone();
        // Ends with the process.
        thread::spawn(move || {
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
                written.lock().expect("not poisoned").push_str(&line);
                line.clear();
            }
        });
        HttpGateway { child, stderr, address }
    }

    /// Sends a modern request and returns the whole response.
    pub fn request(&self, token: Option<&str>, method: &str, params: Json) -> String {
        let (lines, body) = modern_request(token, method, params);
        self.post(&lines, &body)
    }

    /// The first event of the response to a modern request.
    pub fn first_event(&self, token: &str, method: &str, params: Json) -> Json {
        let (lines, body) = modern_request(Some(token), method, params);
        let told = BufReader::new(self.send("POST /mcp", &lines, &body.to_string()));
        let told = told.lines().map(|it| it.expect("something in time"));
        let data = told.into_iter().find_map(|it| it.strip_prefix("data: ").map(str::to_owned));
        serde_json::from_str(&data.expect("an event")).expect("it is JSON")
    }

    pub fn post(&self, lines: &str, body: &Json) -> String {
        read_response(self.send("POST /mcp", lines, &body.to_string()))
    }

    /// The response to a GET request for this path.
    pub fn get(&self, path: &str) -> String {
        read_response(self.send(&format!("GET {path}"), "", ""))
    }

    /// Waits until every server has connected or failed. Returns the response that says so.
    #[track_caller]
    pub fn wait_until_ready(&self) -> String {
        wait_until(TIMEOUT, "the gateway is ready", || {
            Some(self.get("/readyz")).filter(|it| it.starts_with("HTTP/1.1 200 "))
        })
    }

    fn send(&self, what: &str, lines: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("the gateway listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a deadline");
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

    /// `Some` if standard error contains a text by now.
    pub fn stderr_contains(&self, text: &str) -> Option<()> {
        let lines = self.stderr.lock().expect("not poisoned");
        lines.contains(text).then_some(())
    }

    /// The beginning of the `SWITCHBOARD_OWNER` variable in the environment of the gateway's server processes.
    pub fn owner_variable(&self) -> String {
        format!("SWITCHBOARD_OWNER={}.", self.child.id())
    }

    pub fn signal(&self, name: &str) {
        let number = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &number]).status();
        assert!(sent.expect("kill can be run").success());
    }

    pub fn wait_exit(mut self) -> Option<i32> {
        wait_until(TIMEOUT, "it ends", || self.child.try_wait().expect("it is ours")).code()
    }

    /// Terminates the gateway and checks that it exits successfully.
    pub fn terminate(self) {
        self.signal("-TERM");
        assert_eq!(self.wait_exit(), Some(0));
    }
}

impl Drop for HttpGateway {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

pub fn modern_request(token: Option<&str>, method: &str, mut params: Json) -> (String, Json) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut lines = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
    if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
        lines.push_str(&format!("Mcp-Name: {name}\r\n"));
    }
    lines.push_str(&authorization_header(token));
    (lines, body)
}

/// A token as it is shown.
fn authorization_header(token: Option<&str>) -> String {
    token.map(|it| format!("Authorization: Bearer {it}\r\n")).unwrap_or_default()
}

fn read_response(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    answer
}

/// The JSON-RPC response in an HTTP response, which is JSON or the last event of a stream.
#[track_caller]
pub fn response_json(response: &str) -> Json {
    let body = response.split_once("\r\n\r\n").expect("a head and a body").1;
    let event = body.lines().rfind(|it| it.starts_with("data: "));
    let text = event.map_or(body, |it| &it["data: ".len()..]);
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {response}"))
}

/// A client of either era that authenticates with a token.
#[derive(Clone, Copy)]
pub enum GatewayClient<'a> {
    /// A modern client: every request is self-contained.
    Modern { gateway: &'a HttpGateway, token: Option<&'a str> },
    /// A legacy client with a session.
    Legacy(&'a LegacySession<'a>),
}

impl GatewayClient<'_> {
    /// The JSON-RPC response: a result or an error.
    #[track_caller]
    pub fn request(self, method: &str, params: Json) -> Json {
        match self {
            GatewayClient::Modern { gateway, token } => {
                response_json(&gateway.request(token, method, params))
            }
            GatewayClient::Legacy(session) => session.request(method, params),
        }
    }

    /// The result of a request.
    #[track_caller]
    pub fn result(self, method: &str, params: Json) -> Json {
        let answer = self.request(method, params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// The result of a tool call.
    #[track_caller]
    pub fn call(self, tool: &str, arguments: Json) -> Json {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// One member of every listed item.
    #[track_caller]
    pub fn list_member(self, method: &str, list: &str, member: &str) -> Vec<String> {
        let listed = self.result(method, json!({}));
        let all = listed[list].as_array().unwrap_or_else(|| panic!("no list: {listed}"));
        all.iter().map(|it| it[member].as_str().expect("text").to_owned()).collect()
    }
}

/// The session of a legacy client.
pub struct LegacySession<'a> {
    gateway: &'a HttpGateway,
    headers: String,
    /// The result of `initialize`.
    pub initialize_result: Json,
}

impl<'a> LegacySession<'a> {
    #[track_caller]
    pub fn initialize(gateway: &'a HttpGateway, token: Option<&str>) -> LegacySession<'a> {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }});
        let answer = gateway.post(&authorization_header(token), &hello);
        let named = |line: &str| line.strip_prefix("mcp-session-id: ").map(str::to_owned);
        let session = answer.lines().find_map(|it| named(&it.to_ascii_lowercase()));
        let session = session.unwrap_or_else(|| panic!("no session: {answer}"));
        let lines = format!(
            "Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n{}",
            authorization_header(token)
        );
        let hello = response_json(&answer)["result"].clone();
        let session = LegacySession { gateway, headers: lines, initialize_result: hello };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert!(gateway.post(&session.headers, &initialized).starts_with("HTTP/1.1 202 "));
        session
    }

    #[track_caller]
    fn request(&self, method: &str, params: Json) -> Json {
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        response_json(&self.gateway.post(&self.headers, &body))
    }

    /// The session id, which is a credential.
    pub fn id(&self) -> &str {
        let id = self.headers.lines().next().and_then(|it| it.strip_prefix("Mcp-Session-Id: "));
        id.expect("it is the first header")
    }

    /// Ends the session.
    pub fn end(self) {
        let said = read_response(self.gateway.send("DELETE /mcp", &self.headers, ""));
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    }
}

/// Writes a token file that only its owner can read, and returns its path.
pub fn write_token_file(scene: &Sandbox, tokens: &[(&str, &str)]) -> String {
    use std::os::unix::fs::PermissionsExt;
    let lines: String = tokens.iter().map(|(name, token)| format!("{name}: {token}\n")).collect();
    scene.write("tokens", &lines);
    let path = scene.path("tokens");
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, own).expect("it is ours");
    path.display().to_string()
}
