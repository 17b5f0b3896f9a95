//! A client of one era, with a user who always gives the same answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_builtin::kit::server::Server;
use switchboard_wire::client::handshake;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::client::{Client, RequestBuilder, RequestHandler};
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::{CallError, Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::transport::in_memory;
use switchboard_wire::transport::in_memory::InMemoryTransport;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const BOTH_ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Longer than any operation takes unless it is broken.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A client connected to a server.
pub struct TestClient {
    pub client: Client,
    /// The notifications of the server: method and parameters.
    pub notifications: mpsc::Receiver<(String, Json)>,
    answer: Json,
    server_task: JoinHandle<()>,
    event_task: JoinHandle<()>,
    task: JoinHandle<switchboard_wire::peer::Statistics>,
}

struct FixedResponder(Json);

impl RequestHandler for FixedResponder {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>> {
        assert!(["elicitation/create", "roots/list"].contains(&method), "{method}");
        let params: Json = params.map(|it| it.decode().expect("JSON")).unwrap_or_default();
        let mut answer = self.0.clone();
        // The answer repeats the question, so that a test can see it.
        if answer["content"] == "asked" {
            answer["content"] = params;
        }
        Box::pin(async move { Ok(Payload::from_json(answer.to_string().into())) })
    }
}

impl TestClient {
    /// A client whose user declines every elicitation.
    pub async fn new(server: &Arc<Server>, era: Era) -> TestClient {
        TestClient::with_answer(
            server,
            era,
            vec![ClientCapability::Elicitation],
            json!({"action": "decline"}),
        )
        .await
    }

    /// A client with these capabilities and this answer.
    pub async fn with_answer(
        server: &Arc<Server>,
        era: Era,
        abilities: Vec<ClientCapability>,
        answer: Json,
    ) -> TestClient {
        let (ours, theirs) = in_memory::pair();
        let server_task = tokio::spawn(server.clone().serve(theirs));
        TestClient::connect(ours, server_task, era, abilities, answer).await
    }

    /// The same over a transport to a running server.
    pub async fn connect(
        ours: InMemoryTransport,
        server_task: JoinHandle<()>,
        era: Era,
        abilities: Vec<ClientCapability>,
        answer: Json,
    ) -> TestClient {
        let SpawnedPeer { peer, mut events, task } = Peer::spawn(ours);
        let (sender, notifications) = mpsc::channel(1000);
        let responder = FixedResponder(answer.clone());
        let event_task = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    PeerEvent::Request(request) => {
                        let answer =
                            responder.respond(&request.method, request.params.clone()).await;
                        request.respond(answer.expect("an answer")).await;
                    }
                    PeerEvent::Notification { method, params } => {
                        let params = params.map(|it| it.decode().expect("JSON"));
                        let _test_over =
                            sender.try_send((method.into_owned(), params.unwrap_or_default()));
                    }
                }
            }
        });
        let offer = ClientDescription {
            legacy_capabilities: None,
            name: "visitor".to_owned(),
            title: "Visitor".to_owned(),
            version: "1".to_owned(),
            capabilities: abilities,
        };
        let hint = match era {
            Era::Legacy => EraHint::Legacy,
            Era::Modern => EraHint::Unknown,
        };
        let client = handshake::negotiate(&peer, &offer, hint).await.expect("it opens");
        assert_eq!(client.server().era, era);
        TestClient { client, notifications, answer, server_task, event_task, task }
    }

    pub fn request(&self, method: &'static str, params: Json) -> RequestBuilder {
        self.client
            .request(method)
            .params(Payload::from_json(params.to_string().into()))
            .input_handler(Arc::new(FixedResponder(self.answer.clone())))
            .timeout(TIMEOUT)
    }

    /// A result without the members that only its era adds.
    pub async fn request_json(&self, method: &'static str, params: Json) -> Result<Json, RpcError> {
        match self.request(method, params).send().await {
            Ok(answer) => {
                let mut answer: Json = answer.decode().expect("JSON");
                if let Some(members) = answer.as_object_mut() {
                    let era_members = ["_meta", "resultType", "ttlMs", "cacheScope"];
                    members.retain(|name, _| !era_members.contains(&name.as_str()));
                }
                Ok(answer)
            }
            Err(CallError::Remote(error)) => Err(error),
            Err(error) => panic!("the call failed: {error:?}"),
        }
    }

    /// The result of a tool.
    pub async fn call(&self, tool: &str, arguments: Json) -> Json {
        let params = json!({"name": tool, "arguments": arguments});
        self.request_json("tools/call", params).await.expect("a result")
    }

    /// The text of a tool's result.
    pub async fn text(&self, tool: &str, arguments: Json) -> String {
        let result = self.call(tool, arguments).await;
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The next notification of the server.
    pub async fn next_notification(&mut self) -> (String, Json) {
        timeout(TIMEOUT, self.notifications.recv()).await.expect("in time").expect("something")
    }

    /// Disconnects, and waits until the server has noticed.
    pub async fn shut_down(self) {
        let TestClient { client, server_task, event_task, task, .. } = self;
        // Also ends other requests.
        client.close();
        timeout(TIMEOUT, async {
            task.await.expect("our side ends");
            server_task.await.expect("the server's side ends");
            event_task.await.expect("the connection has ended");
        })
        .await
        .expect("all of it ends");
    }
}
