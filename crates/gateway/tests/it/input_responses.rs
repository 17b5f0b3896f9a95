//! Input responses that are wrong, late, duplicated, partial, of another client, or missing: a suspended request only
//! continues with the input of its own client for the same request.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::gateway_fixture::{FixtureOptions, SERVERS, ServerMatrix};
use crate::test_client::{ClientKind, Exchange, TestClient, answer_as};

const MODERN: [ClientKind; 2] = [ClientKind::ModernInMemory, ClientKind::ModernHttp];

/// Longer than a request stays suspended.
const PAST_TTL: Duration = Duration::from_secs(31 * 60);

fn ask_params(server: &str, kind: &str) -> Json {
    json!({"name": format!("mcp__{server}__ask"), "arguments": {"kind": kind}})
}

/// The same request with a state and input.
fn with_input_responses(params: &Json, state: &Json, responses: Json) -> Json {
    let mut params = params.clone();
    params["requestState"] = state.clone();
    params["inputResponses"] = responses;
    params
}

/// Responses to all input requests of a result.
fn input_responses(result: &Json, who: &str) -> Json {
    let questions = result["inputRequests"].as_object().expect("questions");
    let answer = answer_as(who);
    questions.iter().map(|(name, question)| (name.clone(), answer(question))).collect()
}

/// Starts a call that needs input.
async fn input_required(test_client: &mut TestClient, params: &Json) -> Json {
    let heard = test_client.request_once("tools/call", params.clone()).await;
    let result = heard.result().clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(result["requestState"].is_string(), "{result}");
    result
}

#[track_caller]
fn check_invalid_state(heard: &Exchange, why: &str) {
    assert_eq!(heard.error()["code"], -32602, "{why}: {:?}", heard.outcome);
}

#[tokio::test]
async fn input_requests_without_a_response_are_sent_again() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ls"], FixtureOptions::default()).await;
    for kind in MODERN {
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        let params = ask_params("ls", "crowd");
        let mut result = input_required(&mut test_client, &params).await;
        let mut answered = 0;
        // One response at a time, and sometimes none.
        while result["resultType"] == "input_required" {
            let all = input_responses(&result, "ada");
            let name = all.as_object().and_then(|it| it.keys().next()).expect("a question").clone();
            let partial = if answered % 7 == 3 { json!({}) } else { json!({&name: all[&name]}) };
            answered += 1;
            let again = with_input_responses(&params, &result["requestState"], partial);
            result = test_client.request_once("tools/call", again).await.result().clone();
        }
        let got = &result["structuredContent"];
        let of = |name: &str| got[name].as_u64().unwrap_or_default();
        assert_eq!(of("accept") + of("error"), 100, "{kind:?} {got}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_state_is_valid_once_for_its_request_and_its_client() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&SERVERS, FixtureOptions::default()).await;
    for kind in MODERN {
        for server in SERVERS {
            let mut ada = TestClient::connect(&mut fixture, kind, 0).await;
            let mut bob = TestClient::connect(&mut fixture, kind, 1).await;
            let params = ask_params(server, "elicitation");
            let result = input_required(&mut ada, &params).await;
            let (state, valid_responses) =
                (&result["requestState"], input_responses(&result, "ada"));
            let text = state.as_str().expect("text");

            let heard = bob
                .request_once(
                    "tools/call",
                    with_input_responses(&params, state, valid_responses.clone()),
                )
                .await;
            check_invalid_state(&heard, "another principal");

            let mut other = params.clone();
            other["arguments"]["rounds"] = 2.into();
            let heard = ada
                .request_once(
                    "tools/call",
                    with_input_responses(&other, state, valid_responses.clone()),
                )
                .await;
            check_invalid_state(&heard, "other arguments");

            let mut other = params.clone();
            let name = format!("mcp__{server}__echo");
            other["name"] = name.into();
            let heard = ada
                .request_once(
                    "tools/call",
                    with_input_responses(&other, state, valid_responses.clone()),
                )
                .await;
            check_invalid_state(&heard, "another tool");

            for garbage in
                ["", "x", "AAAA", &text[1..], &text[..text.len() - 1], &format!("{text}A")]
            {
                let again = with_input_responses(&params, &json!(garbage), valid_responses.clone());
                check_invalid_state(&ada.request_once("tools/call", again).await, "garbage");
            }
            let again =
                with_input_responses(&params, &json!({"not": "text"}), valid_responses.clone());
            check_invalid_state(&ada.request_once("tools/call", again).await, "no text");

            let heard = ada
                .request_once(
                    "tools/call",
                    with_input_responses(&params, state, valid_responses.clone()),
                )
                .await;
            let got = &heard.result()["structuredContent"]["rounds"][0]["elicitation"];
            assert_eq!(got["content"]["name"], "ada", "{kind:?} {server}");

            let heard = ada
                .request_once("tools/call", with_input_responses(&params, state, valid_responses))
                .await;
            check_invalid_state(&heard, "a second time");
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn input_without_a_state_responds_to_no_request_of_a_legacy_server() {
    let upstreams = ServerMatrix::start();
    let servers = ["ls", "lh"];
    let mut fixture = upstreams.gateway(&servers, FixtureOptions::default()).await;
    for kind in MODERN {
        for server in servers {
            let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
            let asked = input_required(&mut test_client, &ask_params(server, "elicitation")).await;
            let mut params = ask_params(server, "elicitation");
            params["inputResponses"] = input_responses(&asked, "ada");
            let heard = test_client.request_once("tools/call", params).await;
            assert_eq!(
                heard.result()["inputRequests"],
                asked["inputRequests"],
                "{kind:?} {server}"
            );
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn malformed_responses_do_not_reach_the_server() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ls"], FixtureOptions::default()).await;
    for kind in MODERN {
        let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
        let params = ask_params("ls", "elicitation");
        for garbage in [json!("x"), json!([1]), json!(null)] {
            let result = input_required(&mut test_client, &params).await;
            let again = with_input_responses(&params, &result["requestState"], garbage.clone());
            let heard = test_client.request_once("tools/call", again).await;
            assert_eq!(heard.error()["code"], -32602, "{kind:?} {garbage}");
        }
        let result = input_required(&mut test_client, &params).await;
        let stranger = json!({"never-asked": {"action": "accept"}});
        let again = with_input_responses(&params, &result["requestState"], stranger);
        let heard = test_client.request_once("tools/call", again).await;
        let again = heard.result();
        assert_eq!(again["inputRequests"], result["inputRequests"], "it is asked again");
        let valid_responses = input_responses(again, "ada");
        let heard = test_client
            .request_once(
                "tools/call",
                with_input_responses(&params, &again["requestState"], valid_responses),
            )
            .await;
        assert!(heard.result()["structuredContent"]["rounds"].is_array(), "{heard:?}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_suspended_request_is_cancelled_after_its_ttl_and_its_state_is_invalid() {
    for server in ["ls", "lh"] {
        let upstreams = ServerMatrix::start();
        let mut fixture = upstreams.gateway(&[server], FixtureOptions::default()).await;
        let mut test_client = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
        let params = ask_params(server, "elicitation");
        let result = input_required(&mut test_client, &params).await;
        tokio::time::pause();
        tokio::time::advance(PAST_TTL).await;
        tokio::time::resume();
        upstreams.wait_cancelled(server, "ask").await;
        let valid_responses = input_responses(&result, "ada");
        let again = with_input_responses(&params, &result["requestState"], valid_responses);
        check_invalid_state(&test_client.request_once("tools/call", again).await, "too late");
        fixture.stop().await;
    }
}

#[tokio::test]
async fn an_input_request_that_the_server_cancels_is_not_sent_again() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ls", "lh"], FixtureOptions::default()).await;
    for kind in MODERN {
        for server in ["ls", "lh"] {
            let mut test_client = TestClient::connect(&mut fixture, kind, 0).await;
            let mut params = ask_params(server, "withdrawn");
            params["arguments"]["ms"] = 1.into();
            let mut result = input_required(&mut test_client, &params).await;
            let is_second = |result: &Json| {
                let questions = result["inputRequests"].as_object().expect("questions");
                let only = questions.values().next().expect("one");
                questions.len() == 1 && only["params"]["message"] == "The second question?"
            };
            // The server may be slower than the client, which then tries again.
            while !is_second(&result) {
                let again = with_input_responses(&params, &result["requestState"], json!({}));
                result = test_client.request_once("tools/call", again).await.result().clone();
            }
            let valid_responses = input_responses(&result, "ada");
            let again = with_input_responses(&params, &result["requestState"], valid_responses);
            let heard = test_client.request_once("tools/call", again).await;
            let rounds = &heard.result()["structuredContent"]["rounds"];
            assert_eq!(rounds[0]["second"]["content"]["name"], "ada", "{kind:?} {server}");
        }
    }
    fixture.stop().await;
}

/// The first request is cancelled and the second one sent, in either order.
#[track_caller]
fn check_withdrawn(first: &Json, next: &[Json]) {
    let cancelled = next.iter().find(|it| it["method"] == "notifications/cancelled");
    let cancelled = cancelled.unwrap_or_else(|| panic!("it is taken back: {next:?}"));
    assert_eq!(cancelled["params"]["requestId"], first["id"]);
    let second = next.iter().find(|it| it["method"] == "elicitation/create");
    let second = second.unwrap_or_else(|| panic!("it asks again: {next:?}"));
    assert_eq!(second["params"]["message"], "The second question?");
}

#[tokio::test]
async fn a_legacy_client_is_notified_of_a_cancelled_request() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ls", "lh"], FixtureOptions::default()).await;
    for server in ["ls", "lh"] {
        let mut params = ask_params(server, "withdrawn");
        params["arguments"]["ms"] = 500.into();
        let mut test_client =
            TestClient::connect(&mut fixture, ClientKind::LegacyInMemory, 0).await;
        let request = test_client.build_request("tools/call", params.clone());
        test_client.send(&request);
        let first = test_client.receive().await;
        assert_eq!(first["params"]["message"], "The first question?");
        check_withdrawn(&first, &[test_client.receive().await, test_client.receive().await]);
        drop(test_client);

        let mut test_client = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 0).await;
        let request = test_client.build_request("tools/call", params);
        let mut reply = test_client.http.post(&request).await;
        let first = reply.message().await.expect("a question");
        assert_eq!(first["params"]["message"], "The first question?");
        let next = [reply.message().await, reply.message().await];
        check_withdrawn(&first, &next.map(|it| it.expect("something")));
        test_client.http.delete().await;
    }
    fixture.stop().await;
}

#[tokio::test]
async fn the_number_of_suspended_requests_is_limited() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["lh"], FixtureOptions::default()).await;
    let mut ada = TestClient::connect(&mut fixture, ClientKind::ModernInMemory, 0).await;
    let params = ask_params("lh", "elicitation");
    for _ in 0..64 {
        let heard = ada.request_once("tools/call", params.clone()).await;
        assert_eq!(heard.result()["resultType"], "input_required");
    }
    let refused = ada.request_once("tools/call", params.clone()).await;
    assert_eq!(refused.error()["code"], -32603);
    // Other principals are not affected.
    let mut bob = TestClient::connect(&mut fixture, ClientKind::ModernInMemory, 1).await;
    let heard = bob.request_once("tools/call", params).await;
    assert_eq!(heard.result()["resultType"], "input_required");
    drop((ada, bob));
    fixture.stop().await;
}

#[tokio::test]
async fn a_state_of_a_call_that_changes_something_reaches_the_server_once() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["mh", "ms"], FixtureOptions::default()).await;
    for kind in MODERN {
        for server in ["mh", "ms"] {
            let mut ada = TestClient::connect(&mut fixture, kind, 0).await;
            let params = ask_params(server, "elicitation");
            let result = input_required(&mut ada, &params).await;
            let responses = input_responses(&result, "ada");
            let again = with_input_responses(&params, &result["requestState"], responses);
            let with_state = |it: &&Json| it["params"]["requestState"].is_string();
            let count = || upstreams.received(server).iter().filter(with_state).count();
            let before = count();
            let first = ada.request_once("tools/call", again.clone()).await;
            assert_eq!(first.result()["resultType"], "complete", "{first:?}");
            for _ in 0..3 {
                let heard = ada.request_once("tools/call", again.clone()).await;
                check_invalid_state(&heard, "used already");
                let message = heard.error()["message"].as_str().unwrap_or_default();
                assert!(message.contains("used already"), "{message}");
            }
            assert_eq!(count() - before, 1, "{kind:?} {server}");
        }
    }
    fixture.stop().await;
}
