//! Changes are heard in the way of the client, whatever the way of the server: subscriptions, and lists.

use serde_json::{Value as Json, json};

use crate::gateway_bench::{House, Plan, Quarter, SERVERS};
use crate::raw_http::Reply;
use crate::visitor::{KINDS, Kind, Visitor};

const URI: &str = "scripted://resource/1";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Somebody who listens.
struct Listener {
    visitor: Visitor,
    stream: Option<Reply>,
    id: Json,
}

impl Listener {
    async fn start(house: &mut House, kind: Kind) -> Listener {
        let mut visitor = Visitor::come(house, kind, 0).await;
        let wants = json!({"notifications": {
            "toolsListChanged": true, "resourceSubscriptions": [URI, "scripted://nowhere"],
        }});
        let mut listener = match kind {
            Kind::LegacyLink => {
                visitor.ask("resources/subscribe", json!({"uri": URI})).await.result();
                Listener { visitor, stream: None, id: Json::Null }
            }
            Kind::LegacyHttp => {
                let stream = Some(visitor.caller.stream(None).await);
                visitor.ask("resources/subscribe", json!({"uri": URI})).await.result();
                Listener { visitor, stream, id: Json::Null }
            }
            Kind::ModernLink => {
                let request = visitor.request("subscriptions/listen", wants);
                visitor.push(&request);
                Listener { visitor, stream: None, id: request["id"].clone() }
            }
            Kind::ModernHttp => {
                let request = visitor.request("subscriptions/listen", wants);
                let stream = Some(visitor.caller.post(&request).await);
                Listener { visitor, stream, id: request["id"].clone() }
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
            None => self.visitor.pulled().await,
        }
    }

    /// Waits for one notification, past others of its kind.
    async fn hears(&mut self, method: &str) -> Json {
        loop {
            let message = self.next().await;
            if message["method"] == method {
                return message["params"].clone();
            }
        }
    }
}

#[tokio::test]
async fn a_resource_that_changes_is_told_to_every_client_of_every_server() {
    for server in SERVERS {
        let quarter = Quarter::start();
        let mut house = quarter.house(&[server], Plan::default()).await;
        let mut listeners = Vec::new();
        for kind in KINDS {
            listeners.push(Listener::start(&mut house, kind).await);
        }
        let mut other = Visitor::come(&mut house, Kind::ModernHttp, 1).await;
        let touch = json!({"name": format!("mcp__{server}__touch"), "arguments": {"uri": URI}});
        other.ask("tools/call", touch.clone()).await.result();
        for listener in &mut listeners {
            let params = listener.hears("notifications/resources/updated").await;
            assert_eq!(params["uri"], URI, "{:?} {server}", listener.visitor.kind);
            if listener.visitor.kind.is_modern() {
                assert_eq!(params["_meta"][SUBSCRIPTION], listener.id);
            }
        }
        // Who leaves does not end it for the others.
        let mut last = listeners.pop().expect("four");
        for listener in &mut listeners {
            if listener.visitor.kind == Kind::LegacyLink {
                listener.visitor.push(&json!({"jsonrpc": "2.0", "id": "u",
                    "method": "resources/unsubscribe", "params": {"uri": URI}}));
                assert_eq!(listener.next().await["id"], "u");
            }
        }
        drop(listeners);
        other.ask("tools/call", touch).await.result();
        let params = last.hears("notifications/resources/updated").await;
        assert_eq!(params["uri"], URI);
        drop(last);
        house.stop().await;
    }
}

#[tokio::test]
async fn a_list_that_changes_is_told_to_every_client_and_listed_anew() {
    for server in SERVERS {
        let quarter = Quarter::start();
        let mut house = quarter.house(&[server], Plan::default()).await;
        let mut listeners = Vec::new();
        for kind in KINDS {
            listeners.push(Listener::start(&mut house, kind).await);
        }
        let mut other = Visitor::come(&mut house, Kind::LegacyHttp, 1).await;
        let change = json!({"name": format!("mcp__{server}__change_tools"), "arguments": {}});
        other.ask("tools/call", change).await.result();
        for listener in &mut listeners {
            listener.hears("notifications/tools/list_changed").await;
        }
        let listed = other.ask("tools/list", json!({})).await;
        let tools = listed.result()["tools"].as_array().expect("a list").clone();
        let added = format!("mcp__{server}__added_0");
        assert!(tools.iter().any(|it| it["name"] == added.as_str()), "{server}");
        drop(listeners);
        house.stop().await;
    }
}

#[tokio::test]
async fn who_listens_to_nothing_that_there_is_hears_so() {
    let quarter = Quarter::start();
    let mut house = quarter.house(&["ms"], Plan::default()).await;
    let mut visitor = Visitor::come(&mut house, Kind::ModernHttp, 0).await;
    let heard = visitor.once("subscriptions/listen", json!({})).await;
    assert_eq!(heard.error()["code"], -32602);
    let strange = json!({"notifications": {"everything": true, "toolsListChanged": "yes"}});
    let request = visitor.request("subscriptions/listen", strange);
    let mut stream = visitor.caller.post(&request).await;
    let first = stream.message().await.expect("an acknowledgement");
    assert_eq!(first["params"]["notifications"], json!({}));
    drop(stream);
    house.stop().await;
}
