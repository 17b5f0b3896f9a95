//! Calls, responses, timeouts, cancellation, floods and close, over an in-memory pair and over byte streams.

use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId, RpcError};
use switchboard_wire::peer::{CallError, Delivery, Peer, PeerEvent, Progress, SpawnedPeer};
use switchboard_wire::transport::in_memory;
use switchboard_wire::transport::in_memory::InMemoryTransport;
use switchboard_wire::transport::stdio::{DEFAULT_MAX_MESSAGE_SIZE, StdioTransport};
use switchboard_wire::transport::{CloseReason, Transport, TransportEvent};
use tokio::sync::mpsc;

fn payload(text: &str) -> Payload {
    Payload::from_json(Bytes::copy_from_slice(text.as_bytes()))
}

/// Responds to every request with its own parameters until the connection closes.
async fn echo(mut events: mpsc::Receiver<PeerEvent>) {
    while let Some(event) = events.recv().await {
        if let PeerEvent::Request(request) = event {
            let answer = request.params.clone().unwrap_or_else(|| payload("null"));
            request.respond(answer).await;
        }
    }
}

/// A peer, and the transport at its other end for a scripted server.
fn scripted() -> (SpawnedPeer, InMemoryTransport) {
    let (one, other) = in_memory::pair();
    (Peer::spawn(one), other)
}

/// The next message that the script receives.
async fn next_message(server: &mut InMemoryTransport) -> Message {
    match server.next().await {
        Ok(TransportEvent::Message(message)) => message,
        other => panic!("a message was expected: {other:?}"),
    }
}

/// The id of the next request that the script receives.
async fn next_request_id(server: &mut InMemoryTransport) -> RequestId {
    let message = next_message(server).await;
    let Message::Request { id, .. } = message else {
        panic!("a request was expected: {message:?}")
    };
    id
}

fn response(id: RequestId, text: &str) -> Message {
    Message::Response { id: Some(id), outcome: Ok(payload(text)) }
}

#[tokio::test]
async fn both_sides_send_requests_over_memory_and_over_bytes() {
    let (one, other) = in_memory::pair();
    let in_memory = (Peer::spawn(one), Peer::spawn(other));
    let (ours, theirs) = tokio::io::duplex(64);
    let over = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Peer::spawn(StdioTransport::new(reader, writer, DEFAULT_MAX_MESSAGE_SIZE))
    };
    let over_bytes = (over(ours), over(theirs));
    for (one, other) in [in_memory, over_bytes] {
        let listeners = [tokio::spawn(echo(one.events)), tokio::spawn(echo(other.events))];
        for peer in [&one.peer, &other.peer] {
            let long = format!("[\"{}\"]", "é".repeat(5000));
            let result = peer.call("echo").params(payload(&long)).await;
            assert_eq!(result, Ok(payload(&long)));
        }
        drop((one.peer, other.peer));
        for listener in listeners {
            listener.await.expect("it ends with the connection");
        }
    }
}

#[tokio::test]
async fn responses_match_their_requests_in_any_order() {
    let (connection, mut server) = scripted();
    let script = tokio::spawn(async move {
        let mut ids = Vec::new();
        for _ in 0..100 {
            ids.push(next_request_id(&mut server).await);
        }
        for id in ids.into_iter().rev() {
            let RequestId::Number(number) = id else { panic!("ours are numbers") };
            server.push(response(RequestId::Number(number), &number.to_string()).into());
        }
        let _until_it_ends = server.next().await;
    });
    let calls = (0..100).map(|_| {
        let call = connection.peer.call("x");
        let number = call.number();
        tokio::spawn(async move { (number, call.await) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (number, result) = call.await.expect("it does not panic");
        assert_eq!(result, Ok(payload(&number.to_string())));
    }
    drop(connection.peer);
    script.await.expect("the script ends");
}

#[tokio::test]
async fn an_error_response_is_returned_unchanged() {
    let (connection, mut server) = scripted();
    let call = tokio::spawn(connection.peer.call("x").into_future());
    let id = next_request_id(&mut server).await;
    let error = RpcError {
        code: -32602,
        message: "no such thing".to_owned(),
        data: Some(payload("{\"uri\": 1}")),
    };
    server.push(Message::Response { id: Some(id), outcome: Err(error.clone()) }.into());
    assert_eq!(call.await.expect("it does not panic"), Err(CallError::Remote(error)));
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_call_is_cancelled_and_its_late_response_is_unmatched() {
    let (connection, mut server) = scripted();
    let call =
        tokio::spawn(connection.peer.call("slow").timeout(Duration::from_secs(5)).into_future());
    let id = next_request_id(&mut server).await;
    assert_eq!(
        call.await.expect("it does not panic"),
        Err(CallError::Timeout(Duration::from_secs(5)))
    );
    let Message::Notification { method, params } = next_message(&mut server).await else {
        panic!("it is a notification")
    };
    assert_eq!(method, "notifications/cancelled");
    let params: serde_json::Value = params.expect("it has parameters").decode().expect("JSON");
    assert_eq!(params, serde_json::json!({"requestId": 1, "reason": "the request timed out"}));
    server.push(response(id.clone(), "1").into());
    server.push(response(id, "1").into());
    server.push(response(RequestId::Number(99), "1").into());
    server.push(response(RequestId::Other(Bytes::from_static(b"\"x\"")), "1").into());
    let next = tokio::spawn(connection.peer.call("next").into_future());
    let id = next_request_id(&mut server).await;
    server.push(response(id, "2").into());
    assert_eq!(next.await.expect("it does not panic"), Ok(payload("2")));
    drop((connection.peer, server));
    assert_eq!(connection.task.await.expect("it ends").unmatched_responses, 4);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_and_the_connection_stays_open() {
    let (connection, mut server) = scripted();
    let call = tokio::spawn(connection.peer.call("slow").into_future());
    next_request_id(&mut server).await;
    call.abort();
    let Message::Notification { method, .. } = next_message(&mut server).await else {
        panic!("it is a notification")
    };
    assert_eq!(method, "notifications/cancelled");
    let next = tokio::spawn(connection.peer.call("next").into_future());
    let id = next_request_id(&mut server).await;
    server.push(response(id, "2").into());
    assert_eq!(next.await.expect("it does not panic"), Ok(payload("2")));
}

#[tokio::test(start_paused = true)]
async fn progress_resets_the_timeout_and_reaches_its_receiver() {
    let (connection, mut server) = scripted();
    let (listener, mut updates) = mpsc::channel(8);
    let call = connection
        .peer
        .call("long")
        .progress_timeout(Duration::from_secs(5))
        .progress_sender(listener);
    let number = call.number();
    let call = tokio::spawn(call.into_future());
    let id = next_request_id(&mut server).await;
    let tokens = [number.to_string(), format!("\"{number}\""), number.to_string()];
    for (step, token) in tokens.iter().enumerate() {
        tokio::time::advance(Duration::from_secs(4)).await;
        let params = payload(&format!("{{\"progressToken\": {token}, \"progress\": {step}}}"));
        server.push(
            Message::Notification {
                method: "notifications/progress".into(),
                params: Some(params.clone()),
            }
            .into(),
        );
        assert_eq!(updates.recv().await, Some(Progress(params)));
    }
    server.push(response(id, "\"done\"").into());
    assert_eq!(call.await.expect("it does not panic"), Ok(payload("\"done\"")));
}

#[tokio::test(start_paused = true)]
async fn without_progress_the_call_times_out() {
    let (connection, mut server) = scripted();
    let limit = Duration::from_secs(5);
    let call = tokio::spawn(connection.peer.call("long").progress_timeout(limit).into_future());
    next_request_id(&mut server).await;
    assert_eq!(call.await.expect("it does not panic"), Err(CallError::Timeout(limit)));
}

#[tokio::test]
async fn a_closed_connection_tells_each_call_whether_it_was_sent() {
    let (connection, mut server) = scripted();
    let call = tokio::spawn(connection.peer.call("x").into_future());
    next_request_id(&mut server).await;
    drop(server);
    let ended = |sent| Err(CallError::Closed { reason: CloseReason::Closed, delivery: sent });
    assert_eq!(call.await.expect("it does not panic"), ended(Delivery::Unknown));
    assert_eq!(connection.peer.closed().await, CloseReason::Closed);
    assert_eq!(connection.peer.call("y").await, ended(Delivery::NotSent));
    assert_eq!(
        connection.peer.notify("z", None).await,
        Err(CallError::Closed { reason: CloseReason::Closed, delivery: Delivery::NotSent })
    );
}

#[tokio::test]
async fn a_ping_is_answered_without_an_event_receiver() {
    let (connection, mut server) = scripted();
    drop(connection.events);
    server.push(
        Message::Request {
            id: RequestId::Other(Bytes::from_static(b"\"p1\"")),
            method: "ping".into(),
            params: None,
        }
        .into(),
    );
    assert_eq!(
        next_message(&mut server).await,
        response(RequestId::Other(Bytes::from_static(b"\"p1\"")), "{}")
    );
    server.push(
        Message::Request { id: RequestId::Number(5), method: "roots/list".into(), params: None }
            .into(),
    );
    let Message::Response { outcome: Err(error), .. } = next_message(&mut server).await else {
        panic!("it is refused")
    };
    assert_eq!(error.code, -32603);
}

#[tokio::test]
async fn a_dropped_incoming_request_is_answered_with_an_error() {
    let (mut connection, mut server) = scripted();
    server.push(
        Message::Request { id: RequestId::Number(5), method: "roots/list".into(), params: None }
            .into(),
    );
    drop(connection.events.recv().await);
    let Message::Response { id, outcome: Err(_) } = next_message(&mut server).await else {
        panic!("it is an error")
    };
    assert_eq!(id, Some(RequestId::Number(5)));
}

#[tokio::test]
async fn a_storm_of_notifications_is_bounded_and_counted_and_holds_up_no_call() {
    let (connection, mut server) = scripted();
    for _ in 0..10_000 {
        server.push(
            Message::Notification {
                method: "notifications/tools/list_changed".into(),
                params: None,
            }
            .into(),
        );
    }
    let call = tokio::spawn(connection.peer.call("x").into_future());
    let id = next_request_id(&mut server).await;
    server.push(response(id, "1").into());
    let result = tokio::select! {
        result = call => result.expect("it does not panic"),
        end = server.next() => panic!("no other message is sent: {end:?}"),
    };
    assert_eq!(result, Ok(payload("1")));
    let received = connection.events.len();
    assert_eq!(received as u64 + connection.peer.dropped_notifications(), 10_000);
    drop((connection.peer, server, connection.events));
    let dropped = connection.task.await.expect("it ends").dropped_notifications;
    assert_eq!(received as u64 + dropped, 10_000);
    assert!(received <= 256);
}

#[tokio::test]
async fn two_peers_may_call_each_other_recursively() {
    let (one, other) = in_memory::pair();
    let (one, other) = (Peer::spawn(one), Peer::spawn(other));
    let deeper = |mut events: mpsc::Receiver<PeerEvent>, peer: Peer| {
        tokio::spawn(async move {
            while let Some(PeerEvent::Request(request)) = events.recv().await {
                let peer = peer.clone();
                tokio::spawn(async move {
                    let left: u64 =
                        request.params.as_ref().expect("a number").decode().expect("a number");
                    let result = match left {
                        0 => payload("\"bottom\""),
                        left => peer
                            .call("down")
                            .params(payload(&(left - 1).to_string()))
                            .await
                            .expect("an answer"),
                    };
                    request.respond(result).await;
                });
            }
        })
    };
    let _listeners =
        [deeper(one.events, one.peer.clone()), deeper(other.events, other.peer.clone())];
    assert_eq!(one.peer.call("down").params(payload("5000")).await, Ok(payload("\"bottom\"")));
}

#[tokio::test]
async fn a_peer_that_does_not_read_applies_backpressure() {
    let (reader, _keeps_it_open) = tokio::io::duplex(64);
    let (_never_read, writer) = tokio::io::duplex(64);
    let connection = Peer::spawn(StdioTransport::new(reader, writer, DEFAULT_MAX_MESSAGE_SIZE));
    let big = payload(&format!("\"{}\"", "x".repeat(100_000)));
    let mut accepted = 0;
    loop {
        let sending = connection.peer.notify("big", Some(big.clone()));
        match tokio::time::timeout(Duration::from_millis(50), sending).await {
            Ok(result) => result.expect("the connection is there"),
            Err(_) => break,
        }
        accepted += 1;
        assert!(accepted < 400, "the queue is endless");
    }
    assert!(accepted >= 10, "{accepted}");
}

#[tokio::test]
async fn pending_messages_are_flushed_on_close() {
    let (reader, _keeps_it_open) = tokio::io::duplex(64);
    let (mut other, writer) = tokio::io::duplex(16);
    let connection = Peer::spawn(StdioTransport::new(reader, writer, DEFAULT_MAX_MESSAGE_SIZE));
    connection.peer.notify("farewell", None).await.expect("it is there");
    drop(connection.peer);
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut other, &mut text).await.expect("it is text");
    assert_eq!(text, "{\"jsonrpc\":\"2.0\",\"method\":\"farewell\"}\n");
}

#[tokio::test]
async fn malformed_lines_are_counted_and_skipped() {
    let (ours, mut script) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(ours);
    let connection = Peer::spawn(StdioTransport::new(reader, writer, 1000));
    let call = tokio::spawn(connection.peer.call("x").into_future());
    let mut request = [0; 100];
    let length = tokio::io::AsyncReadExt::read(&mut script, &mut request).await.expect("a request");
    assert_eq!(&request[..length], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}\n");
    let text = b"npm warn something\n{\"broken\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    tokio::io::AsyncWriteExt::write_all(&mut script, text).await.expect("there is room");
    assert_eq!(call.await.expect("it does not panic"), Ok(payload("{}")));
    drop(script);
    assert_eq!(connection.task.await.expect("it ends").malformed_messages, 2);
}

#[tokio::test]
async fn responses_to_a_peer_that_does_not_read_are_bounded() {
    let (reader, mut script) = tokio::io::duplex(1 << 16);
    let (_never_read, writer) = tokio::io::duplex(64);
    let connection = Peer::spawn(StdioTransport::new(reader, writer, DEFAULT_MAX_MESSAGE_SIZE));
    let pings: String =
        (0..100_000).map(|n| format!("{{\"id\":{n},\"method\":\"ping\"}}\n")).collect();
    tokio::io::AsyncWriteExt::write_all(&mut script, pings.as_bytes()).await.expect("it is read");
    drop(script);
    let statistics = connection.task.await.expect("it ends");
    assert!(statistics.dropped_responses > 0, "{statistics:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_time_out_while_an_incoming_request_is_open() {
    let (mut connection, mut server) = scripted();
    let limit = Duration::from_secs(5);
    let call =
        tokio::spawn(connection.peer.call("tools/call").progress_timeout(limit).into_future());
    let id = next_request_id(&mut server).await;
    server.push(
        Message::Request {
            id: RequestId::Number(7),
            method: "elicitation/create".into(),
            params: None,
        }
        .into(),
    );
    let Some(PeerEvent::Request(request)) = connection.events.recv().await else {
        panic!("a request was expected")
    };
    // The user takes an hour. Time is paused, so the test does not wait.
    tokio::time::advance(Duration::from_secs(3600)).await;
    tokio::task::yield_now().await;
    assert!(!call.is_finished());
    request.respond(payload("{}")).await;
    let Message::Response { .. } = next_message(&mut server).await else {
        panic!("an answer was expected")
    };
    server.push(response(id, "\"done\"").into());
    assert_eq!(call.await.expect("no panic"), Ok(payload("\"done\"")));
}

#[tokio::test(start_paused = true)]
async fn a_call_times_out_once_the_incoming_request_is_answered() {
    let (mut connection, mut server) = scripted();
    let limit = Duration::from_secs(5);
    let call =
        tokio::spawn(connection.peer.call("tools/call").progress_timeout(limit).into_future());
    let _id = next_request_id(&mut server).await;
    server.push(
        Message::Request {
            id: RequestId::Number(7),
            method: "elicitation/create".into(),
            params: None,
        }
        .into(),
    );
    let Some(PeerEvent::Request(request)) = connection.events.recv().await else {
        panic!("a request was expected")
    };
    tokio::time::advance(Duration::from_secs(60)).await;
    request.respond(payload("{}")).await;
    assert_eq!(call.await.expect("no panic"), Err(CallError::Timeout(limit)));
}
