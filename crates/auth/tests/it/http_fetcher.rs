//! The HTTP fetcher: limits, redirects, and addresses that are not allowed.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request as Asked;
use axum::response::Response;
use switchboard_auth::fetch::origin_guard::{AllowedAddresses, CheckedUrl};
use switchboard_auth::fetch::{Fetch, FetchError, FetchRequest, MAX_RESPONSE_SIZE};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

use crate::auth_server::http_fetcher;

/// A server with one fault per path.
async fn start() -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let router = Router::new().fallback(|request: Asked| async move {
        let to = |status: u16, location: &str| {
            Response::builder()
                .status(status)
                .header("location", location)
                .body(Body::empty())
                .expect("a response")
        };
        match request.uri().path() {
            "/good" => Response::new(Body::from("good")),
            "/near" => to(302, "/good"),
            "/far" => to(302, "http://127.0.0.2:9/"),
            "/inside" => to(302, "http://169.254.169.254/latest"),
            "/file" => to(302, "file:///etc/passwd"),
            "/loop" => to(302, "/loop"),
            "/keep" => to(307, "/good"),
            "/large" => Response::new(Body::from(vec![b'x'; MAX_RESPONSE_SIZE + 1])),
            "/full" => Response::new(Body::from(vec![b'x'; MAX_RESPONSE_SIZE])),
            "/slow" => std::future::pending().await,
            _ => to(302, "::"),
        }
    });
    let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    (port, task)
}

fn at(host: &str, port: u16, path: &str, reach: AllowedAddresses) -> CheckedUrl {
    let url = Url::parse(&format!("http://{host}:{port}{path}")).expect("a URL");
    CheckedUrl { url, allowed: reach }
}

#[tokio::test]
async fn a_question_follows_within_its_origin_and_a_form_follows_nowhere() {
    let (port, _server) = start().await;
    let fetcher = http_fetcher();
    let here = |path| at("127.0.0.1", port, path, AllowedAddresses::Loopback);
    for path in ["/good", "/near", "/keep"] {
        let answer = fetcher.fetch(FetchRequest::get(here(path))).await.expect("an answer");
        assert_eq!(&answer.body[..], b"good", "{path}");
    }
    for path in ["/far", "/inside", "/file", "/loop", "/nowhere"] {
        let error = fetcher.fetch(FetchRequest::get(here(path))).await.expect_err("it stops there");
        assert!(matches!(error, FetchError::Redirected { .. }), "{path} {error}");
    }
    for path in ["/near", "/keep", "/far", "/loop"] {
        let form = FetchRequest::post_form(here(path), &[("client_secret", "canary")]);
        let error = fetcher.fetch(form).await.expect_err("it stops there");
        assert!(matches!(error, FetchError::Redirected { .. }), "{path} {error}");
        assert!(!error.to_string().contains("canary"));
    }
}

#[tokio::test]
async fn answers_are_bounded_in_size_and_time() {
    let (port, _server) = start().await;
    let fetcher = http_fetcher().with_timeout(Duration::from_millis(200));
    let fetch = |path| {
        fetcher.fetch(FetchRequest::get(at("127.0.0.1", port, path, AllowedAddresses::Loopback)))
    };
    assert!(matches!(fetch("/slow").await, Err(FetchError::TimedOut { .. })));
    let fetcher = crate::auth_server::http_fetcher();
    let fetch = |path| {
        fetcher.fetch(FetchRequest::get(at("127.0.0.1", port, path, AllowedAddresses::Loopback)))
    };
    assert!(matches!(fetch("/large").await, Err(FetchError::TooLarge { .. })));
    assert_eq!(fetch("/full").await.map(|answer| answer.body.len()), Ok(MAX_RESPONSE_SIZE));
}

#[tokio::test]
async fn a_name_that_resolves_to_loopback_is_refused_on_connect() {
    let (port, _server) = start().await;
    let fetcher = http_fetcher();
    let fetch = |reach| fetcher.fetch(FetchRequest::get(at("localhost", port, "/good", reach)));
    for reach in [AllowedAddresses::Public, AllowedAddresses::Private] {
        let error = fetch(reach).await.expect_err("out of reach");
        assert!(matches!(error, FetchError::PrivateAddress { .. }), "{error}");
    }
    for reach in [AllowedAddresses::Loopback, AllowedAddresses::Any] {
        assert!(fetch(reach).await.is_ok(), "{reach:?}");
    }
    // A connection of another address class is not reused.
    assert!(matches!(
        fetch(AllowedAddresses::Public).await,
        Err(FetchError::PrivateAddress { .. })
    ));
}
