//! Error responses, servers that are not MCP, and unreachable servers.

use super::*;

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
    // A response without a content type is accepted.
    let untyped =
        |received: ReceivedRequest| reply(200, "", result(&received, json!({})).to_string());
    assert_eq!(send_to(untyped).await, Ok(json!({"jsonrpc": "2.0", "id": 7, "result": {}})));
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
