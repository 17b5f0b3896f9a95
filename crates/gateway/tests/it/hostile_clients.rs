//! Malicious and broken clients over real sockets: refused early and cheaply, without an effect on other clients.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, ServerMatrix, TEST_TIMEOUT, token};
use crate::raw_http::{RawClient, RawResponse};
use crate::test_client::{ClientKind, TestClient};

async fn fixture() -> (ServerMatrix, GatewayFixture, RawClient) {
    let upstreams = ServerMatrix::start();
    let fixture = upstreams.gateway(&["ls"], FixtureOptions::default()).await;
    let http = RawClient::client(fixture.address, 0);
    (upstreams, fixture, http)
}

/// A complete modern request.
fn list_request(test_client: &mut TestClient) -> Json {
    test_client.build_request("tools/list", json!({}))
}

/// Another client is served as usual.
async fn check_alive(fixture: &mut GatewayFixture) {
    let mut other = TestClient::connect(fixture, ClientKind::ModernHttp, 1).await;
    let params = json!({"name": "mcp__ls__echo", "arguments": {"text": "alive"}});
    let exchange =
        timeout(TEST_TIMEOUT, other.request("tools/call", params)).await.expect("in time");
    assert_eq!(exchange.result()["content"][0]["text"], "alive");
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_before_authentication() {
    let (upstreams, mut fixture, http) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
    let call = test_client.build_request(
        "tools/call",
        json!({"name": "mcp__ls__echo", "arguments": {"text": "rebound"}}),
    );
    let whole = String::from_utf8(http.post_bytes(&call)).expect("text");
    let own = format!("Host: {}\r\n", fixture.address);
    let port = fixture.address.port();
    let hosts = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::]:{port}"),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        "127.0.0.1".to_owned(),
        format!("127.1:{port}"),
        format!("2130706433:{port}"),
        format!("user@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}@evil.example"),
        format!("localhost:{port}, evil.example"),
        String::new(),
    ];
    for host in &hosts {
        let reply = http.send(whole.replace(&own, &format!("Host: {host}\r\n")).as_bytes()).await;
        assert!([400, 403].contains(&reply.status), "{host}: {}", reply.status);
    }
    let without = http.send(whole.replace(&own, "").as_bytes()).await;
    assert_eq!(without.status, 400);
    let twice = http.send(whole.replace(&own, &format!("{own}{own}")).as_bytes()).await;
    assert_eq!(twice.status, 400);
    for origin in [
        "null",
        "https://evil.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "http://0.0.0.0",
        "file://",
        "chrome-extension://abcdef",
        "http://localhost:1 http://evil.example",
    ] {
        let bad = whole.replace(&own, &format!("{own}Origin: {origin}\r\n"));
        assert_eq!(http.send(bad.as_bytes()).await.status, 403, "{origin}");
    }
    let targets = [
        "POST http://evil.example/mcp HTTP/1.1".to_owned(),
        format!("POST http://127.0.0.1:{}/mcp HTTP/1.1", port.wrapping_add(1)),
        format!("POST ftp://127.0.0.1:{port}/mcp HTTP/1.1"),
    ];
    for target in targets {
        let bad = whole.replace("POST /mcp HTTP/1.1", &target);
        let reply = http.send(bad.as_bytes()).await;
        assert!([400, 403].contains(&reply.status), "{target}: {}", reply.status);
    }
    // Without a token the response is the same: the check comes before authentication.
    let anonymous = RawClient { token: None, ..http.clone() };
    let bare = String::from_utf8(anonymous.post_bytes(&call)).expect("text");
    let reply = anonymous.send(bare.replace(&own, "Host: evil.example\r\n").as_bytes()).await;
    assert_eq!((reply.status, reply.header("www-authenticate")), (403, None));
    // The same in absolute form, and from a local page, is allowed.
    let good = whole
        .replace("POST /mcp HTTP/1.1", &format!("POST http://{}/mcp HTTP/1.1", fixture.address));
    assert_eq!(http.send(good.as_bytes()).await.status, 200);
    let good = whole.replace(&own, &format!("{own}Origin: http://localhost:1234\r\n"));
    assert_eq!(http.send(good.as_bytes()).await.status, 200);
    let calls = upstreams.received("ls").iter().filter(|it| it["method"] == "tools/call").count();
    assert_eq!(calls, 2, "nothing was done for the others");
    fixture.stop().await;
}

#[tokio::test]
async fn every_route_requires_a_valid_token() {
    let (upstreams, mut fixture, http) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let session = test_client.http.session.clone();
    let request = list_request(&mut test_client);
    let wrong = [
        "x".repeat(40),
        token(0).to_uppercase(),
        format!("{} ", token(7)),
        token(0)[1..].to_owned(),
    ];
    let mut bad_clients = vec![RawClient { token: None, session: session.clone(), ..http.clone() }];
    for token in wrong {
        bad_clients.push(RawClient {
            token: Some(token),
            session: session.clone(),
            ..http.clone()
        });
    }
    for bad_client in &bad_clients {
        for reply in [
            bad_client.post(&request).await,
            bad_client.open_stream(None).await,
            bad_client.open_stream(Some("1-0")).await,
            bad_client.delete().await,
        ] {
            assert_eq!(reply.status, 401, "{:?}", bad_client.token);
            let challenge = reply.header("www-authenticate").expect("a challenge");
            assert!(challenge.starts_with("Bearer"), "{challenge}");
        }
    }
    // Another client's token is valid, but not for this session.
    let other = RawClient { token: Some(token(1)), session, ..http.clone() };
    assert_eq!(other.post(&request).await.status, 404);
    assert_eq!(other.open_stream(None).await.status, 404);
    assert_eq!(other.delete().await.status, 404);
    // A second header does not help.
    let head =
        http.request_head("POST /mcp").replace("\r\nAuth", "\r\nAuthorization: Bearer x\r\nAuth");
    let reply = http.send(format!("{head}Content-Length: 0\r\n\r\n").as_bytes()).await;
    assert_eq!(reply.status, 400);
    // A token in the URL does not count.
    let anonymous = RawClient { token: None, ..http.clone() };
    let head = anonymous.request_head(&format!("GET /mcp?access_token={}", token(0)));
    assert_eq!(anonymous.send(format!("{head}\r\n").as_bytes()).await.status, 401);
    assert_eq!(test_client.request("ping", json!({})).await.outcome, Ok(json!({})), "it lives on");
    assert!(upstreams.received("ls").iter().all(|it| it["method"] != "tools/call"));
    fixture.stop().await;
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let (_quarter, mut fixture, http) = fixture().await;
    let post = |kind: &str, accept: &str, body: &str| {
        let head = http.request_head("POST /mcp");
        let length = body.len();
        format!(
            "{head}Content-Type: {kind}\r\nAccept: {accept}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let (json_kind, both) = ("application/json", "application/json, text/event-stream");
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    for (request, status) in [
        (post("text/plain", both, hello), 415),
        (post("", both, hello), 415),
        (post("application/json-seq", both, hello), 415),
        (post("multipart/form-data", both, hello), 415),
        (post("application/x-www-form-urlencoded", both, hello), 415),
        (post(json_kind, "application/json", hello), 406),
        (post(json_kind, "text/event-stream", hello), 406),
        (post(json_kind, "text/html", hello), 406),
        (post(json_kind, both, ""), 400),
        (post(json_kind, both, "{"), 400),
        (post(json_kind, both, "nonsense"), 400),
        (post(json_kind, both, "null"), 400),
        (post(json_kind, both, "[]"), 400),
        (post(json_kind, both, "{}"), 400),
        (post(json_kind, both, "\u{0}\u{1}"), 400),
        (post(json_kind, both, &hello.replace("{}", "[1]")), 400),
        (post(json_kind, both, &hello.replace("{}", "7")), 400),
        (post(json_kind, both, &hello.replace("{}", r#"{"_meta":3}"#)), 400),
        (post(json_kind, both, &hello.replace("initialize", "tools/list")), 400),
        (post(json_kind, both, &"[".repeat(100_000)), 400),
        (post(json_kind, both, &format!("[{}]", vec![hello; 1000].join(","))), 400),
        (post(json_kind, both, hello).replace("POST", "PUT"), 405),
        (post(json_kind, both, hello).replace("POST", "PATCH"), 405),
        (post(json_kind, both, hello).replace("POST", "TRACE"), 405),
        (post(json_kind, both, hello).replace("POST", "BREW"), 405),
    ] {
        let reply = http.send(request.as_bytes()).await;
        assert_eq!(reply.status, status, "{}", &request[..request.len().min(600)]);
    }
    let connect = http.request_head(&format!("CONNECT {}", fixture.address));
    let reply = http.send(format!("{connect}\r\n").as_bytes()).await;
    assert!((400..500).contains(&reply.status), "{}", reply.status);
    // A session that does not exist.
    for session in ["x", "00000000000000000000000000000000", "../../etc/passwd", "%00"] {
        let lost = RawClient { session: Some(session.to_owned()), ..http.clone() };
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(lost.post(&ping).await.status, 404, "{session}");
    }
    check_alive(&mut fixture).await;
    fixture.stop().await;
}

#[tokio::test]
async fn deep_and_long_values_in_valid_requests_do_no_harm() {
    let (_quarter, mut fixture, _) = fixture().await;
    for kind in [ClientKind::LegacyHttp, ClientKind::ModernHttp] {
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        let request = test_client.build_request(
            "tools/call",
            json!({"name": "mcp__ls__echo", "arguments": {"text": "DEEP"}}),
        );
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let whole = String::from_utf8(test_client.http.post_bytes(&request)).expect("text");
        let (head, body) = whole.split_once("\r\n\r\n").expect("a body");
        let old = format!("Content-Length: {}", body.len());
        for place in ["\"DEEP\"", "{\"text\":\"DEEP\"}"] {
            let body = body.replace(place, &deep);
            let head = head.replace(&old, &format!("Content-Length: {}", body.len()));
            let mut reply = test_client.http.send(format!("{head}\r\n\r\n{body}").as_bytes()).await;
            let answer = reply.message().await.expect("an answer");
            assert!(answer["error"]["code"].is_i64(), "{answer}");
        }
        let exchange = test_client.request("x".repeat(100_000).as_str(), json!({})).await;
        assert_eq!(exchange.error()["code"], -32601);
        assert!(exchange.error()["message"].as_str().is_some_and(|it| it.len() < 1000));
    }
    check_alive(&mut fixture).await;
    fixture.stop().await;
}

#[tokio::test]
async fn no_route_accepts_a_command_or_a_configuration() {
    let (upstreams, mut fixture, http) = fixture().await;
    let path = |first: &str| format!("{}\r\n", http.request_head(first));
    for target in [
        "/",
        "/mcp/",
        "/MCP",
        "/mcp/../mcp",
        "/mcp/x",
        "//mcp",
        "/mcp%2f",
        "/./mcp",
        "/..%2f..%2fetc/passwd",
        "/../../etc/passwd",
        "/admin",
        "/config",
        "/servers",
        "/api/servers",
        "/mcp-rest/test/connection",
        "/sse",
        "/message",
        "/.well-known/oauth-protected-resource",
        "/debug",
        "/metrics/../mcp",
    ] {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let reply = http.send(path(&format!("{method} {target}")).as_bytes()).await;
            assert!([400, 404].contains(&reply.status), "{method} {target}: {}", reply.status);
        }
    }
    let command = json!({"name": "evil", "command": "touch", "args": ["ran"],
                         "mcpServers": {"evil": {"command": "touch", "args": ["ran"]}}});
    for kind in [
        ClientKind::LegacyHttp,
        ClientKind::ModernHttp,
        ClientKind::LegacyInMemory,
        ClientKind::ModernInMemory,
    ] {
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        for method in [
            "config/add",
            "servers/add",
            "servers/test",
            "server/start",
            "admin/reload",
            "tools/add",
            "sampling/createMessage",
            "elicitation/create",
            "roots/list",
            "rpc.discover",
            "initialise",
            "",
        ] {
            let exchange = test_client.request(method, command.clone()).await;
            assert_eq!(exchange.error()["code"], -32601, "{kind:?} {method}");
        }
        if kind == ClientKind::ModernHttp {
            let request = test_client.build_request("servers/add", command.clone());
            assert_eq!(test_client.http.post(&request).await.status, 404);
        }
    }
    let methods: Vec<Json> =
        upstreams.received("ls").iter().map(|it| it["method"].clone()).collect();
    assert!(!methods.contains(&json!("servers/add")), "{methods:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn requests_that_are_too_large_are_refused() {
    let upstreams = ServerMatrix::start();
    let plan = FixtureOptions { max_request_bytes: 64 * 1024, ..FixtureOptions::default() };
    let mut fixture = upstreams.gateway(&["ls"], plan).await;
    let http = RawClient::client(fixture.address, 0);
    let head = http.request_head("POST /mcp");
    let kinds = "Content-Type: application/json\r\nAccept: */*\r\n";
    // With a content length, and in chunks.
    let body = " ".repeat(65 * 1024);
    let with_length = format!("{head}{kinds}Content-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(http.send(with_length.as_bytes()).await.status, 413);
    let chunked = format!(
        "{head}{kinds}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    assert_eq!(http.send(chunked.as_bytes()).await.status, 413);
    // Two lengths, and invalid lengths.
    for length in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: -1",
        "Content-Length: x",
        "Content-Length: 99999999999999999999",
    ] {
        let request = format!("{head}{kinds}{length}\r\n\r\n{{}}");
        let mut stream = http.connect().await;
        let _refused_early = stream.write_all(request.as_bytes()).await;
        if let Some(reply) = RawResponse::read(stream).await {
            assert!((400..500).contains(&reply.status), "{length}: {}", reply.status);
        }
    }
    // An endless head, in one line and in many.
    for flood in
        [format!("X-Long: {}\r\n", "x".repeat(1024 * 1024)), "X-Many: x\r\n".repeat(50_000)]
    {
        let mut stream = http.connect().await;
        let _refused_early = stream.write_all(format!("{head}{flood}\r\n").as_bytes()).await;
        if let Some(reply) = RawResponse::read(stream).await {
            assert!((400..500).contains(&reply.status), "{}", reply.status);
        }
    }
    check_alive(&mut fixture).await;
    fixture.stop().await;
}

/// Reads until the server closes the connection.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let read = timeout(TEST_TIMEOUT, stream.read_to_end(&mut all)).await;
    let _reset_or_closed = read.expect("it hangs up");
    all
}

#[tokio::test]
async fn a_slow_writer_times_out_and_delays_no_other_client() {
    let (_quarter, mut fixture, http) = fixture().await;
    let mut heads = Vec::new();
    let mut bodies = Vec::new();
    for _ in 0..200 {
        let mut stream = http.connect().await;
        stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.expect("it is read");
        heads.push(stream);
    }
    for _ in 0..20 {
        let mut stream = http.connect().await;
        let head = http.request_head("POST /mcp");
        let kinds =
            "Content-Type: application/json\r\nAccept: */*\r\nContent-Length: 1000\r\n\r\n{";
        stream.write_all(format!("{head}{kinds}").as_bytes()).await.expect("it is read");
        bodies.push(stream);
    }
    check_alive(&mut fixture).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    for stream in &mut heads {
        until_closed(stream).await;
    }
    for stream in bodies {
        let reply = RawResponse::read(stream).await.expect("it is told");
        assert_eq!(reply.status, 408);
    }
    check_alive(&mut fixture).await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_delays_no_other_client() {
    let (_quarter, mut fixture, http) = fixture().await;
    let (mut unread, mut sessions) = (Vec::new(), Vec::new());
    for kind in [ClientKind::LegacyHttp, ClientKind::ModernHttp] {
        for (tool, arguments) in [
            ("talk", json!({"text": "x".repeat(200), "steps": 10_000, "ms": 0})),
            ("big", json!({"bytes": 8 * 1024 * 1024})),
        ] {
            let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
            let params = json!({"name": format!("mcp__ls__{tool}"), "arguments": arguments, "_meta": {
                "progressToken": 1, "io.modelcontextprotocol/logLevel": "debug",
            }});
            let request = test_client.build_request("tools/call", params);
            let mut stream = test_client.http.connect().await;
            stream.write_all(&test_client.http.post_bytes(&request)).await.expect("it is read");
            unread.push(stream);
            sessions.push(test_client.http);
        }
    }
    // The same with GET streams that are not read.
    for _ in 0..5 {
        let test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
        unread.push(test_client.http.connect().await);
        let head = test_client.http.request_head("GET /mcp");
        let stream = unread.last_mut().expect("one");
        let open = format!("{head}Accept: text/event-stream\r\n\r\n");
        stream.write_all(open.as_bytes()).await.expect("it is read");
    }
    for kind in [
        ClientKind::LegacyHttp,
        ClientKind::ModernHttp,
        ClientKind::LegacyInMemory,
        ClientKind::ModernInMemory,
    ] {
        let mut test_client = TestClient::connect(&mut fixture, kind, 1).await;
        for _ in 0..10 {
            let params = json!({"name": "mcp__ls__echo", "arguments": {"text": "still here"}});
            let exchange = timeout(TEST_TIMEOUT, test_client.request("tools/call", params)).await;
            let exchange = exchange.expect("in time");
            assert_eq!(exchange.result()["content"][0]["text"], "still here");
        }
    }
    drop((unread, http));
    for http in sessions.iter().filter(|it| it.session.is_some()) {
        assert_eq!(http.delete().await.status, 200);
    }
    fixture.stop().await;
}

#[tokio::test]
async fn old_and_unusual_http_is_served_or_refused_but_never_hangs() {
    let (_quarter, mut fixture, http) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
    let request = list_request(&mut test_client);
    let whole = String::from_utf8(http.post_bytes(&request)).expect("text");
    let old = whole.replace("HTTP/1.1", "HTTP/1.0");
    let reply = http.send(old.as_bytes()).await;
    assert_eq!(reply.status, 200);
    for bad in [
        "GET /mcp\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        whole.replace("HTTP/1.1", "HTTP/9.9"),
        whole.replace("Host: ", "Host : "),
        whole.replace("Host: ", "Ho\u{0}st: "),
        "\u{16}\u{3}\u{1}\u{2}\u{0}".to_owned(),
        "\r\n\r\n\r\n\r\nGARBAGE\r\n\r\n".to_owned(),
    ] {
        let mut stream = http.connect().await;
        let _refused_early = stream.write_all(bad.as_bytes()).await;
        let _done = stream.shutdown().await;
        if let Some(reply) = RawResponse::read(stream).await {
            assert!((400..600).contains(&reply.status), "{bad}: {}", reply.status);
        }
    }
    // Two pipelined requests get their responses in order.
    let mut stream = http.connect().await;
    stream.write_all(format!("{whole}{whole}").as_bytes()).await.expect("it is read");
    let _done = stream.shutdown().await;
    let all = until_closed(&mut stream).await;
    let text = String::from_utf8_lossy(&all);
    assert!(text.matches("HTTP/1.1 200").count() >= 1, "{text}");
    check_alive(&mut fixture).await;
    fixture.stop().await;
}

#[tokio::test]
async fn arguments_that_cannot_be_parsed_do_not_bypass_the_rules() {
    let (upstreams, mut fixture, _) = fixture().await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
    let request = test_client.build_request(
        "tools/call",
        json!({"name": "mcp__ls__echo", "arguments": {"text": "x", "y": "DEEP"}}),
    );
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let whole = String::from_utf8(test_client.http.post_bytes(&request)).expect("text");
    let (head, body) = whole.split_once("\r\n\r\n").expect("a body");
    let old = format!("Content-Length: {}", body.len());
    let body = body.replace("\"DEEP\"", &deep);
    let head = head.replace(&old, &format!("Content-Length: {}", body.len()));
    let mut reply = test_client.http.send(format!("{head}\r\n\r\n{body}").as_bytes()).await;
    let answer = reply.message().await.expect("an answer");
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(upstreams.received("ls").iter().all(|it| it["method"] != "tools/call"));
    fixture.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_connection() {
    let upstreams = ServerMatrix::start();
    let write_timeout = Duration::from_millis(100);
    let options = FixtureOptions { write_timeout, ..FixtureOptions::default() };
    let mut fixture = upstreams.gateway(&["lh"], options).await;
    let mut client = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
    // More than the socket buffers of both ends hold.
    let params = json!({"name": "mcp__lh__big", "arguments": {"bytes": 24_000_000}});
    let request = client.build_request("tools/call", params);
    let mut connection = client.http.connect().await;
    let bytes = client.http.post_bytes(&request);
    connection.write_all(&bytes).await.expect("the request is sent");
    let reader = RawClient::client(fixture.address, 1);
    let closed = async {
        loop {
            let head = reader.request_head("GET /metrics");
            let page = reader.send(format!("{head}\r\n").as_bytes()).await.remaining_text().await;
            // The connection of the metrics request is open itself.
            if page.contains("switchboard_connections 1\n") && page.contains("tools/call") {
                return;
            }
        }
    };
    timeout(TEST_TIMEOUT, closed).await.expect("the connection is closed");
    drop((connection, client));
    fixture.stop().await;
}
