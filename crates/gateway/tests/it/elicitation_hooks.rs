//! Elicitations of servers during clients' calls: the operator's hooks answer first, and URLs that a server requires
//! reach modern clients as questions.

use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::config::scope::Scope;
use switchboard::config::settings::hooks::ElicitationHook;
use switchboard::config::source::{Origin, Source};

use crate::gateway_fixture::{FixtureOptions, SERVERS, ServerMatrix};
use crate::test_client::{ALL_KINDS, ClientKind, TestClient, answer_as};

fn hook(matcher: &str, reply: &Json) -> ElicitationHook {
    ElicitationHook {
        matcher: matcher.to_owned(),
        command: format!("echo '{reply}'"),
        timeout: Duration::from_secs(10),
        origin: Origin { source: Source::file(Scope::User, "settings.json"), position: None },
    }
}

#[tokio::test]
async fn hooks_answer_before_the_client_is_asked() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&SERVERS, FixtureOptions::default()).await;
    let reply = json!({"action": "accept", "content": {"name": "the hook"}});
    fixture.host.set_hooks(&[hook("ls|mh", &reply)]);
    for kind in ALL_KINDS {
        let mut client = TestClient::connect(&mut fixture, kind, 0).await;
        for server in SERVERS {
            let params = json!({"name": format!("mcp__{server}__ask"),
                                "arguments": {"kind": "elicitation"}});
            let exchange =
                client.request_answering("tools/call", params, &answer_as("the client")).await;
            let is_hooked = ["ls", "mh"].contains(&server);
            let who = if is_hooked { "the hook" } else { "the client" };
            let result = exchange.result().to_string();
            assert!(result.contains(who), "{kind:?} {server}: {result}");
            assert_eq!(exchange.server_requests.is_empty(), is_hooked, "{kind:?} {server}");
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_url_that_an_old_server_requires_is_a_question_to_a_modern_client() {
    for kind in [ClientKind::ModernHttp, ClientKind::ModernInMemory] {
        let upstreams = ServerMatrix::start();
        let mut fixture = upstreams.gateway(&["ls"], FixtureOptions::default()).await;
        let mut client = TestClient::connect(&mut fixture, kind, 0).await;
        let params = json!({"name": "mcp__ls__ask", "arguments": {"kind": "gate"}});
        let accept = |question: &Json| {
            assert_eq!(question["params"]["url"], "https://example.com/gate", "{question}");
            json!({"action": "accept"})
        };
        let exchange = client.request_answering("tools/call", params, &accept).await;
        assert_eq!(exchange.result()["content"][0]["text"], "the gate is open", "{kind:?}");
        assert_eq!(exchange.server_requests, ["elicitation/create"], "{kind:?}");
        drop(client);
        fixture.stop().await;
    }
}
