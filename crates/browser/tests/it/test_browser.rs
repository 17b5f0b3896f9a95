//! A client of the browser server whose user gives prepared answers.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_browser::{BrowserSettings, OriginPattern};
use switchboard_wire::client::handshake;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::client::{Client, RequestHandler};
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::{Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::transport::in_memory;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::site::Site;

/// Longer than any call takes unless it is broken.
const TIMEOUT: Duration = Duration::from_secs(150);

/// A client of the browser server.
pub struct TestBrowser {
    client: Client,
    user: User,
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

/// Folders of a test, and settings of a browser that may reach the site.
pub struct Setup {
    pub folder: TempDir,
    pub settings: BrowserSettings,
}

impl Setup {
    /// Settings with which the whole site is allowed.
    pub fn new(site: &Site) -> Setup {
        let port = site.address.port();
        let hosts = [
            "*".to_owned(),
            format!("127.0.0.1:{port}"),
            format!("localhost:{port}"),
            format!("*.localhost:{port}"),
        ];
        Setup::with_origins(&hosts.each_ref().map(String::as_str))
    }

    /// Settings with these allowed origins.
    pub fn with_origins(origins: &[&str]) -> Setup {
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().join("work");
        std::fs::create_dir(&work).expect("a folder");
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let environment = vec![
            ("PATH".to_owned(), variable("PATH")),
            ("HOME".to_owned(), folder.path().display().to_string()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        let mut settings = BrowserSettings::new(folder.path().join("data"), environment);
        settings.reach.allowed =
            origins.iter().map(|it| OriginPattern::parse(it).expect("a pattern")).collect();
        settings.folders = Arc::new(move || vec![work.clone()]);
        Setup { folder, settings }
    }

    /// The folder that uploads come from.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub async fn open(&self) -> TestBrowser {
        TestBrowser::open(self.settings.clone(), Era::Legacy).await
    }
}

impl TestBrowser {
    pub async fn open(settings: BrowserSettings, era: Era) -> TestBrowser {
        let (ours, theirs) = in_memory::pair();
        let server_task = tokio::spawn(switchboard_browser::serve(settings, theirs));
        let SpawnedPeer { peer, mut events, task } = Peer::spawn(ours);
        let answer = Arc::new(Mutex::new(json!({"action": "decline"})));
        let user = User { answer, asked: Arc::default() };
        let responder = user.clone();
        let event_task = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    PeerEvent::Request(request) => {
                        let answer =
                            responder.respond(&request.method, request.params.clone()).await;
                        request.respond(answer.expect("an answer")).await;
                    }
                    PeerEvent::Notification { .. } => {}
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
        TestBrowser { client, user, server_task, event_task, task }
    }

    /// Sets what the user answers from now on.
    pub fn user_answers(&self, answer: Json) {
        *self.user.answer.lock().expect("no panic") = answer;
    }

    /// How often the user was asked.
    pub fn asked(&self) -> Vec<Json> {
        self.user.asked.lock().expect("no panic").clone()
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
    #[track_caller]
    pub fn text(&self, tool: &str, arguments: Json) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        let tool = tool.to_owned();
        async move {
            let result = self.call(&tool, arguments).await;
            assert_ne!(result["isError"], true, "{caller}: {tool}: {result}");
            result["content"][0]["text"].as_str().expect("a text").to_owned()
        }
    }

    /// The message of a tool that failed.
    #[track_caller]
    pub fn error(&self, tool: &str, arguments: Json) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        let tool = tool.to_owned();
        async move {
            let result = self.call(&tool, arguments).await;
            assert_eq!(
                result["isError"], true,
                "{caller}: {tool}: {}",
                result["content"][0]["text"]
            );
            result["content"][0]["text"].as_str().expect("a text").to_owned()
        }
    }

    /// Opens a page.
    #[track_caller]
    pub fn go(&self, url: &str) -> impl Future<Output = String> {
        self.text("navigate", json!({"url": url}))
    }

    /// The reference of the first element that a search finds.
    #[track_caller]
    pub fn find(&self, role: &str, text: &str) -> impl Future<Output = String> {
        let found = self.text("find", json!({"role": role, "text": text}));
        let (role, text) = (role.to_owned(), text.to_owned());
        let caller = std::panic::Location::caller();
        async move {
            let found = found.await;
            let line = found.lines().nth(1);
            let line = line.unwrap_or_else(|| panic!("{caller}: no {role} {text}: {found}"));
            reference(line).unwrap_or_else(|| panic!("{caller}: no reference in {line}"))
        }
    }

    /// Clicks the first element that a search finds.
    #[track_caller]
    pub fn click(&self, role: &str, text: &str) -> impl Future<Output = String> {
        let found = self.find(role, text);
        let caller = std::panic::Location::caller();
        async move {
            let reference = found.await;
            let result = self.call("click", json!({"ref": reference})).await;
            assert_ne!(result["isError"], true, "{caller}: {result}");
            let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
            assert!(text.chars().count() < 400, "{caller}: {text}");
            text
        }
    }

    /// The value of a script.
    pub async fn evaluate(&self, script: &str) -> String {
        let text = self.text("evaluate", json!({"script": script})).await;
        text.lines().nth(1).expect("a value").to_owned()
    }

    /// Disconnects, and waits until the server has cleaned up.
    pub async fn shut_down(self) {
        self.client.close();
        self.task.await.expect("our side ends");
        self.server_task.await.expect("the server ends");
        self.event_task.await.expect("the connection has ended");
    }
}

/// The first reference in a text.
pub fn reference(text: &str) -> Option<String> {
    let mut outside = String::new();
    let mut is_quoted = false;
    for character in text.chars() {
        if character == '"' {
            is_quoted = !is_quoted;
        }
        outside.push(if is_quoted || character == '"' { ' ' } else { character });
    }
    let is_reference = |word: &&str| {
        word.strip_prefix('e')
            .is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
    };
    outside.split_whitespace().find(is_reference).map(str::to_owned)
}

/// The picture in a result.
pub fn decode_picture(data: &str) -> image::RgbImage {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).expect("base64");
    image::load_from_memory(&bytes).expect("a picture").to_rgb8()
}
