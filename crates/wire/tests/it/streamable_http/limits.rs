//! Size limits, parallel calls and backpressure.

use super::*;

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

#[tokio::test]
async fn sixty_four_calls_run_at_once_and_complete_in_any_order() {
    const CALLS: usize = 64;
    // No request is answered before all have arrived, and the last one is answered first.
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
