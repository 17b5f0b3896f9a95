//! Sessions of the legacy era: their id, `notifications/initialized`, and their end.

use super::*;

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
    let [_, initialized] = drive_until(&mut transport, both).await;
    assert_eq!(initialized.rpc_method(), "notifications/initialized");
    assert!(server.requests.try_recv().is_err());
    let_go.send(()).expect("the server waits");
    assert_eq!(next_message(&mut transport).await["id"], 2);
    let mut methods = vec![
        server.next().await.rpc_method().to_owned(),
        server.next().await.rpc_method().to_owned(),
    ];
    methods.sort();
    // The GET has no body; the dropped request was never sent.
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
