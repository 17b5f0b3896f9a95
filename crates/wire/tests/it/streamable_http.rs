//! Streamable HTTP in both eras: sessions, streams that are lost and found, refusals, and calls that are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use switchboard_wire::http::client::{
    Authorize, HeadersFuture, OutboundRequest, ResponseHead, RetryDecision, RetryFuture, Target,
};
use switchboard_wire::jsonrpc::message::{Message, RequestId};
use switchboard_wire::peer::{CallError, Peer};
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use switchboard_wire::transport::{Transport, TransportEvent};
use switchboard_wire::transport_error::{HttpErrorResponse, TransportError, UnreachableReason};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, mpsc, oneshot};
use tokio::time::timeout;
use url::Url;

use crate::test_server::*;

fn transport_to(server: &TestServer) -> StreamableHttpTransport {
    StreamableHttpTransport::new(http_client(), server.target())
}

/// What became of one question to a server that answers every request like this.
async fn send_to(play: fn(ReceivedRequest) -> Response) -> Result<Value, TransportError> {
    let server = TestServer::start(move |received| async move { play(received) }).await;
    send_to_target(server.target()).await
}

async fn send_to_target(target: Target) -> Result<Value, TransportError> {
    let mut transport = StreamableHttpTransport::new(http_client(), target);
    transport.push(request(7, "tools/call"));
    outcome(&mut transport).await
}

async fn outcome(transport: &mut StreamableHttpTransport) -> Result<Value, TransportError> {
    let outcome = match next(transport).await {
        Ok(TransportEvent::Message(message) | TransportEvent::RelatedMessage { message, .. }) => {
            let mut text = Vec::new();
            message.write_to(&mut text);
            Ok(serde_json::from_slice(&text).expect("JSON"))
        }
        Ok(TransportEvent::DeliveryFailed { id: Some(RequestId::Number(7)), error: fault }) => {
            Err(fault)
        }
        other => panic!("an answer or its loss was expected: {other:?}"),
    };
    assert_eq!(transport.queued_bytes(), 0, "nothing is left behind");
    outcome
}

/// Answers as a server with a session does, and leaves the rest to the test.
fn session_response(received: &ReceivedRequest) -> Option<Response> {
    match received.rpc_method() {
        "initialize" => {
            let mut response =
                json_response(&result(received, json!({"protocolVersion": "2025-11-25"})));
            response.headers_mut().insert("mcp-session-id", "s-1".parse().expect("a value"));
            Some(response)
        }
        "notifications/initialized" => Some(accepted()),
        _ => None,
    }
}

/// Begins a session, and hears the requests that this took.
async fn initialize(
    transport: &mut StreamableHttpTransport,
    server: &mut TestServer,
) -> [ReceivedRequest; 2] {
    transport.push(request(1, "initialize"));
    assert_eq!(next_message(transport).await["id"], 1);
    transport.push(notification("notifications/initialized", &json!({})));
    let both = async { [server.next().await, server.next().await] };
    drive_until(transport, both).await
}

#[tokio::test]
async fn a_session_id_is_sent_and_the_session_is_deleted() {
    let mut server = TestServer::start(|received| async move {
        match (session_response(&received), received.method == Method::POST) {
            (Some(response), _) => response,
            (None, true) => json_response(&result(&received, json!({}))),
            (None, false) => reply(405, "", ""),
        }
    })
    .await;
    let mut headers = HeaderMap::new();
    headers.insert("x-key", "secret".parse().expect("a value"));
    let mut transport =
        StreamableHttpTransport::new(http_client(), server.target().headers(headers));
    let [first, second] = initialize(&mut transport, &mut server).await;
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(first.header("accept"), "application/json, text/event-stream");
    assert_eq!(first.header("user-agent"), "stage/1");
    assert!(!first.headers.contains_key("mcp-session-id"));
    assert!(!first.headers.contains_key("mcp-protocol-version"));
    let listening = drive_until(&mut transport, server.next()).await;
    assert_eq!(
        (listening.method.clone(), listening.header("accept")),
        (Method::GET, "text/event-stream")
    );
    transport.push(request(2, "tools/list"));
    assert_eq!(next_message(&mut transport).await["id"], 2);
    let call = server.next().await;
    transport.shutdown().await;
    let goodbye = server.next().await;
    assert_eq!(goodbye.method, Method::DELETE);
    for later in [&second, &listening, &call, &goodbye] {
        assert_eq!(later.header("mcp-session-id"), "s-1", "{later:?}");
        assert_eq!(later.header("mcp-protocol-version"), "2025-11-25", "{later:?}");
    }
    for any in [&first, &second, &listening, &call, &goodbye] {
        assert_eq!(any.header("x-key"), "secret");
    }
    assert!(
        server.requests.try_recv().is_err(),
        "a stream that was refused is not asked for again"
    );
}

#[tokio::test]
async fn a_new_session_knows_nothing_of_the_last() {
    let mut server = TestServer::start(|received| async move {
        session_response(&received).unwrap_or_else(|| reply(405, "", ""))
    })
    .await;
    let mut transport = transport_to(&server);
    initialize(&mut transport, &mut server).await;
    let _listening = drive_until(&mut transport, server.next()).await;
    transport.push(request(2, "initialize"));
    assert_eq!(next_message(&mut transport).await["id"], 2);
    let again = server.next().await;
    assert!(!again.headers.contains_key("mcp-session-id"));
    assert!(!again.headers.contains_key("mcp-protocol-version"));
}

#[tokio::test]
async fn nothing_is_sent_before_initialized_is_acknowledged() {
    let (let_go, go) = oneshot::channel::<()>();
    let go = Arc::new(tokio::sync::Mutex::new(Some(go)));
    let mut server = TestServer::start(move |received| {
        let go = go.clone();
        async move {
            if received.rpc_method() == "notifications/initialized" {
                let go = go.lock().await.take().expect("once");
                go.await.expect("the test lets go");
            }
            session_response(&received)
                .unwrap_or_else(|| json_response(&result(&received, json!({}))))
        }
    })
    .await;
    let mut transport = transport_to(&server);
    transport.push(request(1, "initialize"));
    next_message(&mut transport).await;
    transport.push(notification("notifications/initialized", &json!({})));
    transport.push(request(2, "tools/list"));
    transport.push(request(3, "dropped/early"));
    transport.push(notification("notifications/cancelled", &json!({"requestId": 3})));
    let both = async { [server.next().await, server.next().await] };
    let [_, told] = drive_until(&mut transport, both).await;
    assert_eq!(told.rpc_method(), "notifications/initialized");
    assert!(server.requests.try_recv().is_err());
    let_go.send(()).expect("the server waits");
    assert_eq!(next_message(&mut transport).await["id"], 2);
    let mut methods = vec![
        server.next().await.rpc_method().to_owned(),
        server.next().await.rpc_method().to_owned(),
    ];
    methods.sort();
    // The stream that the server speaks on has no body; the question that was dropped never left.
    assert_eq!(methods, ["", "tools/list"]);
}

#[tokio::test]
async fn an_unacknowledged_initialized_delays_requests_for_five_seconds() {
    let mut server = TestServer::start(|received| async move {
        if received.rpc_method() == "notifications/initialized" {
            std::future::pending::<()>().await;
        }
        session_response(&received).unwrap_or_else(|| json_response(&result(&received, json!({}))))
    })
    .await;
    let mut transport = transport_to(&server);
    initialize(&mut transport, &mut server).await;
    transport.push(request(2, "tools/list"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5)).await;
    tokio::time::resume();
    assert_eq!(next_message(&mut transport).await["id"], 2);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(55)).await;
    tokio::time::resume();
    let fault = TransportError::Timeout(Duration::from_secs(60));
    assert_eq!(
        next(&mut transport).await,
        Ok(TransportEvent::DeliveryFailed { id: None, error: fault })
    );
    assert_eq!(transport.queued_bytes(), 0);
}

#[tokio::test]
async fn the_get_stream_is_resumed_from_its_last_event() {
    let opened = Arc::new(AtomicUsize::new(0));
    let mut server = TestServer::start(move |received| {
        let opened = opened.clone();
        async move {
            if let Some(response) = session_response(&received) {
                return response;
            }
            let notification = |text: &str| json!({"jsonrpc": "2.0", "method": text});
            match opened.fetch_add(1, Ordering::SeqCst) {
                0 => broken_event_stream(format!(
                    "retry: 100\nid: e-1\n{}id: e-2\ndata: {{\n\n",
                    event(&notification("one"))
                )),
                1 => event_stream(event(&notification("two"))),
                2 => reply(503, "", ""),
                _ => reply(404, "", ""),
            }
        }
    })
    .await;
    let mut transport = transport_to(&server);
    initialize(&mut transport, &mut server).await;
    assert_eq!(next_message(&mut transport).await["method"], "one");
    let first_opening = server.next().await;
    assert_eq!(first_opening.header("last-event-id"), "");
    assert!(matches!(next(&mut transport).await, Ok(TransportEvent::Malformed(_))));
    let began = Instant::now();
    assert_eq!(next_message(&mut transport).await["method"], "two");
    assert!(began.elapsed() >= Duration::from_millis(90), "it waits as long as the server says");
    let second_opening = server.next().await;
    assert_eq!(second_opening.header("last-event-id"), "e-2");
    assert_eq!(second_opening.header("mcp-session-id"), "s-1");
    let rest = async { [server.next().await, server.next().await] };
    let [third_opening, fourth_opening] = drive_until(&mut transport, rest).await;
    assert_eq!(third_opening.header("last-event-id"), "e-2");
    assert_eq!(fourth_opening.header("last-event-id"), "e-2");
}

#[tokio::test]
async fn a_broken_response_stream_is_resumed_from_its_last_event() {
    let mut server = TestServer::start(|received| async move {
        match received.method == Method::POST {
            true => broken_event_stream("id: p-1\nretry: 300\ndata:\n\n"),
            false => event_stream(format!(
                "id: p-2\n{}",
                event(&json!({"id": 7, "result": {"late": true}}))
            )),
        }
    })
    .await;
    let mut transport = transport_to(&server);
    let began = Instant::now();
    transport.push(request(7, "tools/call"));
    assert_eq!(
        outcome(&mut transport).await,
        Ok(json!({"jsonrpc": "2.0", "id": 7, "result": {"late": true}}))
    );
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(300), "not earlier than the server says: {took:?}");
    assert!(took < Duration::from_millis(900), "not much later: {took:?}");
    assert_eq!(server.next().await.method, Method::POST);
    let resumed = server.next().await;
    assert_eq!((resumed.method.clone(), resumed.header("last-event-id")), (Method::GET, "p-1"));
}

#[tokio::test]
async fn a_response_stream_that_cannot_be_resumed_fails() {
    // Without an id there is nothing to go on from.
    assert_eq!(
        send_to(|_| broken_event_stream("data: {\"method\":\n")).await,
        Err(TransportError::IncompleteResponse)
    );
    assert_eq!(
        send_to(|_| event_stream(": nothing\n\n")).await,
        Err(TransportError::IncompleteResponse)
    );
    // The server does not want to be asked.
    let refusing = |received: ReceivedRequest| match received.method == Method::POST {
        true => event_stream("id: 1\nretry: 10\ndata:\n\n"),
        false => reply(405, "", ""),
    };
    assert_eq!(send_to(refusing).await, Err(TransportError::IncompleteResponse));
    // Questions of the other era are never asked for again.
    let mut server =
        TestServer::start(|_| async { event_stream("id: 1\nretry: 10\ndata:\n\n") }).await;
    let mut transport = transport_to(&server);
    transport.push(modern_request(7, "tools/call"));
    assert_eq!(outcome(&mut transport).await, Err(TransportError::IncompleteResponse));
    assert_eq!(server.next().await.header("mcp-method"), "tools/call");
    assert!(server.requests.try_recv().is_err());
}

#[tokio::test]
async fn messages_before_the_response_arrive_before_it() {
    let server = TestServer::start(|received| async move {
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress"});
        let question = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
        let parts = [&progress, &question, &progress, &result(&received, json!("x"))].map(event);
        event_stream(format!("event: ping\ndata: {{}}\n\n{}", parts.concat()))
    })
    .await;
    let mut transport = transport_to(&server);
    transport.push(request(7, "tools/call"));
    assert_eq!(next_message(&mut transport).await["method"], "notifications/progress");
    assert_eq!(next_message(&mut transport).await["id"], "q");
    assert_eq!(next_message(&mut transport).await["method"], "notifications/progress");
    assert_eq!(next_message(&mut transport).await["result"], "x");
}

#[tokio::test]
async fn a_stream_that_continues_after_its_response_is_closed() {
    let (gone, is_gone) = mpsc::unbounded_channel::<()>();
    let server = TestServer::start(move |received| {
        let gone = gone.clone();
        async move {
            let (say, response) = open_event_stream();
            say.send(event(&result(&received, json!(1)))).expect("it is read");
            tokio::spawn(async move {
                say.closed().await;
                let _test_over = gone.send(());
            });
            response
        }
    })
    .await;
    let mut is_gone = is_gone;
    let mut transport = transport_to(&server);
    transport.push(request(7, "tools/call"));
    assert_eq!(next_message(&mut transport).await["result"], 1);
    drive_until(&mut transport, is_gone.recv()).await.expect("the server notices");
}

#[tokio::test]
async fn a_batch_delivers_the_response_and_its_other_messages() {
    let server = TestServer::start(|received| async move {
        let other = json!({"jsonrpc": "2.0", "method": "notifications/message"});
        json_response(&json!([other, 5, result(&received, json!({}))]))
    })
    .await;
    let mut transport = transport_to(&server);
    transport.push(request(7, "tools/call"));
    assert_eq!(next_message(&mut transport).await["method"], "notifications/message");
    assert!(matches!(next(&mut transport).await, Ok(TransportEvent::Malformed(_))));
    assert_eq!(next_message(&mut transport).await["id"], 7);
}

#[tokio::test]
async fn a_response_with_another_id_is_not_the_response() {
    let server =
        TestServer::start(|_| async { json_response(&json!({"id": 8, "result": {}})) }).await;
    let mut transport = transport_to(&server);
    transport.push(request(7, "tools/call"));
    assert_eq!(next_message(&mut transport).await["id"], 8);
    assert_eq!(outcome(&mut transport).await, Err(TransportError::IncompleteResponse));
}

#[tokio::test]
async fn an_accepted_request_may_be_answered_on_the_get_stream() {
    let server = TestServer::start(|received| async move {
        if let Some(response) = session_response(&received) {
            return response;
        }
        match received.method == Method::POST {
            true => accepted(),
            false => event_stream(event(&json!({"id": 7, "result": {}}))),
        }
    })
    .await;
    let mut server = server;
    let mut transport = transport_to(&server);
    transport.push(request(1, "initialize"));
    next_message(&mut transport).await;
    transport.push(request(7, "tools/call"));
    let both = async { [server.next().await, server.next().await] };
    drive_until(&mut transport, both).await;
    transport.push(notification("notifications/initialized", &json!({})));
    assert_eq!(next_message(&mut transport).await["id"], 7);
}

#[tokio::test]
async fn authorization_errors_keep_their_status_whatever_the_body() {
    let unauthorized = |_| {
        let mut response = reply(401, "application/json", "{\"id\":7,\"error\":{\"code\":1}}");
        for challenge in ["Bearer resource_metadata=\"https://a/\"", "Basic realm=\"x\""] {
            let value = challenge.parse().expect("a value");
            response.headers_mut().append("www-authenticate", value);
        }
        response
    };
    let answer = error_response(&send_to(unauthorized).await.expect_err("a refusal"));
    let challenges =
        vec!["Bearer resource_metadata=\"https://a/\"".to_owned(), "Basic realm=\"x\"".to_owned()];
    let body = "{\"id\":7,\"error\":{\"code\":1}}".to_owned();
    assert_eq!(answer, HttpErrorResponse { status: 401, body, challenges, retry_after: None });

    let forbidden = |_| reply(403, "text/plain", "go\x1b[31m away\n");
    let answer = error_response(&send_to(forbidden).await.expect_err("a refusal"));
    assert_eq!((answer.status, answer.body.as_str()), (403, "go [31m away\n"));

    let gone = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32001,\"message\":\"gone\"}}";
    let no_session = |_| {
        reply(
            404,
            "application/json",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32001,\"message\":\"gone\"}}",
        )
    };
    let answer = error_response(&send_to(no_session).await.expect_err("a refusal"));
    assert_eq!((answer.status, answer.body.as_str()), (404, gone));
}

#[tokio::test]
async fn error_responses_keep_status_body_and_retry_after() {
    let busy = |_| {
        let mut response = reply(429, "text/plain", "slow down");
        response.headers_mut().insert("retry-after", "17".parse().expect("a value"));
        response
    };
    let answer = error_response(&send_to(busy).await.expect_err("a refusal"));
    assert_eq!((answer.status, answer.retry_after.as_deref()), (429, Some("17")));
    for code in [500u16, 503] {
        let html = move |_: ReceivedRequest| async move {
            reply(code, "text/html", "<h1>x</h1>".repeat(1000))
        };
        let server = TestServer::start(html).await;
        let answer = error_response(&send_to_target(server.target()).await.expect_err("a refusal"));
        assert_eq!((answer.status, answer.body.len()), (code, 2048));
        assert!(answer.body.starts_with("<h1>x</h1>"));
    }
}

#[tokio::test]
async fn a_json_rpc_error_is_the_response_whatever_the_status() {
    let with_id = |received: ReceivedRequest| {
        let error = json!({"id": received.body["id"], "error": {"code": -32600, "message": "no"}});
        reply(400, "application/json", error.to_string())
    };
    let expected = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32600, "message": "no"}});
    assert_eq!(send_to(with_id).await, Ok(expected.clone()));
    let without_id = |_| {
        let error = json!({"id": null, "error": {"code": -32600, "message": "no"}});
        reply(500, "application/json; charset=utf-8", error.to_string())
    };
    assert_eq!(send_to(without_id).await, Ok(expected));
    let no_posts = |_| reply(405, "application/json", "{\"id\":null,\"error\":{\"code\":-32000}}");
    assert_eq!(error_response(&send_to(no_posts).await.expect_err("a refusal")).status, 405);
    let of_another = |_| reply(400, "application/json", "{\"id\":8,\"error\":{\"code\":1}}");
    assert_eq!(error_response(&send_to(of_another).await.expect_err("a refusal")).status, 400);
    let of_no_protocol = |_| reply(422, "application/json", "{\"detail\":\"?\"}");
    let answer = error_response(&send_to(of_no_protocol).await.expect_err("a refusal"));
    assert_eq!((answer.status, answer.body.as_str()), (422, "{\"detail\":\"?\"}"));
}

#[tokio::test]
async fn a_web_page_is_not_an_mcp_server() {
    let page = |_| reply(200, "text/html; charset=utf-8", "<html>hello");
    let expected = TransportError::NotMcp {
        content_type: "text/html; charset=utf-8".to_owned(),
        body_prefix: "<html>hello".to_owned(),
    };
    assert_eq!(send_to(page).await, Err(expected));
    let wrong = |_| reply(200, "application/json", "<html>");
    let expected = TransportError::NotMcp {
        content_type: "application/json".to_owned(),
        body_prefix: "<html>".to_owned(),
    };
    assert_eq!(send_to(wrong).await, Err(expected));
    // A server that forgets to say what it sends is understood all the same.
    let untyped =
        |received: ReceivedRequest| reply(200, "", result(&received, json!({})).to_string());
    assert_eq!(send_to(untyped).await, Ok(json!({"jsonrpc": "2.0", "id": 7, "result": {}})));
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_with_method_and_body() {
    let mut server = TestServer::start(|received| async move {
        match received.uri.as_str() {
            "/mcp" => {
                let mut response = reply(307, "", "");
                response.headers_mut().insert("location", "/there".parse().expect("a value"));
                response
            }
            _ => json_response(&result(&received, json!({}))),
        }
    })
    .await;
    assert!(send_to_target(server.target()).await.is_ok());
    let (first, second) = (server.next().await, server.next().await);
    assert_eq!((second.uri.as_str(), &second.method), ("/there", &Method::POST));
    assert_eq!((&second.body, &second.headers), (&first.body, &first.headers));
}

fn redirecting(
    code: u16,
    to: String,
) -> impl Fn(ReceivedRequest) -> std::future::Ready<Response> + Clone {
    move |_| {
        let mut response = reply(code, "", "");
        response.headers_mut().insert("location", to.parse().expect("a value"));
        std::future::ready(response)
    }
}

#[tokio::test]
async fn a_redirect_that_drops_the_body_or_loops_is_a_status_error() {
    for code in [301, 302, 303] {
        let mut server = TestServer::start(redirecting(code, "/there".to_owned())).await;
        let fault = send_to_target(server.target()).await.expect_err("a refusal");
        assert_eq!(error_response(&fault).status, code);
        server.next().await;
        assert!(server.requests.try_recv().is_err());
    }
    let mut server = TestServer::start(redirecting(308, "/again".to_owned())).await;
    let fault = send_to_target(server.target()).await.expect_err("a refusal");
    assert_eq!(error_response(&fault).status, 308);
    for _ in 0..6 {
        server.next().await;
    }
    assert!(server.requests.try_recv().is_err());
}

#[tokio::test]
async fn nothing_is_sent_to_another_origin() {
    let mut other = TestServer::start(|_| async { accepted() }).await;
    for code in [301, 302, 303, 307, 308] {
        let to = other.url("/mcp?secret=1");
        let server = TestServer::start(redirecting(code, to.to_string())).await;
        let to = format!("http://{}", other.address);
        assert_eq!(
            send_to_target(server.target()).await,
            Err(TransportError::CrossOriginRedirect { to })
        );
    }
    let server = TestServer::start(redirecting(307, "file:///etc/passwd".to_owned())).await;
    let to = "file:".to_owned();
    assert_eq!(
        send_to_target(server.target()).await,
        Err(TransportError::CrossOriginRedirect { to })
    );
    assert!(other.requests.try_recv().is_err(), "the other origin was never asked");
}

#[tokio::test]
async fn responses_are_accepted_up_to_the_limit() {
    let large = |received: ReceivedRequest| async move {
        json_response(&result(&received, json!("x".repeat(10_000_000))))
    };
    let server = TestServer::start(large).await;
    let answer = send_to_target(server.target()).await.expect("an answer");
    assert_eq!(answer["result"].as_str().map(str::len), Some(10_000_000));
    let limit = 1_000_000;
    let too_large = Err(TransportError::TooLarge { limit });
    assert_eq!(send_to_target(server.target().max_message_size(limit)).await, too_large);
    let unannounced = |_: ReceivedRequest| async {
        let parts = futures_util::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4096]))
        });
        reply(200, "application/json", Body::from_stream(parts))
    };
    let server = TestServer::start(unannounced).await;
    assert_eq!(send_to_target(server.target().max_message_size(limit)).await, too_large);
    let endless_event = |_: ReceivedRequest| async {
        let parts = futures_util::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4096]))
        });
        reply(200, "text/event-stream", Body::from_stream(parts))
    };
    let server = TestServer::start(endless_event).await;
    assert_eq!(send_to_target(server.target().max_message_size(limit)).await, too_large);
}

fn target_at(address: std::net::SocketAddr) -> Target {
    Target::new(Url::parse(&format!("http://{address}/mcp")).expect("a URL"))
}

fn unreachable_reason(outcome: Result<Value, TransportError>) -> UnreachableReason {
    match outcome {
        Err(TransportError::Unreachable { reason: why, detail }) => {
            assert!(!detail.is_empty() && !detail.contains("secret"), "{detail}");
            why
        }
        other => panic!("it cannot be reached: {other:?}"),
    }
}

#[tokio::test]
async fn closed_and_missing_servers_are_distinguished() {
    let cut =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"id\":7";
    let address = raw_server(&[
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"id\":7",
    ])
    .await;
    assert_eq!(
        send_to_target(target_at(address)).await,
        Err(TransportError::IncompleteResponse),
        "{cut}"
    );
    let address = raw_server(&[""]).await;
    assert_eq!(
        unreachable_reason(send_to_target(target_at(address)).await),
        UnreachableReason::Reset
    );
    let address = raw_server(&["SSH-2.0-OpenSSH_9.9\r\n"]).await;
    assert_eq!(
        unreachable_reason(send_to_target(target_at(address)).await),
        UnreachableReason::Other
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    assert_eq!(
        unreachable_reason(send_to_target(target_at(address)).await),
        UnreachableReason::Refused
    );
    let url = Url::parse("http://user:secret@nowhere.invalid/mcp?secret").expect("a URL");
    assert_eq!(
        unreachable_reason(send_to_target(Target::new(url)).await),
        UnreachableReason::NameResolution
    );
}

#[tokio::test]
async fn a_failed_notification_has_no_id() {
    let server = TestServer::start(|_| async { reply(500, "", "") }).await;
    let mut transport = transport_to(&server);
    transport.push(notification("notifications/roots/list_changed", &json!({})));
    let Ok(TransportEvent::DeliveryFailed { id: None, error }) = next(&mut transport).await else {
        panic!("it is lost");
    };
    assert_eq!(error_response(&error).status, 500);
}

#[tokio::test]
async fn sixty_four_calls_run_at_once_and_complete_in_any_order() {
    const CALLS: usize = 64;
    // Nobody is answered before everybody has asked, and the last to ask is the first to be answered.
    let all_here = Arc::new(Barrier::new(CALLS));
    let turn = Arc::new(tokio::sync::watch::Sender::new(CALLS as u64));
    let server = TestServer::start(move |received| {
        let (all_here, turn) = (all_here.clone(), turn.clone());
        async move {
            let number = received.body["params"]["number"].as_u64().expect("a number");
            all_here.wait().await;
            turn.subscribe().wait_for(|turn| *turn == number + 1).await.expect("its turn comes");
            turn.send_replace(number);
            match number % 2 {
                0 => json_response(&result(&received, json!(number))),
                _ => event_stream(event(&result(&received, json!(number)))),
            }
        }
    })
    .await;
    let connection = Peer::spawn(transport_to(&server));
    let calls: FuturesUnordered<_> = (0..CALLS as u64)
        .map(|number| {
            let call =
                connection.peer.call("tools/call").params(payload(&json!({"number": number})));
            async move { (number, call.timeout(TEST_TIMEOUT).await) }
        })
        .collect();
    let answers: Vec<_> = calls.collect().await;
    assert_eq!(answers.len(), CALLS);
    for (number, answer) in answers {
        assert_eq!(answer, Ok(payload(&json!(number))));
    }
}

#[tokio::test]
async fn many_slow_exchanges_apply_backpressure_and_few_do_not() {
    let server = TestServer::start(|_| std::future::pending()).await;
    let mut transport = transport_to(&server);
    for id in 0..64 {
        transport.push(modern_request(id, "tools/call"));
    }
    assert!(transport.queued_bytes() < 512 * 1024);
    for id in 64..256 {
        transport.push(modern_request(id, "tools/call"));
    }
    assert!(transport.queued_bytes() >= 1024 * 1024);
    for id in 0..256 {
        transport.push(notification("notifications/cancelled", &json!({"requestId": id})));
    }
    assert_eq!(transport.queued_bytes(), 0);
}

/// A server that never answers, and tells when it is left.
async fn unresponsive_server() -> (TestServer, mpsc::UnboundedReceiver<()>) {
    struct NotifyOnDrop(mpsc::UnboundedSender<()>);
    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            let _test_over = self.0.send(());
        }
    }
    let (disconnected, is_disconnected) = mpsc::unbounded_channel();
    let server = TestServer::start(move |received| {
        let disconnected = disconnected.clone();
        async move {
            if let Some(response) = session_response(&received) {
                return response;
            }
            if received.rpc_method().is_empty()
                || received.rpc_method().starts_with("notifications/")
            {
                return accepted();
            }
            let _tell = NotifyOnDrop(disconnected);
            std::future::pending().await
        }
    })
    .await;
    (server, is_disconnected)
}

#[tokio::test]
async fn dropping_a_modern_call_closes_its_request_without_a_notification() {
    let (mut server, mut is_disconnected) = unresponsive_server().await;
    let connection = Peer::spawn(transport_to(&server));
    let headers = *modern_request(0, "tools/call").headers.expect("headers");
    let call = connection.peer.call("tools/call").headers(headers);
    let call = tokio::spawn(call.into_future());
    server.next().await;
    call.abort();
    timeout(TEST_TIMEOUT, is_disconnected.recv())
        .await
        .expect("the server is left")
        .expect("it runs");
    assert!(server.requests.try_recv().is_err(), "nothing else was said");
}

#[tokio::test]
async fn dropping_a_legacy_call_sends_a_cancelled_notification() {
    let (mut server, mut is_disconnected) = unresponsive_server().await;
    let connection = Peer::spawn(transport_to(&server));
    let call = connection.peer.call("tools/call");
    let number = call.number();
    let call = tokio::spawn(call.into_future());
    server.next().await;
    call.abort();
    let cancelled = server.next().await;
    assert_eq!(cancelled.rpc_method(), "notifications/cancelled");
    assert_eq!(cancelled.body["params"]["requestId"], number);
    timeout(TEST_TIMEOUT, is_disconnected.recv())
        .await
        .expect("the server is left")
        .expect("it runs");
}

#[tokio::test]
async fn a_failed_call_has_a_reason_and_the_connection_stays_open() {
    let server = TestServer::start(|received| async move {
        match received.rpc_method() {
            "bad" => reply(500, "", ""),
            _ => json_response(&result(&received, json!(1))),
        }
    })
    .await;
    let connection = Peer::spawn(transport_to(&server));
    match connection.peer.call("bad").await {
        Err(CallError::Transport(fault)) => assert_eq!(fault.status(), Some(500)),
        other => panic!("it is lost: {other:?}"),
    }
    assert_eq!(connection.peer.call("good").await, Ok(payload(&json!(1))));
}

/// Counts how often it was asked.
struct Tokens(AtomicUsize);

impl Authorize for Tokens {
    fn headers<'a>(&'a self, _: OutboundRequest<'a>) -> HeadersFuture<'a> {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        let value = format!("Bearer {number}").parse().expect("a value");
        Box::pin(async move { HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]) })
    }

    fn on_unauthorized<'a>(&'a self, refusal: ResponseHead<'a>) -> RetryFuture<'a> {
        let is_shown =
            refusal.authorization.is_some_and(|shown| shown.as_bytes().starts_with(b"Bearer"));
        let is_challenged = refusal.headers.contains_key("www-authenticate");
        let verdict = match refusal.status == 401 && is_shown && is_challenged {
            true => RetryDecision::Retry,
            false => RetryDecision::GiveUp,
        };
        Box::pin(async move { verdict })
    }
}

#[tokio::test]
async fn an_unauthorized_request_is_retried_while_the_authorizer_says_so() {
    for (good_from, expected) in [("Bearer 2", None), ("never", Some(401))] {
        let mut server = TestServer::start(move |received| async move {
            match received.header("authorization") == good_from {
                true => json_response(&result(&received, json!({}))),
                false => {
                    let mut turned_away = reply(401, "", "");
                    let challenge = "Bearer".parse().expect("a value");
                    turned_away.headers_mut().insert("www-authenticate", challenge);
                    turned_away
                }
            }
        })
        .await;
        let tokens = Arc::new(Tokens(AtomicUsize::new(0)));
        let asked = send_to_target(server.target().authorize(tokens.clone())).await;
        match expected {
            None => assert!(asked.is_ok(), "{asked:?}"),
            Some(status) => {
                assert_eq!(asked.err().and_then(|fault| fault.status()), Some(status));
                assert_eq!(tokens.0.load(Ordering::SeqCst), 4);
            }
        }
        assert_eq!(server.next().await.header("authorization"), "Bearer 0");
    }
}

#[tokio::test]
async fn an_unauthorized_request_without_new_credentials_fails_at_once() {
    let server = TestServer::start(|_| async move { reply(403, "", "") }).await;
    let tokens = Arc::new(Tokens(AtomicUsize::new(0)));
    let asked = send_to_target(server.target().authorize(tokens.clone())).await;
    assert_eq!(asked.err().and_then(|fault| fault.status()), Some(403));
    assert_eq!(tokens.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn every_request_gets_the_current_authorization() {
    let mut server =
        TestServer::start(|received| async move { json_response(&result(&received, json!({}))) })
            .await;
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer fixed".parse().expect("a value"));
    let target = server.target().headers(headers).authorize(Arc::new(Tokens(AtomicUsize::new(0))));
    let mut transport = StreamableHttpTransport::new(http_client(), target);
    for number in 0..2 {
        transport.push(request(number, "tools/list"));
        next_message(&mut transport).await;
        assert_eq!(server.next().await.header("authorization"), format!("Bearer {number}"));
    }
}

#[tokio::test]
async fn url_credentials_become_basic_auth_unless_a_header_overrides_them() {
    let mut server =
        TestServer::start(|received| async move { json_response(&result(&received, json!({}))) })
            .await;
    let url = format!("http://me:p%40ss@{}/mcp", server.address);
    let target = Target::new(Url::parse(&url).expect("a URL"));
    assert_eq!(target.url(), &server.url("/mcp"));
    assert!(send_to_target(target.clone()).await.is_ok());
    assert_eq!(server.next().await.header("authorization"), "Basic bWU6cEBzcw==");
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer x".parse().expect("a value"));
    assert!(send_to_target(target.headers(headers)).await.is_ok());
    assert_eq!(server.next().await.header("authorization"), "Bearer x");
}

#[tokio::test]
async fn pending_notifications_are_sent_before_the_session_is_deleted() {
    let mut server = TestServer::start(|received| async move {
        session_response(&received).unwrap_or_else(|| match received.method == Method::GET {
            true => reply(405, "", ""),
            false => accepted(),
        })
    })
    .await;
    let connection = Peer::spawn(transport_to(&server));
    connection.peer.call("initialize").await.expect("an answer");
    connection.peer.notify("notifications/initialized", None).await.expect("it is taken");
    connection.peer.notify("notifications/last", None).await.expect("it is taken");
    drop(connection.peer);
    connection.task.await.expect("it ends");
    let mut received = Vec::new();
    while let Ok(next) = server.requests.try_recv() {
        received.push((next.method.to_string(), next.rpc_method().to_owned()));
    }
    assert!(
        received.contains(&("POST".to_owned(), "notifications/last".to_owned())),
        "{received:?}"
    );
    assert_eq!(received.last(), Some(&("DELETE".to_owned(), String::new())));
}

#[tokio::test]
async fn a_call_to_next_may_be_dropped_at_any_time() {
    let server = TestServer::start(|received| async move {
        let parts: Vec<_> = (0..50)
            .map(|number| event(&json!({"jsonrpc": "2.0", "method": format!("n{number}")})))
            .chain([event(&result(&received, json!("end")))])
            .map(|text| Ok::<_, std::io::Error>(Bytes::from(text)))
            .collect();
        reply(200, "text/event-stream", Body::from_stream(futures_util::stream::iter(parts)))
    })
    .await;
    let mut transport = transport_to(&server);
    transport.push(request(7, "tools/call"));
    let mut methods = Vec::new();
    loop {
        let arrival = tokio::select! {
            biased;
            arrival = transport.next() => arrival,
            () = tokio::task::yield_now() => continue,
        };
        match arrival {
            Ok(TransportEvent::RelatedMessage {
                message: Message::Notification { method, .. },
                ..
            }) => {
                methods.push(method);
            }
            Ok(TransportEvent::Message(_)) => break,
            other => panic!("a message was expected: {other:?}"),
        }
    }
    let expected: Vec<_> = (0..50).map(|number| format!("n{number}")).collect();
    assert_eq!(methods, expected);
}
