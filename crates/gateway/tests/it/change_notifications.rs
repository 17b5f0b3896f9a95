//! Notifications of changed resources and lists, for clients of either era with servers of either era.

use serde_json::{Value as Json, json};

use crate::gateway_fixture::{FixtureOptions, GatewayFixture, SERVERS, ServerMatrix};
use crate::raw_http::RawResponse;
use crate::test_client::{ALL_KINDS, ClientKind, TestClient};

const URI: &str = "scripted://resource/1";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A client that receives notifications.
struct Listener {
    test_client: TestClient,
    stream: Option<RawResponse>,
    id: Json,
}

impl Listener {
    async fn start(fixture: &mut GatewayFixture, kind: ClientKind) -> Listener {
        let mut test_client = TestClient::connect(fixture, kind, 0).await;
        let filter = json!({"notifications": {
            "toolsListChanged": true, "resourceSubscriptions": [URI, "scripted://nowhere"],
        }});
        let mut listener = match kind {
            ClientKind::LegacyInMemory => {
                test_client.request("resources/subscribe", json!({"uri": URI})).await.result();
                Listener { test_client, stream: None, id: Json::Null }
            }
            ClientKind::LegacyHttp => {
                let stream = Some(test_client.http.open_stream(None).await);
                test_client.request("resources/subscribe", json!({"uri": URI})).await.result();
                Listener { test_client, stream, id: Json::Null }
            }
            ClientKind::ModernInMemory => {
                let request = test_client.build_request("subscriptions/listen", filter);
                test_client.send(&request);
                Listener { test_client, stream: None, id: request["id"].clone() }
            }
            ClientKind::ModernHttp => {
                let request = test_client.build_request("subscriptions/listen", filter);
                let stream = Some(test_client.http.post(&request).await);
                Listener { test_client, stream, id: request["id"].clone() }
            }
        };
        if kind.is_modern() {
            let first = listener.next().await;
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
            assert_eq!(first["params"]["notifications"]["toolsListChanged"], true);
            assert_eq!(first["params"]["_meta"][SUBSCRIPTION], listener.id);
        }
        listener
    }

    async fn next(&mut self) -> Json {
        match &mut self.stream {
            Some(stream) => stream.message().await.expect("it is open"),
            None => self.test_client.receive().await,
        }
    }

    /// Waits for one notification, and skips others.
    async fn wait_for(&mut self, method: &str) -> Json {
        loop {
            let message = self.next().await;
            if message["method"] == method {
                return message["params"].clone();
            }
        }
    }
}

#[tokio::test]
async fn every_subscribed_client_is_notified_of_a_changed_resource() {
    for server in SERVERS {
        let upstreams = ServerMatrix::start();
        let mut fixture = upstreams.gateway(&[server], FixtureOptions::shared_processes()).await;
        let mut listeners = Vec::new();
        for kind in ALL_KINDS {
            listeners.push(Listener::start(&mut fixture, kind).await);
        }
        let mut other = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 1).await;
        let touch = json!({"name": format!("mcp__{server}__touch"), "arguments": {"uri": URI}});
        other.request("tools/call", touch.clone()).await.result();
        for listener in &mut listeners {
            let params = listener.wait_for("notifications/resources/updated").await;
            assert_eq!(params["uri"], URI, "{:?} {server}", listener.test_client.kind);
            if listener.test_client.kind.is_modern() {
                assert_eq!(params["_meta"][SUBSCRIPTION], listener.id);
            }
        }
        // The end of one subscription does not end the others.
        let mut last = listeners.pop().expect("four");
        for listener in &mut listeners {
            if listener.test_client.kind == ClientKind::LegacyInMemory {
                listener.test_client.send(&json!({"jsonrpc": "2.0", "id": "u",
                    "method": "resources/unsubscribe", "params": {"uri": URI}}));
                assert_eq!(listener.next().await["id"], "u");
            }
        }
        drop(listeners);
        other.request("tools/call", touch).await.result();
        let params = last.wait_for("notifications/resources/updated").await;
        assert_eq!(params["uri"], URI);
        drop(last);
        fixture.stop().await;
    }
}

#[tokio::test]
async fn every_client_is_notified_of_a_changed_list_and_gets_the_new_one() {
    for server in SERVERS {
        let upstreams = ServerMatrix::start();
        let mut fixture = upstreams.gateway(&[server], FixtureOptions::shared_processes()).await;
        let mut listeners = Vec::new();
        for kind in ALL_KINDS {
            listeners.push(Listener::start(&mut fixture, kind).await);
        }
        let mut other = TestClient::connect(&mut fixture, ClientKind::LegacyHttp, 1).await;
        let change = json!({"name": format!("mcp__{server}__change_tools"), "arguments": {}});
        other.request("tools/call", change).await.result();
        for listener in &mut listeners {
            listener.wait_for("notifications/tools/list_changed").await;
        }
        let listed = other.request("tools/list", json!({})).await;
        let tools = listed.result()["tools"].as_array().expect("a list").clone();
        let added = format!("mcp__{server}__added_0");
        assert!(tools.iter().any(|it| it["name"] == added.as_str()), "{server}");
        drop(listeners);
        fixture.stop().await;
    }
}

#[tokio::test]
async fn listening_to_nothing_is_acknowledged_as_such() {
    let upstreams = ServerMatrix::start();
    let mut fixture = upstreams.gateway(&["ms"], FixtureOptions::shared_processes()).await;
    let mut test_client = TestClient::connect(&mut fixture, ClientKind::ModernHttp, 0).await;
    let heard = test_client.request_once("subscriptions/listen", json!({})).await;
    assert_eq!(heard.error()["code"], -32602);
    let strange = json!({"notifications": {"everything": true, "toolsListChanged": "yes"}});
    let request = test_client.build_request("subscriptions/listen", strange);
    let mut stream = test_client.http.post(&request).await;
    let first = stream.message().await.expect("an acknowledgement");
    assert_eq!(first["params"]["notifications"], json!({}));
    drop(stream);
    fixture.stop().await;
}
