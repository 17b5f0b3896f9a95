//! Every real server starts and responds to a handshake over each of its transports.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::real_servers;
use testkit::real_servers::{ListeningServer, RealServer, ServerTransport};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

/// Python on a busy machine takes seconds to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server on stdio.
struct ServerProcess {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl ServerProcess {
    fn start(server: &RealServer) -> ServerProcess {
        let mut command = server.to_command();
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = process.expect("an installed server can be started");
        let stdin = process.stdin.take().expect("it is a pipe");
        let stdout = process.stdout.take().expect("it is a pipe");
        ServerProcess { stdin, lines: BufReader::new(stdout).lines(), _process: process }
    }

    async fn send(&mut self, message: Json) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.expect("the server reads");
    }

    async fn receive(&mut self) -> Json {
        let line =
            timeout(START_TIMEOUT, self.lines.next_line()).await.expect("the server responds");
        let line = line.expect("the server writes text").expect("the server is alive");
        serde_json::from_str(&line).expect("a line is a message")
    }

    /// The next message that matches; others are skipped.
    async fn receive_until(&mut self, matches: impl Fn(&Json) -> bool) -> Json {
        loop {
            let message = self.receive().await;
            if matches(&message) {
                return message;
            }
        }
    }

    async fn call(&mut self, id: u64, method: &str, params: Json) -> Json {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        self.receive_until(|message| message["id"] == id && message["method"].is_null()).await
    }

    /// Performs the legacy handshake.
    async fn initialize(&mut self) -> Json {
        let response = self.call(1, "initialize", initialize_params()).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        response["result"].clone()
    }

    /// Sends a modern request: no handshake, all metadata in the request.
    async fn call_modern(&mut self, id: u64, method: &str, mut params: Json) -> Json {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        self.call(id, method, params).await
    }
}

fn initialize_params() -> Json {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    })
}

/// Starts the server on stdio and compares its name and some of its tools.
async fn check(server: RealServer, name: &str, tools: &[&str]) {
    let mut server_process = ServerProcess::start(&server);
    let hello = server_process.initialize().await;
    assert_eq!(hello["serverInfo"]["name"], name);
    let listed = server_process.call(2, "tools/list", json!({})).await;
    for tool in tools {
        let all = listed["result"]["tools"].as_array().expect("the list is one");
        assert!(all.iter().any(|it| it["name"] == *tool), "{tool} is not in {listed}");
    }
}

/// Sends one HTTP request and returns the response, up to `until` if it does not end.
async fn http_request(listening: &ListeningServer, head: &str, body: &str, until: &str) -> String {
    let stream = TcpStream::connect(("127.0.0.1", listening.port)).await;
    let mut stream = stream.expect("the server accepts");
    let request = format!(
        "{head} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        listening.port,
        body.len(),
    );
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut response = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&response).contains(until) {
            let count = stream.read_buf(&mut response).await.expect("the server writes");
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&response));
        }
    };
    timeout(START_TIMEOUT, reading).await.expect("the server responds");
    String::from_utf8_lossy(&response).into_owned()
}

/// Starts the server on a port and compares the name in its handshake.
async fn check_http(server: impl Fn(u16) -> RealServer, name: &str) {
    let listening = ListeningServer::start(server).await;
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize_params()});
    let expected = format!("\"serverInfo\":{{\"name\":\"{name}\"");
    let response = http_request(&listening, "POST /mcp", &body.to_string(), &expected).await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

#[tokio::test]
async fn everything_answers_over_stdio() {
    check(real_servers::everything(ServerTransport::Stdio), "mcp-servers/everything", &["echo"])
        .await;
}

#[tokio::test]
async fn everything_answers_over_http() {
    check_http(
        |port| real_servers::everything(ServerTransport::Http(port)),
        "mcp-servers/everything",
    )
    .await;
}

#[tokio::test]
async fn everything_sends_its_endpoint_over_sse() {
    let listening = ListeningServer::start(real_servers::everything_over_sse).await;
    let response = http_request(&listening, "GET /sse", "", "data: ").await;
    assert!(response.contains("event: endpoint"), "{response}");
}

#[tokio::test]
async fn filesystem_answers() {
    let folder = tempfile::tempdir().unwrap();
    check(real_servers::filesystem(folder.path()), "secure-filesystem-server", &["list_directory"])
        .await;
}

#[tokio::test]
async fn memory_uses_the_given_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.jsonl");
    let mut server_process = ServerProcess::start(&real_servers::memory(&file));
    server_process.initialize().await;
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["counts"]});
    let arguments = json!({"entities": [entity]});
    let call = json!({"name": "create_entities", "arguments": arguments});

    server_process.call(2, "tools/call", call).await;

    assert!(std::fs::read_to_string(file).unwrap().contains("Ada"));
}

#[tokio::test]
async fn time_answers() {
    check(real_servers::time(), "mcp-time", &["get_current_time"]).await;
}

#[tokio::test]
async fn git_answers() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("git").arg("init").arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    check(real_servers::git(folder.path()), "mcp-git", &["git_status"]).await;
}

#[tokio::test]
async fn fastmcp_answers_over_stdio() {
    check(real_servers::fastmcp(ServerTransport::Stdio), "fastmcp", &["echo", "ask"]).await;
}

#[tokio::test]
async fn fastmcp_answers_over_http() {
    check_http(|port| real_servers::fastmcp(ServerTransport::Http(port)), "fastmcp").await;
}

#[tokio::test]
async fn typescript_v2_answers_over_stdio() {
    check(
        real_servers::typescript_v2(ServerTransport::Stdio),
        "typescript",
        &["echo", "ask", "grow"],
    )
    .await;
}

#[tokio::test]
async fn typescript_v2_answers_over_http() {
    check_http(|port| real_servers::typescript_v2(ServerTransport::Http(port)), "typescript").await;
}

/// The tool `ask` elicits a name in both eras and greets the user.
async fn check_elicitation(server: RealServer) {
    let greeting = "hello Ada";
    let response = json!({"action": "accept", "content": {"name": "Ada"}});

    let mut server_process = ServerProcess::start(&server);
    server_process.initialize().await;
    let params = json!({"name": "ask", "arguments": {}});
    server_process
        .send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}))
        .await;
    let elicitation = server_process.receive_until(|it| it["method"] == "elicitation/create").await;
    server_process
        .send(json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": response}))
        .await;
    let result = server_process.receive_until(|it| it["id"] == 2 && it["method"].is_null()).await;
    assert_eq!(result["result"]["content"][0]["text"], greeting);

    let mut server_process = ServerProcess::start(&server);
    let input_required = server_process.call_modern(1, "tools/call", params.clone()).await;
    assert_eq!(input_required["result"]["resultType"], "input_required");
    let elicitation = &input_required["result"]["inputRequests"]["name"];
    assert_eq!(elicitation["method"], "elicitation/create");
    let mut again = params;
    again["inputResponses"] = json!({"name": response});
    let result = server_process.call_modern(2, "tools/call", again).await;
    assert_eq!(result["result"]["content"][0]["text"], greeting);
}

#[tokio::test]
async fn fastmcp_elicits_in_both_eras() {
    check_elicitation(real_servers::fastmcp(ServerTransport::Stdio)).await;
}

#[tokio::test]
async fn typescript_v2_elicits_in_both_eras() {
    check_elicitation(real_servers::typescript_v2(ServerTransport::Stdio)).await;
}

/// The resource and the prompt of both our servers.
async fn check_resource_and_prompt(server: RealServer) {
    let mut server_process = ServerProcess::start(&server);
    server_process.initialize().await;
    let note = server_process.call(2, "resources/read", json!({"uri": "note://one"})).await;
    assert_eq!(note["result"]["contents"][0]["text"], "the first note");
    let params = json!({"name": "greeting", "arguments": {"name": "Ada"}});
    let prompt = server_process.call(3, "prompts/get", params).await;
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Greet Ada.");
}

#[tokio::test]
async fn fastmcp_has_a_resource_and_a_prompt() {
    check_resource_and_prompt(real_servers::fastmcp(ServerTransport::Stdio)).await;
}

#[tokio::test]
async fn typescript_v2_has_a_resource_and_a_prompt() {
    check_resource_and_prompt(real_servers::typescript_v2(ServerTransport::Stdio)).await;
}

#[tokio::test]
async fn typescript_v2_notifies_subscribers_of_changed_tools() {
    let mut server_process =
        ServerProcess::start(&real_servers::typescript_v2(ServerTransport::Stdio));
    server_process.call_modern(1, "server/discover", json!({})).await;
    // The response comes when the subscription ends, so it is not awaited.
    let mut params = json!({"notifications": {"toolsListChanged": true}});
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen =
        json!({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": params});
    server_process.send(listen).await;
    server_process
        .receive_until(|it| it["method"] == "notifications/subscriptions/acknowledged")
        .await;
    let grow = json!({"name": "grow", "arguments": {}, "_meta": params["_meta"]});
    server_process
        .send(json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": grow}))
        .await;

    let notification =
        server_process.receive_until(|it| it["method"] == "notifications/tools/list_changed").await;

    assert_eq!(notification["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);
}
