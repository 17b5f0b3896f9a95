//! Every real server starts and answers a handshake that was written by hand, over each of its transports.

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

/// A server on its standard streams.
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
            timeout(START_TIMEOUT, self.lines.next_line()).await.expect("the server answers");
        let line = line.expect("the server writes text").expect("the server is alive");
        serde_json::from_str(&line).expect("a line is a message")
    }

    /// What the server says next that `is_wanted`; the rest is passed over.
    async fn receive_until(&mut self, is_wanted: impl Fn(&Json) -> bool) -> Json {
        loop {
            let message = self.receive().await;
            if is_wanted(&message) {
                return message;
            }
        }
    }

    async fn call(&mut self, id: u64, method: &str, params: Json) -> Json {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        self.receive_until(|message| message["id"] == id && message["method"].is_null()).await
    }

    /// Shakes hands as clients of the handshake era do.
    async fn initialize(&mut self) -> Json {
        let answer = self.call(1, "initialize", initialize_params()).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer["result"].clone()
    }

    /// Asks as clients of the modern era do: without a handshake, everything in the envelope.
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

/// Starts the server on its standard streams and compares its name and the tools that it has at least.
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

/// Sends one HTTP request and gives the whole answer, or its beginning where it does not end.
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
    let mut answer = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&answer).contains(until) {
            let count = stream.read_buf(&mut answer).await.expect("the server writes");
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&answer));
        }
    };
    timeout(START_TIMEOUT, reading).await.expect("the server answers");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Starts the server on a port and compares the name that it gives in its answer to a handshake.
async fn check_http(server: impl Fn(u16) -> RealServer, name: &str) {
    let listening = ListeningServer::start(server).await;
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize_params()});
    let wanted = format!("\"serverInfo\":{{\"name\":\"{name}\"");
    let answer = http_request(&listening, "POST /mcp", &body.to_string(), &wanted).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
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
async fn everything_tells_where_to_speak_over_sse() {
    let listening = ListeningServer::start(real_servers::everything_over_sse).await;
    let answer = http_request(&listening, "GET /sse", "", "data: ").await;
    assert!(answer.contains("event: endpoint"), "{answer}");
}

#[tokio::test]
async fn filesystem_answers() {
    let folder = tempfile::tempdir().unwrap();
    check(real_servers::filesystem(folder.path()), "secure-filesystem-server", &["list_directory"])
        .await;
}

#[tokio::test]
async fn memory_keeps_its_file_where_it_is_told() {
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

/// The tool `ask` asks for a name, in the way of either era, and greets its owner.
async fn check_elicitation(server: RealServer) {
    let greeting = "hello Ada";
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});

    let mut server_process = ServerProcess::start(&server);
    server_process.initialize().await;
    let params = json!({"name": "ask", "arguments": {}});
    server_process
        .send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}))
        .await;
    let question = server_process.receive_until(|it| it["method"] == "elicitation/create").await;
    server_process.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
    let result = server_process.receive_until(|it| it["id"] == 2 && it["method"].is_null()).await;
    assert_eq!(result["result"]["content"][0]["text"], greeting);

    let mut server_process = ServerProcess::start(&server);
    let asked = server_process.call_modern(1, "tools/call", params.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    let question = &asked["result"]["inputRequests"]["name"];
    assert_eq!(question["method"], "elicitation/create");
    let mut again = params;
    again["inputResponses"] = json!({"name": answer});
    let result = server_process.call_modern(2, "tools/call", again).await;
    assert_eq!(result["result"]["content"][0]["text"], greeting);
}

#[tokio::test]
async fn fastmcp_asks_a_question_in_both_eras() {
    check_elicitation(real_servers::fastmcp(ServerTransport::Stdio)).await;
}

#[tokio::test]
async fn typescript_v2_asks_a_question_in_both_eras() {
    check_elicitation(real_servers::typescript_v2(ServerTransport::Stdio)).await;
}

/// The resource and the prompt that both of our servers have.
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
async fn typescript_v2_tells_whoever_listens_that_its_tools_changed() {
    let mut server_process =
        ServerProcess::start(&real_servers::typescript_v2(ServerTransport::Stdio));
    server_process.call_modern(1, "server/discover", json!({})).await;
    // The answer to this question comes when the listening ends, so it is not waited for.
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

    let told =
        server_process.receive_until(|it| it["method"] == "notifications/tools/list_changed").await;

    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);
}
