//! A source of sessions over the demo server, a model with listed responses, and an editor.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::connection::InProcessServer;
use switchboard::sources::{Paths, loader};
use switchboard::wire::jsonrpc::message::Payload;
use switchboard::wire::peer::{CallError, Peer, PeerEvent, SpawnedPeer};
use switchboard::wire::transport::in_memory;
use switchboard::{CallContext, Host, HostEnv, HostOptions};
use switchboard_acp::{
    AgentOptions, CloseSession, ListFuture, OpenFuture, OpenSession, OpenedSession, SessionError,
    SessionErrorKind, SessionSource, SessionStart,
};
use switchboard_builtin::demo;
use switchboard_chat::conversation::setup::ConversationSetup;
use switchboard_chat::message::{ContentBlock, ToolUse};
use switchboard_chat::model::language_model::{
    LanguageModel, ModelRequest, ModelResponse, ResponseDelta, ResponseFuture, StopReason, Usage,
};
use switchboard_chat::transcript::TranscriptStore;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The response of the model to one request.
pub enum Step {
    /// Text, and the end of the turn.
    Say(&'static str),
    /// A tool call: id, tool, arguments.
    Call(&'static str, &'static str, Json),
    /// Text, and never an end.
    Hang(&'static str),
}

/// A model with listed responses.
struct StepModel(Mutex<VecDeque<Step>>);

impl LanguageModel for StepModel {
    fn name(&self) -> &str {
        "listed"
    }

    fn context_window(&self) -> Option<u64> {
        Some(1000)
    }

    fn respond<'a>(
        &'a self,
        _request: ModelRequest,
        deltas: mpsc::Sender<ResponseDelta>,
    ) -> ResponseFuture<'a> {
        Box::pin(async move {
            let step = self.0.lock().expect("no panic").pop_front();
            let (content, stop_reason) = match step.expect("the list is long enough") {
                Step::Say(text) => {
                    (ContentBlock::Text { text: text.to_owned() }, StopReason::EndTurn)
                }
                Step::Call(id, tool, arguments) => {
                    let (id, tool) = (id.to_owned(), tool.to_owned());
                    let call = ToolUse { id, tool, arguments };
                    (ContentBlock::ToolUse(call), StopReason::ToolUse)
                }
                Step::Hang(text) => {
                    let _gone = deltas.send(ResponseDelta::Text(text.to_owned())).await;
                    std::future::pending().await
                }
            };
            let usage = Usage { input: 10, cached: 0, output: 2 };
            Ok(ModelResponse { content: vec![content], stop_reason, usage })
        })
    }
}

/// Opens sessions with the demo server, and counts those that are open.
struct DemoSessions {
    folder: PathBuf,
    steps: Arc<StepModel>,
    closed: mpsc::Sender<()>,
}

impl DemoSessions {
    async fn open_session(&self, request: OpenSession) -> Result<OpenedSession, SessionError> {
        if request.start != SessionStart::New {
            let kind = SessionErrorKind::NotFound;
            return Err(SessionError { kind, message: "nothing is stored".to_owned() });
        }
        let paths = Paths::in_dir(&self.folder);
        let env = HostEnv { working_folder: self.folder.clone(), ..HostEnv::default() };
        let mut options = HostOptions::new(paths.clone(), env);
        options.elicitor = request.elicitor;
        let server = demo::server(self.folder.join("notes.json"));
        let server = InProcessServer::new(move |transport| server.clone().serve(transport));
        options.in_process.insert("demo".to_owned(), server);
        let (host, task) = Host::start(options).expect("it starts");
        let servers = json!({"mcpServers": {"demo": {"type": "sdk", "name": "demo"}}});
        host.apply(&loader::from_program("test", &servers.to_string())).await;
        host.settled().await;
        let context = CallContext::new(host.watch_pool(), &paths).expect("a call context");
        let transcript = TranscriptStore::for_project(&paths, &self.folder).create();
        let (stopped, closed) = (host.clone(), self.closed.clone());
        let close: CloseSession = Box::new(move || {
            Box::pin(async move {
                stopped.shutdown().await;
                let _panicked = task.await;
                let _test_over = closed.send(()).await;
            })
        });
        Ok(OpenedSession {
            id: transcript.session_id().to_owned(),
            setup: ConversationSetup {
                host,
                call_context: Arc::new(CallContext { prompt: request.prompt, ..context }),
                model: Some(self.steps.clone()),
                system_prompt: "be brief".into(),
                history: Vec::new(),
                max_rounds: 50,
                hooks: Vec::new(),
                structured_output: None,
                channels: None,
            },
            transcript,
            close,
        })
    }
}

impl SessionSource for DemoSessions {
    fn open<'a>(&'a self, request: OpenSession) -> OpenFuture<'a> {
        Box::pin(self.open_session(request))
    }

    fn list<'a>(&'a self, _folder: Option<PathBuf>) -> ListFuture<'a> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// An editor with a running agent.
pub struct Editor {
    pub peer: Peer,
    pub events: mpsc::Receiver<PeerEvent>,
    pub closed_sessions: mpsc::Receiver<()>,
    pub folder: TempDir,
    stop: Option<oneshot::Sender<()>>,
    agent: JoinHandle<()>,
    connection: JoinHandle<switchboard::wire::peer::Statistics>,
    /// The updates that were received.
    pub updates: Vec<Json>,
    /// The requests that were received: method and parameters.
    pub asked: Vec<(String, Json)>,
}

impl Editor {
    /// Starts an agent, with these capabilities of the editor.
    pub async fn start(capabilities: Json, steps: impl IntoIterator<Item = Step>) -> Editor {
        let folder = tempfile::tempdir().expect("a folder");
        let (closed, closed_sessions) = mpsc::channel(16);
        let source = DemoSessions {
            folder: folder.path().to_owned(),
            steps: Arc::new(StepModel(Mutex::new(steps.into_iter().collect()))),
            closed,
        };
        let options = AgentOptions {
            name: "test".to_owned(),
            title: "Test".to_owned(),
            version: "1".to_owned(),
            shutdown_limit: TIMEOUT,
            workspace_server: None,
        };
        let (ours, theirs) = in_memory::pair();
        let (stop, stopped) = oneshot::channel();
        let agent =
            tokio::spawn(switchboard_acp::serve(theirs, Arc::new(source), options, async move {
                let _dropped = stopped.await;
            }));
        let SpawnedPeer { peer, events, task } = Peer::spawn(ours);
        let mut editor = Editor {
            peer,
            events,
            closed_sessions,
            folder,
            stop: Some(stop),
            agent,
            connection: task,
            updates: Vec::new(),
            asked: Vec::new(),
        };
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        editor.request("initialize", params, |_, _| Json::Null).await.expect("a result");
        editor
    }

    /// Opens a session and returns its id.
    pub async fn open(&mut self) -> String {
        let params = json!({"cwd": self.folder.path(), "mcpServers": []});
        let opened = self.request("session/new", params, |_, _| Json::Null).await;
        opened.expect("a session")["sessionId"].as_str().expect("an id").to_owned()
    }

    /// Sends a request. Requests of the agent are answered by `answer`; null leaves them without a response.
    pub async fn request(
        &mut self,
        method: &'static str,
        params: Json,
        mut answer: impl FnMut(&str, &Json) -> Json,
    ) -> Result<Json, CallError> {
        let params = Payload::from_json(params.to_string().into());
        let call = self.peer.call(method).params(params).timeout(TIMEOUT).into_future();
        tokio::pin!(call);
        let mut unanswered = Vec::new();
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => match event {
                    PeerEvent::Request(request) => {
                        let params = decoded(request.params.as_ref());
                        let response = answer(&request.method, &params);
                        self.asked.push((request.method.to_string(), params));
                        match response.is_null() {
                            true => unanswered.push(request),
                            false => request.respond(Payload::from_json(response.to_string().into())).await,
                        }
                    }
                    PeerEvent::Notification { method, params } if method == "session/update" => {
                        self.updates.push(decoded(params.as_ref())["update"].clone());
                    }
                    PeerEvent::Notification { method, params } => {
                        self.asked.push((method.to_string(), decoded(params.as_ref())));
                    }
                },
                outcome = &mut call => {
                    unanswered.into_iter().for_each(|it| it.discard());
                    return outcome.map(|it| decoded(Some(&it)));
                }
            }
        }
    }

    /// Sends a prompt and returns why it ended.
    pub async fn prompt(
        &mut self,
        session: &str,
        text: &str,
        answer: impl FnMut(&str, &Json) -> Json,
    ) -> Json {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let response = self.request("session/prompt", params, answer).await.expect("a result");
        response["stopReason"].clone()
    }

    pub async fn notify(&self, method: &'static str, params: Json) {
        let params = Payload::from_json(params.to_string().into());
        self.peer.notify(method, Some(params)).await.expect("it is sent");
    }

    /// The last content of a call, as text.
    pub fn call_text(&self, id: &str) -> String {
        let content =
            self.updates.iter().rev().find(|it| it["toolCallId"] == id && it["content"].is_array());
        let content = content.map(|it| it["content"][0]["content"]["text"].clone());
        content.as_ref().and_then(Json::as_str).unwrap_or_default().to_owned()
    }

    /// Stops the agent, and waits until it has ended.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(TIMEOUT, self.agent).await.expect("in time").expect("no panic");
        drop(self.peer);
        let _statistics = self.connection.await.expect("no panic");
    }
}

fn decoded(payload: Option<&Payload>) -> Json {
    payload.and_then(|it| it.decode().ok()).unwrap_or_default()
}

/// The response to a permission request that allows the call once.
pub fn allow(method: &str, _params: &Json) -> Json {
    match method {
        "session/request_permission" => choose("allow_once"),
        _ => panic!("{method}"),
    }
}

/// The response to a permission request that chooses this option.
pub fn choose(option: &str) -> Json {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}
