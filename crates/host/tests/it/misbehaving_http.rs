//! Servers at URLs that misbehave when they are connected to: what becomes of each, and what is said of it.

use std::collections::BTreeMap;
use std::net::TcpListener;

use switchboard::connection::Status;
use switchboard::failure::{Evidence, FailureKind};
use switchboard::wire::transport_error::UnreachableReason;
use testkit::{Quirk, Script, ScriptedServer};

use crate::support::{TestHost, cause, is_connected, remote};

fn answering(status: u16, body: &str, headers: &[(&str, &str)]) -> ScriptedServer {
    let headers: BTreeMap<String, String> =
        headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let body = body.to_owned();
    let quirk = Quirk::HttpStatus { status, body, headers, after: 0, times: None };
    ScriptedServer::http(Script::both().quirk(quirk))
}

#[tokio::test]
async fn every_way_to_say_no_over_http_is_told_from_the_others() {
    let elsewhere = ScriptedServer::http(Script::both());
    let sends_away = ScriptedServer::http(
        Script::both().quirk(Quirk::RedirectsTo { url: elsewhere.url().to_owned() }),
    );
    let origin = elsewhere.url().trim_end_matches("/mcp").to_owned();
    let html = [("content-type", "text/html")];
    let odd = "\u{0}\u{1b}[31m<not json>";
    let cases = [
        ("forbidden", answering(403, "no", &[]), FailureKind::Forbidden),
        ("absent", answering(404, "", &[]), FailureKind::NotFound),
        ("busy", answering(429, "later", &[("retry-after", "17")]), FailureKind::Overloaded),
        ("broken", answering(500, "{\"error\":", &[]), FailureKind::ServerError(500)),
        ("away", answering(503, odd, &html), FailureKind::ServerError(503)),
        ("teapot", answering(418, "", &[]), FailureKind::HttpStatus(418)),
        ("page", answering(200, "<!doctype html><p>Welcome", &html), FailureKind::NotMcp),
        ("sends-away", sends_away, FailureKind::CrossOriginRedirect(origin)),
    ];
    let test_host = TestHost::without_retries();
    let servers: Vec<(&str, String)> =
        cases.iter().map(|(name, served, _)| (*name, remote("http", served.url()))).collect();
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
async fn what_cannot_be_reached_says_how_far_we_came() {
    let test_host = TestHost::without_retries();
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let nobody = format!("127.0.0.1:{port}/mcp");
    test_host
        .apply(&[
            ("http", remote("http", &format!("http://{nobody}"))),
            ("sse", remote("sse", &format!("http://{nobody}"))),
            ("ws", remote("ws", &format!("ws://{nobody}"))),
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
async fn a_login_that_is_wanted_is_remembered_until_somebody_asks_again() {
    let challenge = [("www-authenticate", "Bearer realm=\"x\"")];
    let served = answering(401, "", &challenge);
    let servers = [("walled", remote("http", served.url()))];
    let test_host = TestHost::new();
    test_host.apply(&servers).await;
    let view = test_host.view("walled").await;
    assert!(matches!(view.status, Status::NeedsAuth(_)), "{view:#?}");
    let challenge = Evidence::Challenge("Bearer realm=\"x\"".to_owned());
    assert!(cause(&view).evidence.contains(&challenge), "{view:#?}");
    let folder = test_host.folder.clone();
    test_host.stop().await;
    let asked = served.requests().len();

    let second = TestHost::in_folder(folder.clone(), |_| {});
    second.apply(&servers).await;
    let view = second.view("walled").await;
    assert!(matches!(view.status, Status::NeedsAuth(_)), "{view:#?}");
    assert_eq!(served.requests().len(), asked, "nobody is asked");
    let called = second.call_idempotent("walled", "echo", serde_json::json!({})).await;
    assert!(called.is_err(), "{called:?}");
    assert_eq!(served.requests().len(), asked, "nobody is asked");

    let served = served.restart(Script::both());
    second.host.reconnect("walled").await.expect("there is one");
    second.view_when("walled", is_connected).await;
    second.stop().await;
    drop(served.requests());

    let third = TestHost::in_folder(folder, |_| {});
    third.apply(&servers).await;
    let view = third.view("walled").await;
    assert!(is_connected(&view), "{view:#?}");
    third.stop().await;
}
