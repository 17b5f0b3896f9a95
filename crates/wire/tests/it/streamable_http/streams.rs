//! Event streams: resumption, and messages besides the response.

use super::*;

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
    // Without an event id the stream cannot be resumed.
    assert_eq!(
        send_to(|_| broken_event_stream("data: {\"method\":\n")).await,
        Err(TransportError::IncompleteResponse)
    );
    assert_eq!(
        send_to(|_| event_stream(": nothing\n\n")).await,
        Err(TransportError::IncompleteResponse)
    );
    // The server does not allow GET.
    let refusing = |received: ReceivedRequest| match received.method == Method::POST {
        true => event_stream("id: 1\nretry: 10\ndata:\n\n"),
        false => reply(405, "", ""),
    };
    assert_eq!(send_to(refusing).await, Err(TransportError::IncompleteResponse));
    // Streams of the modern era are never resumed.
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
        let server_request = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
        let parts =
            [&progress, &server_request, &progress, &result(&received, json!("x"))].map(event);
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
