//! A client of either era, over a link or over HTTP, that answers what it is asked and writes down what it hears.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use switchboard_wire::link::{Arrival, Link};
use switchboard_wire::memory::MemoryLink;
use switchboard_wire::message::{self, Message, Messages};
use tokio::time::timeout;

use crate::gateway_bench::{House, PATIENCE};
use crate::raw_http::{Caller, LEGACY, MODERN};

/// How a client speaks, and over what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    LegacyLink,
    LegacyHttp,
    ModernLink,
    ModernHttp,
}

pub const KINDS: [Kind; 4] =
    [Kind::LegacyLink, Kind::LegacyHttp, Kind::ModernLink, Kind::ModernHttp];

impl Kind {
    pub fn is_modern(self) -> bool {
        matches!(self, Kind::ModernLink | Kind::ModernHttp)
    }
}

/// A client.
pub struct Visitor {
    pub kind: Kind,
    pub caller: Caller,
    link: Option<MemoryLink>,
    asked: u64,
    capabilities: Json,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// The result or the error.
    pub outcome: Result<Json, Json>,
    /// The notifications before it.
    pub notes: Vec<Json>,
    /// The methods of what the client was asked before it.
    pub questions: Vec<String>,
}

impl Heard {
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
    pub fn of(&self, method: &str) -> Vec<&Json> {
        self.notes.iter().filter(|it| it["method"] == method).map(|it| &it["params"]).collect()
    }
}

/// Everything that a client can do.
pub fn able() -> Json {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": true}})
}

/// Answers as a person with this name would.
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
        other => panic!("nobody asks that: {other:?}"),
    }
}

impl Visitor {
    /// A client with everything, as one of those who have tokens.
    pub async fn come(house: &mut House, kind: Kind, client: usize) -> Visitor {
        Visitor::able_to(house, kind, client, able()).await
    }

    /// A client that can do these things.
    pub async fn able_to(
        house: &mut House,
        kind: Kind,
        client: usize,
        capabilities: Json,
    ) -> Visitor {
        let caller = Caller::client(house.address, client);
        let link = match kind {
            Kind::LegacyLink | Kind::ModernLink => Some(house.link(&format!("c{client}"))),
            Kind::LegacyHttp | Kind::ModernHttp => None,
        };
        let mut visitor = Visitor { kind, caller, link, asked: 0, capabilities };
        if !kind.is_modern() {
            visitor.shake_hands().await;
        }
        visitor
    }

    async fn shake_hands(&mut self) {
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": self.capabilities,
            "clientInfo": {"name": "visitor", "version": "1"},
        });
        let hello = self.request("initialize", params);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        match &mut self.link {
            Some(_) => {
                self.push(&hello);
                self.pulled().await;
                self.push(&initialized);
            }
            None => {
                let reply = self.caller.post(&hello).await;
                assert_eq!(reply.status, 200);
                self.caller.session = reply.header("mcp-session-id").map(str::to_owned);
                assert_eq!(self.caller.post(&initialized).await.status, 202);
            }
        }
    }

    /// The next question, with what its era wants in it.
    pub fn request(&mut self, method: &str, mut params: Json) -> Json {
        self.asked += 1;
        if self.kind.is_modern() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
    }

    /// Sends a message over the link.
    pub fn push(&mut self, message: &Json) {
        let bytes = Bytes::from(message.to_string());
        let Ok(Messages::One(message)) = message::parse(&bytes) else { panic!("no message") };
        self.link.as_mut().expect("a link").push(message.into());
    }

    /// The next message from the link.
    pub async fn pulled(&mut self) -> Json {
        let link = self.link.as_mut().expect("a link");
        match timeout(PATIENCE, link.next()).await.expect("in time").expect("it is open") {
            Arrival::Message(message) => written(&message),
            other => panic!("no message: {other:?}"),
        }
    }

    /// Asks, answers nothing, and comes back with the answer.
    pub async fn ask(&mut self, method: &str, params: Json) -> Heard {
        self.converse(method, params, &|question| panic!("nothing is asked: {question}")).await
    }

    /// Calls a tool, answering as somebody.
    pub async fn call(&mut self, tool: &str, arguments: Json, who: &str) -> Heard {
        let params = json!({"name": tool, "arguments": arguments});
        self.converse("tools/call", params, &answer_as(who)).await
    }

    /// Asks, and answers what it is asked until the answer is there.
    pub async fn converse(
        &mut self,
        method: &str,
        params: Json,
        answers: &(dyn Fn(&Json) -> Json + Sync),
    ) -> Heard {
        let mut heard = Heard { outcome: Ok(Json::Null), notes: Vec::new(), questions: Vec::new() };
        let mut params = params;
        loop {
            let request = self.request(method, params.clone());
            let outcome = match self.link {
                Some(_) => self.over_link(&request, answers, &mut heard).await,
                None => self.over_http(&request, answers, &mut heard).await,
            };
            match &outcome {
                Ok(result) if result["resultType"] == "input_required" => {
                    params["requestState"] = result["requestState"].clone();
                    params["inputResponses"] = answered(result, answers, &mut heard);
                }
                Ok(_) | Err(_) => {
                    heard.outcome = outcome;
                    return heard;
                }
            }
        }
    }

    /// Asks once: a question back is the result.
    pub async fn once(&mut self, method: &str, params: Json) -> Heard {
        let mut heard = Heard { outcome: Ok(Json::Null), notes: Vec::new(), questions: Vec::new() };
        let request = self.request(method, params);
        let answers = |question: &Json| panic!("nothing is asked: {question}");
        heard.outcome = match self.link {
            Some(_) => self.over_link(&request, &answers, &mut heard).await,
            None => self.over_http(&request, &answers, &mut heard).await,
        };
        heard
    }

    async fn over_link(
        &mut self,
        request: &Json,
        answers: &(dyn Fn(&Json) -> Json + Sync),
        heard: &mut Heard,
    ) -> Result<Json, Json> {
        self.push(request);
        loop {
            let message = self.pulled().await;
            match (message.get("method").is_some(), message.get("id").is_some()) {
                (true, true) => {
                    heard.questions.push(message["method"].as_str().unwrap_or_default().to_owned());
                    let (id, result) = (message["id"].clone(), answers(&message));
                    self.push(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
                }
                (true, false) => heard.notes.push(message),
                (false, _) if message["id"] == request["id"] => return outcome(&message),
                (false, _) => panic!("nobody asked for {message}"),
            }
        }
    }

    async fn over_http(
        &mut self,
        request: &Json,
        answers: &(dyn Fn(&Json) -> Json + Sync),
        heard: &mut Heard,
    ) -> Result<Json, Json> {
        let mut reply = self.caller.post(request).await;
        loop {
            let message = reply.message().await.expect("an answer before the end");
            match (message.get("method").is_some(), message.get("id").is_some()) {
                (true, true) => {
                    heard.questions.push(message["method"].as_str().unwrap_or_default().to_owned());
                    let (id, result) = (message["id"].clone(), answers(&message));
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                    assert_eq!(self.caller.post(&answer).await.status, 202);
                }
                (true, false) => heard.notes.push(message),
                (false, _) => {
                    assert_eq!(message["id"], request["id"], "{message}");
                    return outcome(&message);
                }
            }
        }
    }
}

/// The answers to everything that a result asks.
fn answered(result: &Json, answers: &(dyn Fn(&Json) -> Json + Sync), heard: &mut Heard) -> Json {
    let mut responses = json!({});
    for (name, question) in result["inputRequests"].as_object().expect("questions") {
        heard.questions.push(question["method"].as_str().unwrap_or_default().to_owned());
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

fn written(message: &Message) -> Json {
    let mut text = Vec::new();
    message.write_to(&mut text);
    serde_json::from_slice(&text).expect("JSON")
}
