//! Credentials: renewed, current, and taken from the URL.

use super::*;

/// Counts its calls.
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
