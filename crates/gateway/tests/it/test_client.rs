//! A client of either era, over a transport or HTTP, that responds to requests and keeps all messages.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::{Message, Messages};
use switchboard_wire::transport::in_memory::InMemoryTransport;
use switchboard_wire::transport::{Transport, TransportEvent};
use tokio::time::timeout;

use crate::gateway_fixture::{GatewayFixture, TEST_TIMEOUT};
use crate::raw_http::{LEGACY, MODERN, RawClient};

/// The era and the transport of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    LegacyInMemory,
    LegacyHttp,
    ModernInMemory,
    ModernHttp,
}

pub const ALL_KINDS: [ClientKind; 4] = [
    ClientKind::LegacyInMemory,
    ClientKind::LegacyHttp,
    ClientKind::ModernInMemory,
    ClientKind::ModernHttp,
];

impl ClientKind {
    pub fn is_modern(self) -> bool {
        matches!(self, ClientKind::ModernInMemory | ClientKind::ModernHttp)
    }
}

/// A client.
pub struct TestClient {
    pub kind: ClientKind,
    pub http: RawClient,
    transport: Option<InMemoryTransport>,
    request_count: u64,
    capabilities: Json,
}

/// A request's outcome, and the messages before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The result or the error.
    pub outcome: Result<Json, Json>,
    /// The notifications before it.
    pub notifications: Vec<Json>,
    /// The methods of the requests that the client received before it.
    pub server_requests: Vec<String>,
}

impl Exchange {
    #[track_caller]
    pub fn result(&self) -> &Json {
        self.outcome.as_ref().unwrap_or_else(|error| panic!("it was refused: {error}"))
    }

    #[track_caller]
    pub fn error(&self) -> &Json {
        match &self.outcome {
            Ok(result) => panic!("it was answered: {result}"),
            Err(error) => error,
        }
    }

    /// The notifications of one method.
    pub fn notifications_of(&self, method: &str) -> Vec<&Json> {
        self.notifications
            .iter()
            .filter(|it| it["method"] == method)
            .map(|it| &it["params"])
            .collect()
    }
}

/// All client capabilities.
pub fn all_capabilities() -> Json {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": true}})
}

/// Responds to requests with this name in the content.
pub fn answer_as(who: &str) -> impl Fn(&Json) -> Json + '_ {
    move |question| match question["method"].as_str() {
        Some("elicitation/create") if question["params"]["mode"] == "url" => {
            json!({"action": "accept", "_meta": {"who": who}})
        }
        Some("elicitation/create") => json!({"action": "accept", "content": {"name": who}}),
        Some("sampling/createMessage") => json!({
            "role": "assistant", "model": who, "content": {"type": "text", "text": who},
        }),
        Some("roots/list") => json!({"roots": [{"uri": format!("file:///{who}")}]}),
        other => panic!("an unexpected request: {other:?}"),
    }
}

impl TestClient {
    /// A client with all capabilities and a token.
    pub async fn connect(
        fixture: &mut GatewayFixture,
        kind: ClientKind,
        client: usize,
    ) -> TestClient {
        TestClient::with_capabilities(fixture, kind, client, all_capabilities()).await
    }

    /// A client with these capabilities.
    pub async fn with_capabilities(
        fixture: &mut GatewayFixture,
        kind: ClientKind,
        client: usize,
        capabilities: Json,
    ) -> TestClient {
        let caller = RawClient::client(fixture.address, client);
        let transport = match kind {
            ClientKind::LegacyInMemory | ClientKind::ModernInMemory => {
                Some(fixture.transport(&format!("c{client}")))
            }
            ClientKind::LegacyHttp | ClientKind::ModernHttp => None,
        };
        let mut test_client =
            TestClient { kind, http: caller, transport, request_count: 0, capabilities };
        if !kind.is_modern() {
            test_client.initialize().await;
        }
        test_client
    }

    async fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": self.capabilities,
            "clientInfo": {"name": "visitor", "version": "1"},
        });
        let initialize_request = self.build_request("initialize", params);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        match &mut self.transport {
            Some(_) => {
                self.send(&initialize_request);
                self.receive().await;
                self.send(&initialized);
            }
            None => {
                let reply = self.http.post(&initialize_request).await;
                assert_eq!(reply.status, 200);
                self.http.session = reply.header("mcp-session-id").map(str::to_owned);
                assert_eq!(self.http.post(&initialized).await.status, 202);
            }
        }
    }

    /// The next request, with the members that its era requires.
    pub fn build_request(&mut self, method: &str, mut params: Json) -> Json {
        self.request_count += 1;
        if self.kind.is_modern() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        json!({"jsonrpc": "2.0", "id": self.request_count, "method": method, "params": params})
    }

    /// Sends a message over the transport.
    pub fn send(&mut self, message: &Json) {
        let bytes = Bytes::from(message.to_string());
        let Ok(Messages::One(message)) = message::parse(&bytes) else { panic!("no message") };
        self.transport.as_mut().expect("a link").push(message.into());
    }

    /// The next message from the transport.
    pub async fn receive(&mut self) -> Json {
        let transport = self.transport.as_mut().expect("a link");
        let arrived =
            timeout(TEST_TIMEOUT, transport.next()).await.expect("in time").expect("it is open");
        let TransportEvent::Message(message) = arrived else { panic!("no message: {arrived:?}") };
        to_json(&message)
    }

    /// Sends a request and returns its outcome. Refuses requests of the server.
    pub async fn request(&mut self, method: &str, params: Json) -> Exchange {
        self.request_answering(method, params, &|question| panic!("nothing is asked: {question}"))
            .await
    }

    /// Calls a tool, and responds to requests with this name.
    pub async fn call(&mut self, tool: &str, arguments: Json, who: &str) -> Exchange {
        let params = json!({"name": tool, "arguments": arguments});
        self.request_answering("tools/call", params, &answer_as(who)).await
    }

    /// Sends a request, and responds to requests of the server until the outcome arrives.
    pub async fn request_answering(
        &mut self,
        method: &str,
        params: Json,
        answers: &(dyn Fn(&Json) -> Json + Sync),
    ) -> Exchange {
        let mut exchange = Exchange {
            outcome: Ok(Json::Null),
            notifications: Vec::new(),
            server_requests: Vec::new(),
        };
        let mut params = params;
        loop {
            let request = self.build_request(method, params.clone());
            let outcome = match self.transport {
                Some(_) => self.over_transport(&request, answers, &mut exchange).await,
                None => self.over_http(&request, answers, &mut exchange).await,
            };
            match &outcome {
                Ok(result) if result["resultType"] == "input_required" => {
                    params["requestState"] = result["requestState"].clone();
                    params["inputResponses"] = input_responses(result, answers, &mut exchange);
                }
                Ok(_) | Err(_) => {
                    exchange.outcome = outcome;
                    return exchange;
                }
            }
        }
    }

    /// Sends a request once: a result that needs input is returned.
    pub async fn request_once(&mut self, method: &str, params: Json) -> Exchange {
        let mut exchange = Exchange {
            outcome: Ok(Json::Null),
            notifications: Vec::new(),
            server_requests: Vec::new(),
        };
        let request = self.build_request(method, params);
        let answers = |question: &Json| panic!("nothing is asked: {question}");
        exchange.outcome = match self.transport {
            Some(_) => self.over_transport(&request, &answers, &mut exchange).await,
            None => self.over_http(&request, &answers, &mut exchange).await,
        };
        exchange
    }

    async fn over_transport(
        &mut self,
        request: &Json,
        answers: &(dyn Fn(&Json) -> Json + Sync),
        exchange: &mut Exchange,
    ) -> Result<Json, Json> {
        self.send(request);
        loop {
            let message = self.receive().await;
            match (message.get("method").is_some(), message.get("id").is_some()) {
                (true, true) => {
                    exchange
                        .server_requests
                        .push(message["method"].as_str().unwrap_or_default().to_owned());
                    let (id, result) = (message["id"].clone(), answers(&message));
                    self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
                }
                (true, false) => exchange.notifications.push(message),
                (false, _) if message["id"] == request["id"] => return outcome(&message),
                (false, _) => panic!("an unexpected message: {message}"),
            }
        }
    }

    async fn over_http(
        &mut self,
        request: &Json,
        answers: &(dyn Fn(&Json) -> Json + Sync),
        exchange: &mut Exchange,
    ) -> Result<Json, Json> {
        let mut reply = self.http.post(request).await;
        loop {
            let message = reply.message().await.expect("an answer before the end");
            match (message.get("method").is_some(), message.get("id").is_some()) {
                (true, true) => {
                    exchange
                        .server_requests
                        .push(message["method"].as_str().unwrap_or_default().to_owned());
                    let (id, result) = (message["id"].clone(), answers(&message));
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                    assert_eq!(self.http.post(&answer).await.status, 202);
                }
                (true, false) => exchange.notifications.push(message),
                (false, _) => {
                    assert_eq!(message["id"], request["id"], "{message}");
                    return outcome(&message);
                }
            }
        }
    }
}

/// The responses to all input requests of a result.
fn input_responses(
    result: &Json,
    answers: &(dyn Fn(&Json) -> Json + Sync),
    exchange: &mut Exchange,
) -> Json {
    let mut responses = json!({});
    for (name, question) in result["inputRequests"].as_object().expect("questions") {
        exchange.server_requests.push(question["method"].as_str().unwrap_or_default().to_owned());
        responses[name] = answers(question);
    }
    responses
}

fn outcome(message: &Json) -> Result<Json, Json> {
    match message.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err(message["error"].clone()),
    }
}

fn to_json(message: &Message) -> Json {
    let mut text = Vec::new();
    message.write_to(&mut text);
    serde_json::from_slice(&text).expect("JSON")
}
