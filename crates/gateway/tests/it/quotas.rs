//! Quotas of calls: what is refused, how, and what the operator sees of it.

use std::time::Duration;

use serde_json::json;
use switchboard::audit::log;
use switchboard::config::permission::ToolRule;
use switchboard::config::settings::quotas::CallQuota;
use switchboard::sources::Paths;

use crate::gateway_fixture::{FixtureOptions, ServerMatrix, wait_until};
use crate::raw_http::RawClient;
use crate::test_client::{ALL_KINDS, ClientKind, TestClient};

fn quota(calls: &str) -> CallQuota {
    CallQuota {
        principal: None,
        calls: Some(ToolRule::parse(calls).expect("a rule")),
        per_minute: None,
        per_day: None,
        concurrent: None,
    }
}

#[tokio::test]
async fn a_call_over_a_quota_is_refused_with_the_time_to_wait_and_other_calls_are_not() {
    let servers = ServerMatrix::start();
    for kind in ALL_KINDS {
        let mut fixture = servers.gateway(&["lh", "mh"], FixtureOptions::default()).await;
        fixture.gateway.set_quotas(vec![CallQuota { per_minute: Some(2), ..quota("mcp__mh") }]);
        let mut client = TestClient::with_capabilities(&mut fixture, kind, 0, json!({})).await;
        let echo = json!({"text": "hi"});
        for _ in 0..2 {
            client.call("mcp__mh__echo", echo.clone(), "").await.result();
        }
        let refused = client.call("mcp__mh__echo", echo.clone(), "").await;
        let error = refused.error();
        let message = error["message"].as_str().expect("a message");
        let expected = "the quota of 2 calls per minute for `mcp__mh` is used up; try again in ";
        assert!(message.starts_with(expected), "{kind:?}: {message}");
        let seconds = error["data"]["retryAfterSeconds"].as_u64().expect("a number");
        assert!((1..=30).contains(&seconds), "{seconds}");
        client.call("mcp__lh__echo", echo.clone(), "").await.result();
        let mut other = TestClient::with_capabilities(&mut fixture, kind, 1, json!({})).await;
        other.call("mcp__mh__echo", echo, "").await.result();
        drop((client, other));
        fixture.stop().await;
    }
}

#[tokio::test]
async fn a_refusal_has_the_status_and_the_header_of_a_limit_and_is_recorded() {
    let servers = ServerMatrix::start();
    let mut fixture = servers.gateway(&["mh"], FixtureOptions::default()).await;
    fixture.gateway.set_quotas(vec![CallQuota { per_day: Some(1), ..quota("mcp__mh__echo") }]);
    for kind in [ClientKind::ModernHttp, ClientKind::LegacyHttp] {
        let mut client = TestClient::with_capabilities(&mut fixture, kind, 0, json!({})).await;
        let call = json!({"name": "mcp__mh__echo", "arguments": {"text": "hi"}});
        if kind == ClientKind::ModernHttp {
            client.request("tools/call", call.clone()).await.result();
        }
        let request = client.build_request("tools/call", call);
        let response = client.http.post(&request).await;
        assert_eq!(response.status, 429, "{kind:?}");
        let seconds: u64 =
            response.header("retry-after").expect("it says when").parse().expect("a number");
        assert!((1..=24 * 3600).contains(&seconds), "{seconds}");
    }
    let principals = fixture.gateway.principals().await;
    let ada = &principals[0];
    assert_eq!((ada.name.as_str(), ada.calls, ada.denied, ada.running), ("c0", 3, 2, 0));
    assert_eq!((ada.quotas[0].subject.as_str(), ada.quotas[0].used.day), ("`mcp__mh__echo`", 1));
    let client = RawClient::client(fixture.address, 0);
    let head = client.request_head("GET /metrics");
    let page = client.send(format!("{head}\r\n").as_bytes()).await.remaining_text().await;
    assert!(
        page.contains("switchboard_limit_rejections_total{limit=\"calls-per-day\"} 2"),
        "{page}"
    );
    let folder = fixture.folder.clone();
    fixture.stop().await;
    let paths = Paths::in_dir(&folder.path().canonicalize().expect("it is there"));
    wait_until("the calls are recorded", || {
        log::read(&paths.audit()).is_ok_and(|it| it.len() == 3)
    })
    .await;
    let records = log::read(&paths.audit()).expect("the log");
    let refused = records.iter().filter(|it| it.outcome == "denied");
    let because: Vec<&str> = refused.map(|it| it.because.as_str()).collect();
    let expected = "the quota of 1 calls per day for `mcp__mh__echo` is used up";
    assert_eq!(because, [expected, expected]);
}

#[tokio::test]
async fn calls_at_the_same_time_are_limited_and_a_finished_one_makes_room() {
    let servers = ServerMatrix::start();
    let mut fixture = servers.gateway(&["mh"], FixtureOptions::default()).await;
    fixture.gateway.set_quotas(vec![CallQuota { concurrent: Some(1), ..quota("mcp__mh") }]);
    let kind = ClientKind::ModernHttp;
    let mut slow = TestClient::with_capabilities(&mut fixture, kind, 0, json!({})).await;
    let mut quick = TestClient::with_capabilities(&mut fixture, kind, 0, json!({})).await;
    let long = Duration::from_secs(60).as_millis() as u64;
    let running =
        tokio::spawn(async move { slow.call("mcp__mh__slow", json!({"ms": long}), "").await });
    servers.wait_called("mh", "slow").await;
    let echo = json!({"text": "hi"});
    let refused = quick.call("mcp__mh__echo", echo.clone(), "").await;
    assert!(refused.error()["message"].as_str().is_some_and(|it| it.contains("at the same time")));
    // The client leaves, so the call ends.
    running.abort();
    let _cancelled = running.await;
    let mut made = false;
    for _ in 0..2000 {
        if quick.call("mcp__mh__echo", echo.clone(), "").await.outcome.is_ok() {
            made = true;
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(made, "there is room again");
    drop(quick);
    fixture.stop().await;
}
