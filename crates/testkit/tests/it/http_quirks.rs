//! Quirks over HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Quirk, ResponseFormat, Script, ScriptedServer};

use crate::client::{Client, initialize_params, request, text, with_modern_meta};
use crate::http_client::{
    ACCEPT, HttpClient, HttpResponse, JSON, SseClient, http_request, post, post_modern, send_modern,
};
use crate::websocket_client::WebSocketClient;

fn initialize_request() -> Value {
    request(1, "initialize", initialize_params("2025-11-25"))
}

/// A modern server with a quirk, and its response to a call of `echo`.
fn echo(script: Script) -> (ScriptedServer, HttpResponse) {
    let server = ScriptedServer::http(script);
    let call = json!({"name": "echo", "arguments": {"text": "hello"}});
    let reply = post_modern(server.url(), &request(2, "tools/call", with_modern_meta(call)));
    (server, reply)
}

fn modern_with(quirk: Quirk) -> Script {
    Script::modern().quirk(quirk)
}

#[test]
fn a_status_for_every_request_or_after_some_or_for_a_while() {
    let quirk = |after, times| Quirk::HttpStatus {
        status: 503,
        body: "busy".to_owned(),
        headers: BTreeMap::from([("Retry-After".to_owned(), "1".to_owned())]),
        after,
        times,
    };
    let statuses = |quirk: Quirk| {
        let server = ScriptedServer::http(Script::legacy().quirk(quirk));
        [(); 4].map(|()| post(server.url(), None, &initialize_request()).status)
    };
    assert_eq!(statuses(quirk(0, None)), [503; 4]);
    assert_eq!(statuses(quirk(2, None)), [200, 200, 503, 503]);
    assert_eq!(statuses(quirk(1, Some(2))), [200, 503, 503, 200]);

    let server = ScriptedServer::http(Script::legacy().quirk(quirk(0, None)));
    let mut reply = post(server.url(), None, &initialize_request());
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.body().unwrap(), b"busy");
}

#[test]
fn a_status_for_some_methods_only() {
    let json =
        r#"{"quirks": [{"http_status": {"status": 500}}], "quirks_on": ["tools/list", "GET"]}"#;
    let server = ScriptedServer::http(serde_json::from_str(json).unwrap());
    let mut client = HttpClient::new(server.url());
    client.open();
    let list = request(2, "tools/list", json!({}));
    assert_eq!(post(server.url(), Some(client.session()), &list).status, 500);
    assert_eq!(client.open_get_stream(None).status, 500);
    assert_eq!(text(&client.tool(3, "echo", json!({"text": "a"}))), "a");
}

#[test]
fn redirects_clients() {
    let url = "http://127.0.0.1:1/other".to_owned();
    let server =
        ScriptedServer::http(Script::legacy().quirk(Quirk::RedirectsTo { url: url.clone() }));
    let reply = post(server.url(), None, &initialize_request());
    assert_eq!((reply.status, reply.header("location")), (307, Some(url.as_str())));
}

#[test]
fn requires_a_token() {
    let quirk = Quirk::RequiresBearer { token: "open-sesame".to_owned() };
    let server = ScriptedServer::http(Script::legacy().quirk(quirk.clone()));
    let status = |token: Option<&str>| {
        let mut headers = vec![ACCEPT, JSON];
        headers.extend(token.map(|it| ("authorization", it)));
        let reply = http_request("POST", server.url(), &headers, &initialize_request().to_string());
        (reply.status, reply.header("www-authenticate").map(str::to_owned))
    };
    assert_eq!(status(None), (401, Some("Bearer realm=\"scripted\"".to_owned())));
    let (code, challenge) = status(Some("Bearer wrong"));
    assert_eq!((code, challenge.unwrap().contains("invalid_token")), (401, true));
    assert_eq!(status(Some("Bearer open-sesame")), (200, None));
    let server = ScriptedServer::ws(Script::legacy().quirk(quirk));
    let (status, _) = WebSocketClient::handshake(server.url(), "sec-websocket-protocol: mcp\r\n");
    assert_eq!(status, "HTTP/1.1 401 Unauthorized");
}

#[test]
fn drops_sessions_after_some_requests() {
    let server = ScriptedServer::http(Script::legacy().quirk(Quirk::DropsSession { after: 2 }));
    let mut client = HttpClient::new(server.url());
    client.open();
    client.call(2, "ping", json!({}));
    let ping = request(3, "ping", json!({}));
    for _ in 0..2 {
        let mut reply = post(server.url(), Some(client.session()), &ping);
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &json!(-32001)));
    }
    HttpClient::new(server.url()).open();
}

#[test]
fn never_responds_though_the_stream_is_open() {
    let server = ScriptedServer::http(modern_with(Quirk::NeverAnswers));
    let mut reply =
        post_modern(server.url(), &request(1, "tools/list", with_modern_meta(json!({}))));
    assert_eq!(reply.status, 200);
    assert!(reply.is_silent(30));
}

#[test]
fn delays_its_first_response() {
    let server = ScriptedServer::http(Script { start_delay_ms: 50, ..Script::legacy() });
    let start = Instant::now();
    HttpClient::new(server.url()).open();
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn disconnects_or_closes_in_the_middle_of_a_response() {
    for format in [ResponseFormat::Sse, ResponseFormat::Json] {
        let (_server, mut broken) =
            echo(modern_with(Quirk::TruncatesAnswer).response_format(format));
        let error = broken.body().expect_err("it is not whole");
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        let (_server, mut closed) =
            echo(modern_with(Quirk::ClosesStreamMidAnswer).response_format(format));
        let body = String::from_utf8(closed.body().unwrap()).unwrap();
        assert!(body.contains("jsonrpc") && !body.trim_end().ends_with('}'), "{body}");
    }
}

#[test]
fn an_interrupted_response_can_be_replayed_in_a_session() {
    for quirk in [Quirk::TruncatesAnswer, Quirk::ClosesStreamMidAnswer] {
        let server = ScriptedServer::http(Script::legacy().quirk(quirk).quirks_on("ping"));
        let mut client = HttpClient::new(server.url());
        client.open();
        let ping = request(2, "ping", json!({}));
        let mut reply = post(server.url(), Some(client.session()), &ping);
        let priming = reply.event().unwrap().unwrap();
        assert_eq!(priming.data, "");
        assert!(!matches!(reply.event(), Ok(Some(_))));
        let mut again = client.open_get_stream(priming.id.as_deref());
        assert_eq!(again.message()["id"], 2);
        assert_eq!(again.event().unwrap(), None);
    }
}

#[test]
fn response_quirks_work_as_over_stdio() {
    let (_server, mut twice) = echo(modern_with(Quirk::AnswersTwice));
    assert_eq!(twice.message(), twice.message());
    let (_server, mut wrong) = echo(modern_with(Quirk::WrongIds));
    assert_eq!(wrong.message()["id"], 1002);
    let (_server, mut other) = echo(modern_with(Quirk::DuplicateIds));
    assert_eq!([&other.message()["id"], &other.message()["id"]], [&json!(1), &json!(2)]);
    let (_server, mut garbage) = echo(modern_with(Quirk::FloodsStdoutWithGarbage { lines: 1 }));
    assert!(garbage.event().unwrap().unwrap().data.starts_with("garbage"));
    assert_eq!(garbage.message()["id"], 2);
    let (_server, mut broken) =
        echo(modern_with(Quirk::BadUtf8).response_format(ResponseFormat::Json));
    assert!(std::str::from_utf8(&broken.body().unwrap()).is_err());
    let (_server, mut huge) = echo(modern_with(Quirk::HugeLine { bytes: 100_000 }));
    assert!(huge.body().unwrap().len() > 100_000);
}

#[test]
fn sends_its_responses_slowly() {
    for format in [ResponseFormat::Sse, ResponseFormat::Json] {
        let start = Instant::now();
        let (_server, mut reply) = echo(modern_with(Quirk::SlowDrip).response_format(format));
        let body = reply.body().unwrap();
        let pauses = u64::try_from(body.len() / 16).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(pauses / 2));
        assert!(String::from_utf8(body).unwrap().contains("hello"));
    }
}

#[test]
fn a_probe_may_end_the_connection() {
    let server = ScriptedServer::http(Script::legacy().quirk(Quirk::ExitsOnProbe));
    let probe = request(1, "server/discover", with_modern_meta(json!({})));
    let mut bytes = Vec::new();
    send_modern(server.url(), &probe).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"");
    HttpClient::new(server.url()).open();
}

#[test]
fn the_program_serves_every_transport_and_prints_its_url() {
    for (flag, path) in [("--http", "/mcp"), ("--sse", "/sse"), ("--ws", "/mcp")] {
        let mut child = Command::new(testkit::scripted::program())
            .args([flag, &Script::legacy().to_json()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").unwrap();
        assert!(url.ends_with(path), "{url}");
        let mut client: Box<dyn Client> = match flag {
            "--http" => Box::new(HttpClient::new(url)),
            "--sse" => Box::new(SseClient::open(url)),
            _ => Box::new(WebSocketClient::open(url)),
        };
        client.open();
        let whoami = client.tool(2, "whoami", json!({}));
        assert_eq!(whoami["structuredContent"]["pid"], child.id());
        client.send(&request(3, "ping", json!({})));
        client.response_to(3);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_program_on_the_network_crashes_for_good() {
    let mut child = Command::new(testkit::scripted::program())
        .args(["--http", &Script::modern().to_json()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim_end().strip_prefix("listening on ").unwrap();
    let crash = request(1, "tools/call", with_modern_meta(json!({"name": "crash"})));
    let _connection = send_modern(url, &crash);
    assert_eq!(child.wait().unwrap().code(), Some(70));
}
