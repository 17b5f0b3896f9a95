//! A host with an in-process server, a model that follows a list of steps, and the events of a conversation as lines.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::connection::InProcessServer;
use switchboard::sources::{Paths, loader};
use switchboard::{CallContext, Host, HostEnv, HostOptions};
use switchboard_builtin::kit::server::Server;
use switchboard_chat::conversation::event::{ConversationEvent, TurnEnd};
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::conversation::setup::ConversationSetup;
use switchboard_chat::message::{ContentBlock, Message, ToolUse};
use switchboard_chat::model::language_model::{
    LanguageModel, ModelError, ModelErrorKind, ModelRequest, ModelResponse, ResponseDelta,
    ResponseFuture, StopReason, Usage,
};
use switchboard_chat::transcript::Transcript;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The timeout of every wait.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The response of a model to one request.
pub enum Step {
    /// Returns text and ends the turn.
    Say(&'static str),
    /// Returns text that it does not stream, after this much of it, and ends the turn.
    SayAtOnce { streamed: &'static str, text: &'static str },
    /// Returns text and tool calls: id, tool, arguments.
    Call(&'static str, Vec<(&'static str, &'static str, Json)>),
    /// Returns text and never completes.
    Hang(&'static str),
    /// Returns text and is truncated, with these calls incomplete.
    CutShort(&'static str, Vec<(&'static str, &'static str, Json)>),
    /// Fails.
    Fail,
}

/// A model that follows a list of steps and records its requests.
pub struct StepModel {
    steps: Mutex<VecDeque<Step>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl StepModel {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Arc<StepModel> {
        let steps = Mutex::new(steps.into_iter().collect());
        Arc::new(StepModel { steps, requests: Mutex::default() })
    }

    /// More steps, behind the others.
    pub fn add(&self, steps: impl IntoIterator<Item = Step>) {
        self.steps.lock().expect("no panic").extend(steps);
    }

    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().expect("no panic").clone()
    }

    pub fn last_messages(&self) -> Vec<Message> {
        self.requests().last().expect("it was asked").messages.to_vec()
    }
}

fn tool_uses(calls: Vec<(&str, &str, Json)>) -> impl Iterator<Item = ContentBlock> {
    let call = |(id, tool, arguments): (&str, &str, Json)| {
        ContentBlock::ToolUse(ToolUse { id: id.to_owned(), tool: tool.to_owned(), arguments })
    };
    calls.into_iter().map(call).collect::<Vec<_>>().into_iter()
}

impl LanguageModel for StepModel {
    fn name(&self) -> &str {
        "listed"
    }

    fn context_window(&self) -> Option<u64> {
        Some(1000)
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest,
        messages: mpsc::Sender<ResponseDelta>,
    ) -> ResponseFuture<'a> {
        Box::pin(async move {
            self.requests.lock().expect("no panic").push(request);
            let step = self.steps.lock().expect("no panic").pop_front();
            let (streamed, words, calls, stop) = match step.expect("the list is long enough") {
                Step::Say(words) => (words, words, Vec::new(), StopReason::EndTurn),
                Step::SayAtOnce { streamed, text } => {
                    (streamed, text, Vec::new(), StopReason::EndTurn)
                }
                Step::Call(words, calls) => (words, words, calls, StopReason::ToolUse),
                Step::CutShort(words, calls) => (words, words, calls, StopReason::MaxTokens),
                Step::Hang(words) => {
                    let _heard = messages.send(ResponseDelta::Text(words.to_owned())).await;
                    std::future::pending().await
                }
                Step::Fail => {
                    let kind = ModelErrorKind::Overloaded("try later".to_owned());
                    return Err(ModelError { model: "listed".to_owned(), status: None, kind });
                }
            };
            let mut parts = Vec::new();
            if !streamed.is_empty() {
                let _heard = messages.send(ResponseDelta::Text(streamed.to_owned())).await;
            }
            if !words.is_empty() {
                parts.push(ContentBlock::Text { text: words.to_owned() });
            }
            parts.extend(tool_uses(calls));
            Ok(ModelResponse {
                content: parts,
                stop_reason: stop,
                usage: Usage { input: 10, cached: 4, output: 2 },
            })
        })
    }
}

/// A host whose only server is `s`.
pub struct Harness {
    pub folder: TempDir,
    pub host: Host,
    pub call_context: CallContext,
    task: JoinHandle<()>,
}

impl Harness {
    pub async fn new(server: Server) -> Harness {
        Harness::named("s", server).await
    }

    pub async fn named(name: &str, server: Server) -> Harness {
        let folder = tempfile::tempdir().expect("a temp folder");
        let paths = Paths::in_dir(folder.path());
        let host_env = HostEnv { working_folder: folder.path().to_owned(), ..HostEnv::default() };
        let mut options = HostOptions::new(paths.clone(), host_env);
        let server = Arc::new(server);
        let server = InProcessServer::new(move |link| server.clone().serve(link));
        options.in_process.insert(name.to_owned(), server);
        let (host, task) = Host::start(options).expect("it starts");
        let servers = json!({"mcpServers": {name: {"type": "sdk", "name": name}}});
        host.apply(&loader::from_program("test", &servers.to_string())).await;
        host.settled().await;
        let call_context = CallContext::new(host.watch_pool(), &paths)
            .expect("a call context")
            .with_trusted_server(name);
        Harness { folder, host, call_context, task }
    }

    pub fn paths(&self) -> Paths {
        Paths::in_dir(self.folder.path())
    }

    pub fn options(&self, model: Arc<dyn LanguageModel>) -> ConversationSetup {
        ConversationSetup {
            host: self.host.clone(),
            call_context: Arc::new(self.call_context.clone()),
            model: Some(model),
            system_prompt: "be brief".into(),
            history: Vec::new(),
            max_rounds: 50,
            hooks: Vec::new(),
            structured_output: None,
            channels: None,
        }
    }

    pub fn start(&self, model: &Arc<StepModel>) -> RunningConversation {
        RunningConversation::new(Conversation::start(self.options(model.clone())))
    }

    pub fn start_recorded(
        &self,
        model: &Arc<StepModel>,
        transcript: Transcript,
        before: Vec<Message>,
    ) -> RunningConversation {
        let setup = ConversationSetup { history: before, ..self.options(model.clone()) };
        RunningConversation::new(Conversation::start_recorded(setup, transcript))
    }

    pub async fn stop(self) {
        self.host.shutdown().await;
        self.task.await.expect("it ends well");
    }
}

/// A running conversation.
pub struct RunningConversation {
    pub handle: Conversation,
    events: mpsc::Receiver<ConversationEvent>,
    task: JoinHandle<()>,
}

impl RunningConversation {
    pub fn new(
        (handle, events, task): (Conversation, mpsc::Receiver<ConversationEvent>, JoinHandle<()>),
    ) -> RunningConversation {
        RunningConversation { handle, events, task }
    }

    pub async fn send(&self, text: &str) {
        self.handle.send(vec![ContentBlock::Text { text: text.to_owned() }]).await;
    }

    pub async fn next(&mut self) -> ConversationEvent {
        let next = tokio::time::timeout(TEST_TIMEOUT, self.events.recv()).await;
        next.expect("something happens").expect("the conversation goes on")
    }

    /// The events until the end of the turn, one per line.
    pub async fn turn(&mut self) -> Vec<String> {
        self.until(|it| it.starts_with("ended")).await
    }

    /// The events up to the line that meets the condition.
    pub async fn until(&mut self, is_last: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            lines.push(line(&self.next().await));
            // Only some providers send these.
            lines.pop_if(|it| it == PART_OF_RESPONSE);
            if lines.is_empty() {
                continue;
            }
            if is_last(lines.last().expect("it was just pushed")) {
                return lines;
            }
        }
    }

    pub async fn ask(&mut self, text: &str) -> Vec<String> {
        self.send(text).await;
        self.turn().await
    }

    pub async fn end(self) {
        drop(self.handle);
        tokio::time::timeout(TEST_TIMEOUT, self.task).await.expect("it ends").expect("no panic");
    }
}

const PART_OF_RESPONSE: &str = "part of a response";

fn line(event: &ConversationEvent) -> String {
    match event {
        ConversationEvent::MessagesAccepted { count: sayings } => format!("taken up {sayings}"),
        ConversationEvent::ChannelMessages(messages) => {
            let lines: Vec<String> = messages.iter().map(|it| it.summary_line()).collect();
            format!("channels {}", lines.join(" | "))
        }
        ConversationEvent::Text(text) => format!("text {text}"),
        ConversationEvent::Thinking(text) => format!("thought {text}"),
        ConversationEvent::StructuredOutput(output) => format!("output {output}"),
        ConversationEvent::ToolUseStarted { .. }
        | ConversationEvent::ToolInput(_)
        | ConversationEvent::BlockEnded(_) => PART_OF_RESPONSE.to_owned(),
        ConversationEvent::ResponseEnded(_) => "answer ended".to_owned(),
        ConversationEvent::CallStarted(seen) => format!("began {} {}", seen.id, seen.title),
        ConversationEvent::CallProgress { id, progress: done, total: of, message } => {
            format!("progress {id} {done} {of:?} {}", message.as_deref().unwrap_or("-"))
        }
        ConversationEvent::CallEnded { id, outcome: ended, text, .. } => {
            format!("call {id} {ended:?}: {text}")
        }
        ConversationEvent::Usage(usage) => {
            format!("used {} {} {}", usage.input, usage.cached, usage.output)
        }
        ConversationEvent::Retrying { attempt, reason: because, .. } => {
            format!("again {attempt}: {because}")
        }
        ConversationEvent::TurnEnded(TurnEnd::Failed(error)) => {
            format!("ended failed: {}", error.kind)
        }
        ConversationEvent::TurnEnded(end) => format!("ended {end:?}"),
    }
}

/// The messages as text, one line per part.
pub fn lines(messages: &[Message]) -> Vec<String> {
    let part = |part: &ContentBlock| match part {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Image { mime, .. } => format!("<{mime}>"),
        ContentBlock::Thinking { text, .. } => format!("<thought {text}>"),
        ContentBlock::ToolUse(call) => format!("<call {} {}>", call.id, call.tool),
        ContentBlock::ToolResult(result) => {
            let parts = json!(
                result
                    .content
                    .iter()
                    .map(|it| match it {
                        ContentBlock::Text { text } => text.clone(),
                        ContentBlock::Image { mime, .. } => format!("<{mime}>"),
                        ContentBlock::Thinking { .. }
                        | ContentBlock::ToolUse(_)
                        | ContentBlock::ToolResult(_) => String::new(),
                    })
                    .collect::<Vec<_>>()
            );
            let sign = if result.is_error { "!" } else { "" };
            format!("<result {}{sign} {parts}>", result.id)
        }
    };
    let line = |it: &Message| {
        format!("{:?}: {}", it.role, it.content.iter().map(part).collect::<Vec<_>>().join(" "))
    };
    messages.iter().map(line).collect()
}
