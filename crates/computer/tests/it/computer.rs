//! A client of the computer server whose user gives prepared answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use switchboard_computer::{ComputerSettings, Multiplexer, Presence};
use switchboard_wire::client::handshake;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::client::{Client, RequestHandler};
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::{Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::transport::in_memory;
use tokio::task::JoinHandle;

use crate::screen::Screen;

/// Longer than any call takes unless it is broken.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A client of the computer server.
pub struct Computer {
    client: Client,
    user: User,
    /// What the server logged.
    pub logs: Arc<Mutex<Vec<String>>>,
    server_task: JoinHandle<()>,
    event_task: JoinHandle<()>,
    task: JoinHandle<switchboard_wire::peer::Statistics>,
}

/// The user: answers elicitations, and remembers them.
#[derive(Clone)]
struct User {
    answer: Arc<Mutex<Json>>,
    asked: Arc<Mutex<Vec<Json>>>,
}

impl RequestHandler for User {
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>> {
        assert_eq!(method, "elicitation/create");
        let params: Json = params.map(|it| it.decode().expect("JSON")).unwrap_or_default();
        self.asked.lock().expect("no panic").push(params);
        let answer = self.answer.lock().expect("no panic").to_string();
        Box::pin(async move { Ok(Payload::from_json(answer.into())) })
    }
}

/// The settings for a screen.
pub fn settings(screen: &Screen) -> ComputerSettings {
    let path = std::env::var("PATH").expect("a path");
    ComputerSettings {
        display: Ok(screen.display.clone()),
        presence: Presence::Interactive,
        data_folders: vec![screen.folder()],
        environment: vec![
            ("PATH".to_owned(), path),
            ("DISPLAY".to_owned(), screen.display.clone()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ],
        own_processes: Vec::new(),
        own_window: None,
        multiplexer: Multiplexer::Absent,
    }
}

impl Computer {
    /// A client whose user accepts everything that is ticked.
    pub async fn new(screen: &Screen) -> Computer {
        Computer::with_settings(settings(screen), Era::Legacy).await
    }

    /// A client to which these applications are granted.
    pub async fn with_access(screen: &Screen, applications: &[&str]) -> Computer {
        let computer = Computer::new(screen).await;
        computer.grant(json!({"applications": applications})).await;
        computer
    }

    pub async fn with_settings(settings: ComputerSettings, era: Era) -> Computer {
        let (ours, theirs) = in_memory::pair();
        let server_task = tokio::spawn(switchboard_computer::serve(settings, theirs));
        let SpawnedPeer { peer, mut events, task } = Peer::spawn(ours);
        let answer = Arc::new(Mutex::new(json!({"action": "accept", "content": {}})));
        let user = User { answer, asked: Arc::default() };
        let logs = Arc::new(Mutex::new(Vec::new()));
        let (responder, log) = (user.clone(), logs.clone());
        let event_task = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    PeerEvent::Request(request) => {
                        let answer =
                            responder.respond(&request.method, request.params.clone()).await;
                        request.respond(answer.expect("an answer")).await;
                    }
                    PeerEvent::Notification { method, params } => {
                        if method == "notifications/message" {
                            let params: Json =
                                params.map(|it| it.decode().expect("JSON")).unwrap_or_default();
                            let text = params["data"].as_str().unwrap_or_default().to_owned();
                            log.lock().expect("no panic").push(text);
                        }
                    }
                }
            }
        });
        let offer = ClientDescription {
            legacy_capabilities: None,
            name: "test".to_owned(),
            title: "Test".to_owned(),
            version: "1".to_owned(),
            capabilities: vec![ClientCapability::Elicitation],
        };
        let hint = match era {
            Era::Legacy => EraHint::Legacy,
            Era::Modern => EraHint::Unknown,
        };
        let client = handshake::negotiate(&peer, &offer, hint).await.expect("it opens");
        assert_eq!(client.server().era, era);
        Computer { client, user, logs, server_task, event_task, task }
    }

    /// Sets what the user answers from now on.
    pub fn user_answers(&self, answer: Json) {
        *self.user.answer.lock().expect("no panic") = answer;
    }

    /// What the user was asked.
    pub fn asked(&self) -> Vec<Json> {
        self.user.asked.lock().expect("no panic").clone()
    }

    /// Asks for access, with all clipboard and key boxes ticked.
    pub async fn grant(&self, mut arguments: Json) -> String {
        let all = json!({"clipboard_read": true, "clipboard_write": true, "system_keys": true});
        self.user_answers(json!({"action": "accept", "content": all}));
        arguments["reason"] = json!("a test");
        self.text("request_access", arguments).await
    }

    pub async fn request(&self, method: &'static str, params: Json) -> Json {
        let request = self
            .client
            .request(method)
            .params(Payload::from_json(params.to_string().into()))
            .input_handler(Arc::new(self.user.clone()))
            .timeout(TIMEOUT);
        request.send().await.expect("a result").decode().expect("JSON")
    }

    /// A tool's whole result.
    pub async fn call(&self, tool: &str, arguments: Json) -> Json {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// The text of a tool's result.
    pub async fn text(&self, tool: &str, arguments: Json) -> String {
        let result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The message of a tool that failed.
    pub async fn error(&self, tool: &str, arguments: Json) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}: {}", result["content"][0]["text"]);
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// A picture and the line about it.
    pub async fn picture(&self, tool: &str, arguments: Json) -> (String, image::RgbImage) {
        let result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
        let data = result["content"][1]["data"].as_str().expect("a picture");
        let bytes = STANDARD.decode(data).expect("base64");
        (text, image::load_from_memory(&bytes).expect("a picture").to_rgb8())
    }

    /// Looks at the screen, so that coordinates are those of the screen.
    pub async fn look(&self) {
        self.picture("screenshot", json!({})).await;
    }

    /// Clicks at a place of the last picture.
    pub async fn click(&self, (x, y): (i32, i32)) -> String {
        self.text("left_click", json!({"coordinate": [x, y]})).await
    }

    /// Disconnects, and waits until the server has cleaned up.
    pub async fn shut_down(self) {
        self.client.close();
        self.task.await.expect("our side ends");
        self.server_task.await.expect("the server ends");
        self.event_task.await.expect("the connection has ended");
    }
}
