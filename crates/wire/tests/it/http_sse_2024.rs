//! The HTTP transport of protocol version 2024-11-05, with one event stream.

use std::time::Duration;

use axum::response::Response;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use switchboard_wire::jsonrpc::message::RequestId;
use switchboard_wire::peer::Peer;
use switchboard_wire::transport::http_sse_2024::HttpSseTransport;
use switchboard_wire::transport::{CloseReason, Transport, TransportEvent};
use switchboard_wire::transport_error::TransportError;
use tokio::sync::{mpsc, watch};

use crate::test_server::*;

/// A server with this endpoint that responds to every request on its stream.
async fn echo(endpoint: &'static str) -> TestServer {
    let (stream, _) = watch::channel(None::<mpsc::UnboundedSender<String>>);
    TestServer::start(move |received| {
        let stream = stream.clone();
        async move {
            if received.method == Method::GET {
                let (events, response) = open_event_stream();
                events
                    .send(format!(": hello\n\nevent: endpoint\ndata: {endpoint}\n\n"))
                    .expect("it is read");
                stream.send_replace(Some(events));
                return response;
            }
            if !received.body["id"].is_null() {
                let events = stream.borrow().clone().expect("the stream is open");
                let text = event(&result(&received, received.body["params"].clone()));
                events.send(text).expect("it is read");
            }
            reply(202, "text/plain", "Accepted")
        }
    })
    .await
}

#[tokio::test]
async fn requests_are_posted_to_the_endpoint_and_answered_on_the_stream() {
    for endpoint in ["/messages?session=1", "messages?session=1"] {
        let mut server = echo(endpoint).await;
        let mut headers = HeaderMap::new();
        headers.insert("x-key", "secret".parse().expect("a value"));
        let connection =
            Peer::spawn(HttpSseTransport::new(http_client(), server.target().headers(headers)));
        let params = payload(&json!({"a": 1}));
        let call = connection.peer.call("tools/call").params(params.clone());
        assert_eq!(call.timeout(TEST_TIMEOUT).await, Ok(params));
        let opening = server.next().await;
        assert_eq!(opening.header("accept"), "text/event-stream");
        let post = server.next().await;
        assert_eq!(post.uri, "/messages?session=1");
        assert_eq!(post.header("content-type"), "application/json");
        assert_eq!((opening.header("x-key"), post.header("x-key")), ("secret", "secret"));
    }
}

#[tokio::test]
async fn pending_notifications_are_sent_on_close() {
    let mut server = echo("/messages").await;
    let connection = Peer::spawn(HttpSseTransport::new(http_client(), server.target()));
    connection.peer.call("ping").timeout(TEST_TIMEOUT).await.expect("an answer");
    connection.peer.notify("notifications/last", None).await.expect("it is taken");
    drop(connection.peer);
    connection.task.await.expect("it ends");
    let (_, _) = (server.next().await, server.next().await);
    assert_eq!(server.next().await.rpc_method(), "notifications/last");
}

/// How a transport to a server with this response closes.
async fn end_of(play: fn(ReceivedRequest) -> Response) -> (CloseReason, TestServer) {
    let server = TestServer::start(move |received| async move { play(received) }).await;
    let mut transport = HttpSseTransport::new(http_client(), server.target());
    transport.push(request(1, "initialize"));
    loop {
        match next(&mut transport).await {
            Ok(_) => {}
            Err(end) => return (end, server),
        }
    }
}

#[tokio::test]
async fn a_stream_that_cannot_be_opened_closes_the_transport() {
    let refused = end_of(|_| reply(401, "text/plain", "no")).await.0;
    assert_eq!(error_response(transport_error(&refused)).status, 401);
    let page = end_of(|_| reply(200, "text/html", "<html>")).await.0;
    assert_eq!(not_mcp_content_type(transport_error(&page)), "text/html");
    let silent = end_of(|_| event_stream(": nothing\n\n")).await.0;
    assert_eq!(silent, CloseReason::Transport(TransportError::IncompleteResponse));
}

#[tokio::test]
async fn an_endpoint_of_another_origin_is_refused() {
    let (end, mut server) =
        end_of(|_| event_stream("event: endpoint\ndata: https://elsewhere.invalid/x?y\n\n")).await;
    let to = "https://elsewhere.invalid".to_owned();
    assert_eq!(end, CloseReason::Transport(TransportError::CrossOriginRedirect { to }));
    server.next().await;
    assert!(server.requests.try_recv().is_err(), "nothing was posted");
}

#[tokio::test]
async fn a_stream_that_ends_closes_the_transport_after_its_messages() {
    let ended = |received: ReceivedRequest| match received.method == Method::GET {
        true => event_stream(
            "event: endpoint\ndata: /x\n\nevent: message\ndata: {\"method\":\"a\"}\n\n",
        ),
        false => accepted(),
    };
    assert_eq!(end_of(ended).await.0, CloseReason::Closed);
    let server = TestServer::start(|_| async {
        broken_event_stream("event: endpoint\ndata: /x\n\ndata: {\"method\":\"a\"}\n\ndata: {\"met")
    })
    .await;
    let mut transport = HttpSseTransport::new(http_client(), server.target());
    assert_eq!(next_message(&mut transport).await["method"], "a");
    assert_eq!(
        next(&mut transport).await,
        Err(CloseReason::Transport(TransportError::IncompleteResponse))
    );
    assert_eq!(
        next(&mut transport).await,
        Err(CloseReason::Transport(TransportError::IncompleteResponse)),
        "and stays ended"
    );
}

#[tokio::test]
async fn a_rejected_message_fails_and_the_transport_stays_open() {
    let server = TestServer::start(|received| async move {
        match (received.method == Method::GET, received.rpc_method()) {
            (true, _) => {
                let (events, response) = open_event_stream();
                events.send("event: endpoint\ndata: /x\n\n".to_owned()).expect("it is read");
                tokio::spawn(async move { events.closed().await });
                response
            }
            (false, "bad") => reply(503, "text/plain", "busy"),
            (false, _) => reply(400, "", ""),
        }
    })
    .await;
    let mut transport = HttpSseTransport::new(http_client(), server.target());
    transport.push(request(5, "bad"));
    match next(&mut transport).await {
        Ok(TransportEvent::DeliveryFailed { id: Some(RequestId::Number(5)), error }) => {
            assert_eq!(error.status(), Some(503));
        }
        other => panic!("it is lost: {other:?}"),
    }
    transport.push(notification("x", &Value::Null));
    match next(&mut transport).await {
        Ok(TransportEvent::DeliveryFailed { id: None, error }) => {
            assert_eq!(error.status(), Some(400))
        }
        other => panic!("it is lost: {other:?}"),
    }
    assert_eq!(transport.queued_bytes(), 0);
}

#[tokio::test]
async fn messages_pushed_before_the_endpoint_are_queued() {
    let (let_go, go) = watch::channel(());
    let mut server = TestServer::start(move |received| {
        let mut go = go.clone();
        async move {
            if received.method == Method::POST {
                return accepted();
            }
            go.changed().await.expect("the test lets go");
            let (events, response) = open_event_stream();
            events.send("event: endpoint\ndata: /x\n\n".to_owned()).expect("it is read");
            tokio::spawn(async move { events.closed().await });
            response
        }
    })
    .await;
    let mut transport = HttpSseTransport::new(http_client(), server.target());
    for number in 0..3 {
        transport.push(request(number, "ping"));
    }
    assert!(transport.queued_bytes() > 0);
    drive_until(&mut transport, server.next()).await;
    assert!(server.requests.try_recv().is_err());
    let_go.send_replace(());
    for _ in 0..3 {
        assert_eq!(drive_until(&mut transport, server.next()).await.rpc_method(), "ping");
    }
    while transport.queued_bytes() > 0 {
        let short = Duration::from_millis(10);
        let nothing = tokio::time::timeout(short, transport.next()).await;
        assert!(nothing.is_err(), "nothing arrives: {nothing:?}");
    }
}

#[tokio::test]
async fn an_unacknowledged_message_fails_after_a_minute() {
    let mut server = TestServer::start(|received| async move {
        if received.method == Method::POST {
            std::future::pending::<()>().await;
        }
        let (events, response) = open_event_stream();
        events.send("event: endpoint\ndata: /x\n\n".to_owned()).expect("it is read");
        tokio::spawn(async move { events.closed().await });
        response
    })
    .await;
    let mut transport = HttpSseTransport::new(http_client(), server.target());
    transport.push(request(5, "ping"));
    drive_until(&mut transport, async { (server.next().await, server.next().await) }).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::time::resume();
    let fault = TransportError::Timeout(Duration::from_secs(60));
    let lost = TransportEvent::DeliveryFailed { id: Some(RequestId::Number(5)), error: fault };
    assert_eq!(next(&mut transport).await, Ok(lost));
}
