//! Redirects within the origin and to another one.

use super::*;

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
