//! Clients of either era with servers of either era: requests of servers reach the client, responses reach the server,
//! and notifications reach the request that they belong to.

use serde_json::{Value as Json, json};

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, SERVERS, ServerMatrix, TEST_TIMEOUT};
use crate::test_client::{ALL_KINDS, ClientKind, TestClient, answer_as};

/// The responses that a server received, round by round.
fn rounds(kind: &str, rounds: usize, who: &str) -> Json {
    let asked = |method: &str, mode: &str| {
        answer_as(who)(&json!({"method": method, "params": {"mode": mode}}))
    };
    let (form, url) = (asked("elicitation/create", "form"), asked("elicitation/create", "url"));
    let (sampling, roots) = (asked("sampling/createMessage", ""), asked("roots/list", ""));
    let round = match kind {
        "elicitation" => json!({"elicitation": form}),
        "url" => json!({"url": url}),
        "sampling" => json!({"sampling": sampling}),
        "roots" => json!({"roots": roots}),
        _ => json!({"elicitation": form, "sampling": sampling, "roots": roots}),
    };
    json!(vec![round; rounds])
}

#[tokio::test]
async fn every_request_of_every_server_gets_the_clients_response() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&SERVERS, FixtureOptions::default()).await;
    for kind in ALL_KINDS {
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        for server in SERVERS {
            for (what, times) in [
                ("elicitation", 1),
                ("url", 1),
                ("sampling", 1),
                ("roots", 1),
                ("all", 1),
                ("all", 2),
            ] {
                let arguments = json!({"kind": what, "rounds": times});
                let who = format!("{kind:?}-{server}");
                let exchange =
                    test_client.call(&format!("mcp__{server}__ask"), arguments, &who).await;
                let got = &exchange.result()["structuredContent"]["rounds"];
                assert_eq!(*got, rounds(what, times, &who), "{kind:?} {server} {what}");
                let count = times * if what == "all" { 3 } else { 1 };
                assert_eq!(exchange.server_requests.len(), count, "{kind:?} {server} {what}");
            }
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_client_without_the_capability_gets_no_requests_and_the_server_gets_the_reason() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ls", "lh"], FixtureOptions::default()).await;
    for kind in ALL_KINDS {
        let mut test_client = TestClient::with_capabilities(&mut fixture, kind, 0, json!({})).await;
        for server in ["ls", "lh"] {
            let tool = format!("mcp__{server}__ask");
            let params = json!({"name": tool, "arguments": {"kind": "all"}});
            let exchange = test_client.request("tools/call", params).await;
            let round = &exchange.result()["structuredContent"]["rounds"][0];
            assert_eq!(round["elicitation"]["action"], "decline", "{kind:?} {round}");
            assert_eq!(round["sampling"]["error"]["code"], -32601, "{kind:?} {round}");
            assert_eq!(round["roots"]["error"]["code"], -32601, "{kind:?} {round}");
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_hundred_concurrent_requests_to_a_client_all_get_a_response() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ls", "lh"], FixtureOptions::default()).await;
    for kind in ALL_KINDS {
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        for server in ["ls", "lh"] {
            let tool = format!("mcp__{server}__ask");
            let exchange = test_client.call(&tool, json!({"kind": "crowd"}), "ada").await;
            let got = &exchange.result()["structuredContent"];
            // Some may be refused because there are too many, but each gets a response.
            let count_of = |name: &str| got[name].as_u64().unwrap_or_default();
            assert_eq!(count_of("accept") + count_of("error"), 100, "{kind:?} {server} {got}");
            assert!(count_of("accept") >= 16, "{kind:?} {server} {got}");
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn progress_has_the_clients_own_token_of_any_type() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&SERVERS, FixtureOptions::default()).await;
    for kind in ALL_KINDS {
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        for server in SERVERS {
            for token in [json!("a \"text\""), json!(7), json!("7")] {
                let tool = format!("mcp__{server}__slow");
                let params = json!({"name": tool, "arguments": {"ms": 3, "steps": 3},
                                    "_meta": {"progressToken": token}});
                let exchange = test_client.request("tools/call", params).await;
                exchange.result();
                let signs = exchange.notifications_of("notifications/progress");
                assert!(!signs.is_empty(), "{kind:?} {server} {token}");
                assert!(signs.iter().all(|it| it["progressToken"] == token), "{signs:?}");
                let steps: Vec<&Json> = signs.iter().map(|it| &it["progress"]).collect();
                assert_eq!(steps, [1, 2, 3], "{kind:?} {server} {token}");
            }
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_client_gets_the_log_levels_it_asked_for_from_servers_of_both_eras() {
    for kind in ALL_KINDS {
        // On a shared process, messages within a second of another session's call belong to no session for sure.
        let upstreams = ServerMatrix::start();
        let mut fixture = upstreams.gateway(&SERVERS, FixtureOptions::default()).await;
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        if !kind.is_modern() {
            test_client.request("logging/setLevel", json!({"level": "warning"})).await.result();
            assert_eq!(
                test_client.request("logging/setLevel", json!({"level": "loud"})).await.error()["code"],
                -32602
            );
        }
        for server in SERVERS {
            for (level, is_wanted) in [("info", false), ("warning", true), ("error", true)] {
                let mut params = json!({"name": format!("mcp__{server}__talk"),
                                        "arguments": {"text": level, "level": level}});
                if kind.is_modern() {
                    params["_meta"]["io.modelcontextprotocol/logLevel"] = "warning".into();
                }
                let exchange = test_client.request("tools/call", params).await;
                exchange.result();
                let logs = exchange.notifications_of("notifications/message");
                assert_eq!(logs.len(), usize::from(is_wanted), "{kind:?} {server} {level}");
                assert!(logs.iter().all(|it| it["data"] == level), "{logs:?}");
            }
        }
        if kind.is_modern() {
            for server in SERVERS {
                let params = json!({"name": format!("mcp__{server}__talk"),
                                    "arguments": {"text": "x", "level": "emergency"}});
                assert_eq!(
                    test_client.request("tools/call", params).await.notifications,
                    Vec::<Json>::new()
                );
            }
        }
        let levels = upstreams.received("ls");
        let set = levels
            .iter()
            .any(|it| it["method"] == "logging/setLevel" && it["params"]["level"] == "warning");
        assert!(set, "a legacy server is told the level");
        let called = upstreams.received("mh");
        let key = "io.modelcontextprotocol/logLevel";
        let steps = called.iter().filter(|it| it["params"]["_meta"][key] == "warning").count();
        assert_eq!(steps, 3, "a modern server is told the level with each request");
        drop(test_client);
        fixture.stop().await;
    }
}

/// Starts a call, and cancels it once the server has received it.
async fn cancel_call(
    upstreams: &ServerMatrix,
    fixture: &mut GatewayFixture,
    kind: ClientKind,
    server: &str,
) {
    let mut test_client = TestClient::connect(fixture, kind, 0).await;
    let params = json!({"name": format!("mcp__{server}__slow"), "arguments": {"ms": 60_000}});
    let request = test_client.build_request("tools/call", params);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": request["id"], "reason": "enough"}});
    match kind {
        ClientKind::LegacyInMemory | ClientKind::ModernInMemory => {
            test_client.send(&request);
            upstreams.wait_called(server, "slow").await;
            test_client.send(&cancelled);
            upstreams.wait_cancelled(server, "slow").await;
        }
        ClientKind::LegacyHttp => {
            let caller = test_client.http.clone();
            let asking = tokio::spawn(async move { caller.post(&request).await });
            upstreams.wait_called(server, "slow").await;
            assert_eq!(test_client.http.post(&cancelled).await.status, 202);
            upstreams.wait_cancelled(server, "slow").await;
            let mut reply = asking.await.expect("no panic");
            assert_eq!(reply.message().await, None, "what was called off has no answer");
        }
        ClientKind::ModernHttp => {
            let caller = test_client.http.clone();
            let asking = tokio::spawn(async move { caller.post(&request).await });
            upstreams.wait_called(server, "slow").await;
            let reply = asking.await.expect("no panic");
            assert!(reply.is_stream());
            drop(reply);
            upstreams.wait_cancelled(server, "slow").await;
        }
    }
    let exchange = test_client.request("tools/call", echo(server, "again")).await;
    assert_eq!(exchange.result()["content"][0]["text"], "again");
}

fn echo(server: &str, text: &str) -> Json {
    json!({"name": format!("mcp__{server}__echo"), "arguments": {"text": text}})
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_server() {
    for kind in ALL_KINDS {
        let upstreams = ServerMatrix::start();
        let mut fixture = upstreams.gateway(&SERVERS, FixtureOptions::default()).await;
        for server in SERVERS {
            cancel_call(&upstreams, &mut fixture, kind, server).await;
        }
        fixture.stop().await;
    }
}

#[tokio::test]
async fn the_calls_of_a_client_that_disconnects_are_cancelled() {
    for kind in [ClientKind::LegacyInMemory, ClientKind::ModernInMemory] {
        let upstreams = ServerMatrix::start();
        let mut fixture = upstreams.gateway(&["ls", "mh"], FixtureOptions::default()).await;
        for server in ["ls", "mh"] {
            let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
            let slow = json!({"name": format!("mcp__{server}__slow"), "arguments": {"ms": 60_000}});
            let request = test_client.build_request("tools/call", slow);
            test_client.send(&request);
            upstreams.wait_called(server, "slow").await;
            drop(test_client);
            upstreams.wait_cancelled(server, "slow").await;
        }
        fixture.stop().await;
    }
}

#[tokio::test]
async fn results_for_modern_clients_have_a_result_type() {
    let script = testkit::Script::legacy().quirk(testkit::Quirk::HasSayTool);
    let entry = testkit::ScriptedProgram::config_entry(&script);
    let mut fixture = GatewayFixture::open(&[("s", entry)], FixtureOptions::default()).await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
    let inner = json!({"content": [], "structuredContent": {"resultType": "x", "ttlMs": 5}});
    let params = json!({"name": "mcp__s__say", "arguments": {"result": inner}});
    let exchange =
        tokio::time::timeout(TEST_TIMEOUT, test_client.request("tools/call", params)).await;
    let exchange = exchange.expect("in time");
    assert_eq!(exchange.result()["resultType"], "complete", "{:?}", exchange.outcome);
    assert_eq!(exchange.result()["structuredContent"], inner["structuredContent"]);
    fixture.stop().await;
}
