//! A session with a scripted program: what it sends is read frame by frame, and answered by the test.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard::channel::{ChannelAccess, ChannelRelay, ChannelSelector};
use switchboard::config::permission::{
    PermissionEffect, PermissionMode, PermissionRules, ToolRule,
};
use switchboard::connection::InProcessServer;
use switchboard::permission::ActiveRules;
use switchboard::sources::{Paths, loader};
use switchboard::{CallContext, Host, HostEnv, HostOptions};
use switchboard_builtin::kit::change_notifier::ChangeNotifier;
use switchboard_builtin::kit::context::HandlerContext;
use switchboard_builtin::kit::handler_error::HandlerFuture;
use switchboard_builtin::kit::resource::{
    Resource, ResourceBody, ResourceContents, ResourceProvider,
};
use switchboard_builtin::kit::server::Server;
use switchboard_builtin::kit::tool::Tool;
use switchboard_builtin::kit::tool_output::ToolOutput;
use switchboard_chat::control::backend::{
    AppliedFields, BackendFuture, InitializeFields, ModelSelection, ProgramServers, ServerChanges,
    SessionBackend, SystemPromptChange, Toggle, UnusedServer,
};
use switchboard_chat::control::peer::ControlPeer;
use switchboard_chat::control::permission_prompt::PermissionSource;
use switchboard_chat::control::permission_update::{PermissionUpdate, RuleText};
use switchboard_chat::control::sdk_servers::SdkServers;
use switchboard_chat::control::session::{self, ExtraFrames, Program, SessionEnd, SessionSetup};
use switchboard_chat::control::state::{BypassMode, PrintSessionState};
use switchboard_chat::ide::{EditPlanner, IdeSession, IdeSessionOptions, PlannedEdit};
use switchboard_chat::model::language_model::LanguageModel;
use tempfile::TempDir;
use testkit::{ChannelFeed, ChannelScript, Script, ScriptedProgram};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::harness::{Step, StepModel, TEST_TIMEOUT};

/// The arguments of the tools.
#[derive(Deserialize)]
struct Echo {
    #[serde(default)]
    text: String,
}

/// Resources of a size: `text:SIZE` and `blob:SIZE`.
struct SizedResources;

impl ResourceProvider for SizedResources {
    fn list(&self) -> HandlerFuture<'_, Vec<Resource>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn read<'a>(&'a self, uri: &'a str) -> HandlerFuture<'a, Vec<ResourceContents>> {
        let (kind, size) = uri.split_once(':').expect("a kind and a size");
        let size = size.parse().expect("a number");
        let body = match kind {
            "blob" => ResourceBody::Blob(vec![7; size]),
            _ => ResourceBody::Text("x".repeat(size)),
        };
        let (uri, mime_type) = (uri.to_owned(), "text/plain".to_owned());
        let contents = vec![ResourceContents { uri, mime_type, body }];
        Box::pin(std::future::ready(Ok(contents)))
    }
}

/// A server whose calls are recorded: `length` says how long its text is, `hang` never ends, `decide` allows calls.
fn server(calls: &Arc<Mutex<Vec<String>>>) -> Server {
    let recorded = calls.clone();
    let length = move |_: HandlerContext, it: Echo| {
        recorded.lock().expect("no panic").push(it.text.clone());
        async move { Ok(ToolOutput::text(it.text.len().to_string())) }
    };
    let recorded = calls.clone();
    let hang = move |_: HandlerContext, _: Echo| {
        recorded.lock().expect("no panic").push("hang".to_owned());
        std::future::pending()
    };
    let recorded = calls.clone();
    let decide = move |_: HandlerContext, _: Echo| {
        recorded.lock().expect("no panic").push("decide".to_owned());
        async move { Ok(ToolOutput::text("{\"behavior\": \"allow\"}").with_text("as always")) }
    };
    let text = json!({"type": "string"});
    let question = json!({"tool_name": text, "input": {"type": "object"}, "tool_use_id": text});
    let tool = |tool: Tool| tool.input_schema(json!({"text": {"type": "string"}}), &[]);
    Server::new("s", "1")
        .tool(tool(Tool::new("length", "Says how long its text is.", length)))
        .tool(tool(Tool::new("hang", "Never ends.", hang)))
        .tool(Tool::new("decide", "Allows calls.", decide).input_schema(question, &[]))
        .resources(Arc::new(SizedResources), &ChangeNotifier::default())
}

/// What the session asks of its program's surroundings.
#[derive(Default)]
pub struct TestBackend {
    pub warnings: Mutex<Vec<String>>,
    pub updates: Mutex<Vec<PermissionUpdate>>,
    pub fields: Mutex<Vec<InitializeFields>>,
    pub field_error: Option<String>,
    /// The models that the program chose.
    pub opened: Mutex<Vec<String>>,
    /// The model `slow` is opened once this is notified.
    pub slow_model: Notify,
}

impl TestBackend {
    pub fn warnings(&self) -> String {
        self.warnings.lock().expect("no panic").join("\n")
    }
}

impl SessionBackend for TestBackend {
    fn warn(&self, text: &str) {
        self.warnings.lock().expect("no panic").push(text.to_owned());
    }

    fn is_built_in(&self, _server: &str) -> bool {
        false
    }

    fn server_source(&self, _server: &str) -> String {
        "test".to_owned()
    }

    fn plugins(&self) -> Vec<Json> {
        Vec::new()
    }

    fn rule_text(&self, rule: &ToolRule) -> RuleText {
        RuleText { tool: rule.to_printable(), content: None }
    }

    fn suggested_rule(&self, tool: &str, _arguments: &Json) -> RuleText {
        RuleText { tool: tool.to_owned(), content: None }
    }

    fn apply_fields<'a>(
        &'a self,
        fields: InitializeFields,
    ) -> BackendFuture<'a, Result<AppliedFields, String>> {
        self.fields.lock().expect("no panic").push(fields);
        let outcome = self.field_error.clone().map_or(Ok(AppliedFields::default()), Err);
        Box::pin(async { outcome })
    }

    fn update_permissions<'a>(
        &'a self,
        update: PermissionUpdate,
    ) -> BackendFuture<'a, Result<(), String>> {
        self.updates.lock().expect("no panic").push(update);
        Box::pin(async { Ok(()) })
    }

    fn open_model<'a>(
        &'a self,
        selection: ModelSelection,
    ) -> BackendFuture<'a, Result<Arc<dyn LanguageModel>, String>> {
        let name = selection.name.unwrap_or_default();
        self.opened.lock().expect("no panic").push(name.clone());
        Box::pin(async move {
            if name == "slow" {
                self.slow_model.notified().await;
            }
            Err("there is only one model".to_owned())
        })
    }

    fn models(&self) -> Vec<Json> {
        Vec::new()
    }

    fn set_servers<'a>(
        &'a self,
        _servers: ProgramServers,
    ) -> BackendFuture<'a, Result<ServerChanges, String>> {
        Box::pin(async { Ok(ServerChanges::default()) })
    }

    fn toggle_server<'a>(
        &'a self,
        _name: &'a str,
        _toggle: Toggle,
    ) -> BackendFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn unused_servers(&self) -> Vec<UnusedServer> {
        Vec::new()
    }

    fn reload<'a>(&'a self) -> BackendFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn system_prompt(&self, _change: &SystemPromptChange) -> String {
        "changed".to_owned()
    }

    fn version(&self) -> String {
        "1.0.0".to_owned()
    }

    fn api_key_source(&self) -> String {
        "none".to_owned()
    }
}

/// Shows no edit in an IDE.
struct NoEdits;

impl EditPlanner for NoEdits {
    fn plan(&self, _tool: &str, _arguments: &Json) -> Option<PlannedEdit> {
        None
    }

    fn arguments_for(
        &self,
        _tool: &str,
        _arguments: &Json,
        _edit: &PlannedEdit,
        _contents: &str,
    ) -> Option<Json> {
        None
    }

    fn read(&self, _edit: &PlannedEdit) -> Option<String> {
        None
    }
}

/// How a session starts.
pub struct Scene {
    pub mode: PermissionMode,
    pub source: PermissionSource,
    pub backend: TestBackend,
    pub notices: Vec<String>,
    pub awaited_fields: Vec<String>,
    pub first_message: Option<String>,
    /// A server that the test itself serves through `mcp_message`.
    pub hosted: Option<&'static str>,
    pub max_rounds: usize,
    pub rules: Vec<(PermissionEffect, ToolRule)>,
    /// The server `chat`, which is a channel.
    pub channel: Option<TestChannel>,
}

/// A channel of a session.
pub struct TestChannel {
    pub script: ChannelScript,
    pub relay: ChannelRelay,
}

impl Default for Scene {
    fn default() -> Scene {
        Scene {
            mode: PermissionMode::Default,
            source: PermissionSource::Program,
            backend: TestBackend::default(),
            notices: Vec::new(),
            awaited_fields: Vec::new(),
            first_message: None,
            hosted: None,
            max_rounds: 10,
            rules: Vec::new(),
            channel: None,
        }
    }
}

/// A session that runs, and the program at its other end.
pub struct TestProgram {
    pub backend: Arc<TestBackend>,
    pub model: Arc<StepModel>,
    /// The texts that the tools were called with.
    pub calls: Arc<Mutex<Vec<String>>>,
    /// All frames so far.
    pub frames: Vec<Json>,
    lines: Lines<BufReader<DuplexStream>>,
    input: Option<DuplexStream>,
    session: JoinHandle<SessionEnd>,
    host: Host,
    host_task: JoinHandle<()>,
    /// Ends when nothing holds the session with the IDE any more.
    ide_task: JoinHandle<()>,
    /// Feeds the server `chat`.
    pub feed: ChannelFeed,
    access: ChannelAccess,
    _folder: TempDir,
}

impl Scene {
    pub async fn start(self, steps: impl IntoIterator<Item = Step>) -> TestProgram {
        let folder = tempfile::tempdir().expect("a temp folder");
        let paths = Paths::in_dir(folder.path());
        let env = HostEnv { working_folder: folder.path().to_owned(), ..HostEnv::default() };
        let (input, ours) = tokio::io::duplex(64 * 1024);
        let (theirs, output) = tokio::io::duplex(64 * 1024);
        let (peer, driver) = ControlPeer::new();
        let servers = SdkServers::new(peer.clone());
        let mut options = HostOptions::new(paths.clone(), env);
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let server = Arc::new(server(&calls));
        let server = InProcessServer::new(move |link| server.clone().serve(link));
        options.in_process.insert("s".to_owned(), server);
        options.hosted_servers = Some(servers.hosted());
        let (host, host_task) = Host::start(options).expect("it starts");
        let mut entries = json!({"s": {"type": "sdk", "name": "s"}});
        if let Some(name) = self.hosted {
            entries[name] = json!({"type": "sdk", "name": name});
        }
        let feed = ChannelFeed::in_folder(folder.path());
        let mut access = ChannelAccess::default();
        let inbox = host.open_channel_inbox();
        if let Some(channel) = self.channel {
            access.development = vec![ChannelSelector::parse("server:chat").expect("a selector")];
            access.relay = channel.relay;
            host.set_channels(access.clone()).await;
            let script = Script::legacy().channel(channel.script.fed_by(&feed));
            let entry = ScriptedProgram::config_entry(&script);
            entries["chat"] = serde_json::from_str(&entry).expect("an entry");
        }
        let (incoming, _tasks) = driver.start(ours, theirs);
        let entries = json!({"mcpServers": entries}).to_string();
        host.apply(&loader::from_program("test", &entries)).await;
        if self.hosted.is_none() {
            host.settled().await;
            host.settled_pool().await;
        }
        let mut call_context = CallContext::new(host.watch_pool(), &paths).expect("a call context");
        let mut rules = PermissionRules::default();
        for (effect, rule) in self.rules {
            rules.add_for_session(effect, rule);
        }
        call_context.rules = ActiveRules::new(rules);
        call_context.mode = self.mode;
        let model = StepModel::new(steps);
        let backend = Arc::new(self.backend);
        let ide_options = IdeSessionOptions {
            working_folder: folder.path().to_owned(),
            rules: call_context.rules.clone(),
            planner: Arc::new(NoEdits),
        };
        // No IDE is connected.
        let (ide, _updates, ide_task) = IdeSession::start(host.clone(), ide_options);
        let setup = SessionSetup {
            host: host.clone(),
            ide,
            call_context,
            model: model.clone(),
            system_prompt: "be brief".into(),
            history: Vec::new(),
            transcript: None,
            session_id: "session".to_owned(),
            transcript_path: PathBuf::from("transcript"),
            folder: folder.path().to_owned(),
            max_rounds: self.max_rounds,
            permission_source: self.source,
            bypass: BypassMode::Available,
            extra_frames: ExtraFrames {
                session_state: Some(PrintSessionState),
                ..ExtraFrames::default()
            },
            hooks: Vec::new(),
            notices: self.notices,
            awaited_fields: self.awaited_fields,
            first_message: self.first_message,
            structured_output: None,
            channels: inbox,
        };
        let program = Program { peer, incoming, servers };
        let session = tokio::spawn(session::run(setup, backend.clone(), program));
        TestProgram {
            backend,
            model,
            calls,
            frames: Vec::new(),
            lines: BufReader::new(output).lines(),
            input: Some(input),
            session,
            host,
            host_task,
            access,
            feed,
            ide_task,
            _folder: folder,
        }
    }
}

impl TestProgram {
    pub async fn send(&mut self, frame: &Json) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(format!("{frame}\n").as_bytes()).await.expect("the session reads");
    }

    /// Sends frames while the test reads; the input is open again after [`TestProgram::sent`].
    pub fn send_beside(&mut self, frames: Vec<Json>) -> JoinHandle<DuplexStream> {
        let mut input = self.input.take().expect("the input is open");
        tokio::spawn(async move {
            for frame in frames {
                input.write_all(format!("{frame}\n").as_bytes()).await.expect("the session reads");
            }
            input
        })
    }

    pub async fn sent(&mut self, sending: JoinHandle<DuplexStream>) {
        self.input = Some(sending.await.expect("all is sent"));
    }

    pub async fn user(&mut self, text: &str) {
        let message = json!({"role": "user", "content": text});
        self.send(&json!({"type": "user", "message": message})).await;
    }

    pub async fn request(&mut self, id: &str, request: &Json) {
        self.send(&json!({"type": "control_request", "request_id": id, "request": request})).await;
    }

    /// Registers the hook `h` for an event, and reads the answer.
    pub async fn hook(&mut self, event: &str, more: &Json) {
        let mut matcher = json!({"matcher": null, "hookCallbackIds": ["h"]});
        for (name, value) in more.as_object().into_iter().flatten() {
            matcher[name] = value.clone();
        }
        let request = json!({"subtype": "initialize", "hooks": {event: [matcher]}});
        self.request("init", &request).await;
        self.response("init").await;
    }

    /// The end of the input.
    pub fn close(&mut self) {
        self.input = None;
    }

    pub async fn frame(&mut self) -> Json {
        let line = tokio::time::timeout(TEST_TIMEOUT, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing comes: {:#?}", self.frames));
        let line =
            line.expect("readable").unwrap_or_else(|| panic!("it ended: {:#?}", self.frames));
        let frame: Json = serde_json::from_str(&line).expect("JSON");
        self.frames.push(frame.clone());
        frame
    }

    /// The next frame that meets a condition.
    pub async fn until(&mut self, is_wanted: impl Fn(&Json) -> bool) -> Json {
        loop {
            let frame = self.frame().await;
            if is_wanted(&frame) {
                return frame;
            }
        }
    }

    /// The next request of the session with this subtype.
    pub async fn asked(&mut self, subtype: &str) -> Json {
        self.until(|it| it["type"] == "control_request" && it["request"]["subtype"] == subtype)
            .await
    }

    pub async fn result(&mut self) -> Json {
        self.until(|it| it["type"] == "result").await
    }

    /// The answer to a request.
    pub async fn response(&mut self, id: &str) -> Json {
        let is_wanted =
            |it: &Json| it["type"] == "control_response" && it["response"]["request_id"] == id;
        self.until(is_wanted).await["response"].clone()
    }

    pub async fn answer(&mut self, request: &Json, body: &Json) {
        let response =
            json!({"subtype": "success", "request_id": request["request_id"], "response": body});
        self.send(&json!({"type": "control_response", "response": response})).await;
    }

    pub async fn fail(&mut self, request: &Json, error: &str) {
        let response =
            json!({"subtype": "error", "request_id": request["request_id"], "error": error});
        self.send(&json!({"type": "control_response", "response": response})).await;
    }

    /// The text and the error flag of the only result of a call so far.
    #[track_caller]
    pub fn tool_result(&self) -> (String, bool) {
        let blocks = self.frames.iter().filter(|it| it["type"] == "user");
        let blocks =
            blocks.flat_map(|it| it["message"]["content"].as_array().into_iter().flatten());
        let results: Vec<&Json> = blocks.filter(|it| it["type"] == "tool_result").collect();
        let [result] = results[..] else { panic!("{results:?}") };
        let text = result["content"].as_str().expect("a text").to_owned();
        (text, result["is_error"] == true)
    }

    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("no panic").clone()
    }

    /// The states that were printed, in order.
    pub fn states(&self) -> Vec<&str> {
        let states = self.frames.iter().filter(|it| it["subtype"] == "session_state_changed");
        states.filter_map(|it| it["state"].as_str()).collect()
    }

    /// Waits until so many messages of the channel wait for the session.
    pub async fn delivered(&self, count: u64) {
        let waiting = async {
            loop {
                self.host.set_channels(self.access.clone()).await;
                let snapshot = self.host.snapshot();
                let channel = snapshot.servers["chat"].channel.as_ref();
                if channel.is_some_and(|it| it.counts.delivered == count) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("they come");
    }

    /// Closes the input and waits for the end.
    pub async fn end(mut self) -> SessionEnd {
        self.close();
        let reading = async { while let Ok(Some(_)) = self.lines.next_line().await {} };
        let ended = tokio::time::timeout(Duration::from_secs(60), async {
            let (ended, ()) = tokio::join!(&mut self.session, reading);
            (&mut self.ide_task).await.expect("it ends well");
            ended.expect("no panic")
        });
        let ended = ended.await.expect("it ends");
        self.host.shutdown().await;
        self.host_task.await.expect("it ends well");
        ended
    }
}

/// One call of the tool `length`.
pub fn length(text: &str) -> Step {
    Step::Call("", vec![("t1", "mcp__s__length", json!({"text": text}))])
}
