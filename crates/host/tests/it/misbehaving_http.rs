//! Remote servers that misbehave during the connect: their status and the reported failure.

use std::collections::BTreeMap;
use std::net::TcpListener;

use switchboard::connection::Status;
use switchboard::wire::transport_error::UnreachableReason;
use switchboard::{Evidence, FailureKind};
use testkit::{Quirk, Script, ScriptedServer};

use crate::support::{TestHost, cause, is_connected, remote};

fn responding(status: u16, body: &str, headers: &[(&str, &str)]) -> ScriptedServer {
    let headers: BTreeMap<String, String> =
        headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let body = body.to_owned();
    let quirk = Quirk::HttpStatus { status, body, headers, after: 0, times: None };
    ScriptedServer::http(Script::both().quirk(quirk))
}

#[tokio::test]
async fn each_http_rejection_has_its_own_failure() {
    let elsewhere = ScriptedServer::http(Script::both());
    let sends_away = ScriptedServer::http(
        Script::both().quirk(Quirk::RedirectsTo { url: elsewhere.url().to_owned() }),
    );
    let origin = elsewhere.url().trim_end_matches("/mcp").to_owned();
    let html = [("content-type", "text/html")];
    let odd = "\u{0}\u{1b}[31m<not json>";
    let cases = [
        ("forbidden", responding(403, "no", &[]), FailureKind::Forbidden),
        ("absent", responding(404, "", &[]), FailureKind::NotFound),
        ("busy", responding(429, "later", &[("retry-after", "17")]), FailureKind::Overloaded),
        ("broken", responding(500, "{\"error\":", &[]), FailureKind::ServerError(500)),
        ("away", responding(503, odd, &html), FailureKind::ServerError(503)),
        ("teapot", responding(418, "", &[]), FailureKind::HttpStatus(418)),
        ("page", responding(200, "<!doctype html><p>Welcome", &html), FailureKind::NotMcp),
        ("sends-away", sends_away, FailureKind::CrossOriginRedirect(origin)),
    ];
    let test_host = TestHost::without_retries();
    let servers: Vec<(&str, String)> =
        cases.iter().map(|(name, server, _)| (*name, remote("http", server.url()))).collect();
    test_host.apply(&servers).await;
    let snapshot = test_host.settled().await;
    for (name, _, expected) in &cases {
        let view = &snapshot.servers[*name];
        assert!(matches!(view.status, Status::Failed(_)), "{name}: {view:#?}");
        assert_eq!(&cause(view).kind, expected, "{name}: {view:#?}");
    }
    let busy = cause(&snapshot.servers["busy"]);
    assert!(busy.evidence.contains(&Evidence::RetryAfter("17".to_owned())), "{busy:?}");
    assert!(busy.evidence.contains(&Evidence::Body("later".to_owned())), "{busy:?}");
    assert_eq!(elsewhere.requests(), []);
    test_host.stop().await;
}

#[tokio::test]
async fn unreachable_servers_report_the_failed_step() {
    let test_host = TestHost::without_retries();
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let closed_port = format!("127.0.0.1:{port}/mcp");
    test_host
        .apply(&[
            ("http", remote("http", &format!("http://{closed_port}"))),
            ("sse", remote("sse", &format!("http://{closed_port}"))),
            ("ws", remote("ws", &format!("ws://{closed_port}"))),
            ("nameless", remote("http", "http://no-such-host.invalid/mcp")),
        ])
        .await;
    let snapshot = test_host.settled().await;
    for (name, why) in [
        ("http", UnreachableReason::Refused),
        ("sse", UnreachableReason::Refused),
        ("ws", UnreachableReason::Refused),
        ("nameless", UnreachableReason::NameResolution),
    ] {
        let view = &snapshot.servers[name];
        assert_eq!(cause(view).kind, FailureKind::Unreachable(why), "{name}: {view:#?}");
    }
    test_host.stop().await;
}

#[tokio::test]
async fn a_refused_header_is_not_a_missing_login() {
    let server = responding(401, "", &[("www-authenticate", "Bearer")]);
    let entry = serde_json::json!({
        "type": "http", "url": server.url(), "headers": {"Authorization": "Bearer stale"},
    });
    let test_host = TestHost::without_retries();
    test_host.apply(&[("keyed", entry.to_string())]).await;
    let view = test_host.view("keyed").await;
    let headers = vec!["Authorization".to_owned()];
    assert_eq!(cause(&view).kind, FailureKind::HeaderRefused { headers }, "{view:#?}");
    assert!(matches!(view.status, Status::Failed(_)), "{view:#?}");
    assert_eq!(
        cause(&view).to_string(),
        "the server refused the header `Authorization` of its entry (HTTP 401)"
    );
    assert!(!format!("{view:?}").contains("stale"), "{view:?}");
    test_host.stop().await;
}

#[tokio::test]
async fn a_required_login_is_cached_until_a_reconnect() {
    let challenge = [("www-authenticate", "Bearer realm=\"x\"")];
    let server = responding(401, "", &challenge);
    let servers = [("walled", remote("http", server.url()))];
    let test_host = TestHost::new();
    test_host.apply(&servers).await;
    let view = test_host.view("walled").await;
    assert!(matches!(view.status, Status::NeedsAuth(_)), "{view:#?}");
    let challenge = Evidence::Challenge("Bearer realm=\"x\"".to_owned());
    assert!(cause(&view).evidence.contains(&challenge), "{view:#?}");
    let folder = test_host.folder.clone();
    test_host.stop().await;
    let request_count = server.requests().len();

    let second = TestHost::in_folder(folder.clone(), |_| {});
    second.apply(&servers).await;
    let view = second.view("walled").await;
    assert!(matches!(view.status, Status::NeedsAuth(_)), "{view:#?}");
    assert_eq!(server.requests().len(), request_count, "no request is sent");
    let called = second.call_idempotent("walled", "echo", serde_json::json!({})).await;
    assert!(called.is_err(), "{called:?}");
    assert_eq!(server.requests().len(), request_count, "no request is sent");

    let server = server.restart(Script::both());
    second.host.reconnect("walled").await.expect("there is one");
    second.view_when("walled", is_connected).await;
    second.stop().await;
    drop(server.requests());

    let third = TestHost::in_folder(folder, |_| {});
    third.apply(&servers).await;
    let view = third.view("walled").await;
    assert!(is_connected(&view), "{view:#?}");
    third.stop().await;
}
