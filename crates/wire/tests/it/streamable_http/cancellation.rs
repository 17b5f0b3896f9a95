//! Calls and waits that are dropped.

use super::*;

/// A server that never responds, and reports when the client disconnects.
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
    assert!(server.requests.try_recv().is_err(), "no other request was sent");
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
