//! The agent: answers the editor's requests, opens sessions and passes each message to the session that it is for.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AgentCapabilities, CancelNotification, ClientCapabilities, CloseSessionRequest, Implementation,
    InitializeRequest, InitializeResponse, ListSessionsRequest, ListSessionsResponse,
    LoadSessionRequest, LoadSessionResponse, McpCapabilities, McpServer, NewSessionRequest,
    NewSessionResponse, PromptCapabilities, PromptRequest, ResumeSessionRequest,
    ResumeSessionResponse, SessionAdditionalDirectoriesCapabilities, SessionCapabilities,
    SessionCloseCapabilities, SessionId, SessionInfo, SessionListCapabilities, SessionModeState,
    SessionNotification, SessionResumeCapabilities, SetSessionModeRequest,
};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use switchboard::config::permission::PermissionMode;
use switchboard::wire::jsonrpc::message::{Payload, RequestId, RpcError};
use switchboard::wire::transport::Transport;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::info;

use crate::client::{Client, ReceivedMessage};
use crate::elicitor::EditorElicitor;
use crate::method;
use crate::method::{ErrorCode, SESSION_UPDATE, rpc_error};
use crate::modes;
use crate::permission_prompt::EditorPermissionPrompt;
use crate::replay;
use crate::server_entries;
use crate::session::Session;
use crate::session_command::{COMMAND_QUEUE, SessionCommand};
use crate::session_source::{
    OpenSession, OpenedSession, SessionError, SessionErrorKind, SessionSource, SessionStart,
    StoredSession,
};
use crate::tool_view::ToolViews;

/// How long the last messages may take to be written after all sessions have ended.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);
/// The most open sessions.
const MAX_SESSIONS: usize = 64;

/// The agent's description of itself.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Its name for programs.
    pub name: String,
    /// Its name for users.
    pub title: String,
    /// Its version.
    pub version: String,
    /// How long the end of all sessions may take. What has not ended by then is dropped.
    pub shutdown_limit: Duration,
    /// The name that the source gives the workspace server.
    pub workspace_server: Option<String>,
}

/// Serves an editor until it disconnects or `stop` completes, and ends all sessions.
pub async fn serve(
    transport: impl Transport,
    source: Arc<dyn SessionSource>,
    options: AgentOptions,
    stop: impl Future<Output = ()>,
) {
    let (client, mut incoming, connection) = Client::open(transport);
    let mut agent = Agent {
        client,
        source,
        options,
        capabilities: None,
        sessions: HashMap::new(),
        session_tasks: JoinSet::new(),
        requests: JoinSet::new(),
    };
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            message = incoming.recv() => match message {
                Some(ReceivedMessage::Request { id, method, params }) => {
                    agent.on_request(id, &method, params.as_ref()).await;
                }
                Some(ReceivedMessage::Notification { method, params }) => {
                    agent.on_notification(&method, params.as_ref()).await;
                }
                None => break,
            },
            Some(_ended) = agent.session_tasks.join_next() => {}
            Some(done) = agent.requests.join_next() => {
                if let Ok(TaskOutcome::Opened(opening)) = done {
                    agent.on_opened(*opening).await;
                }
            }
        }
    }
    agent.shut_down().await;
    let mut connection = connection;
    // An editor that reads nothing must not keep the process.
    if timeout(FLUSH_LIMIT, &mut connection).await.is_err() {
        connection.abort();
        let _cancelled = connection.await;
    }
}

/// A session that is being opened.
struct AttemptedSession {
    request: RequestId,
    kind: OpenRequestKind,
    views: Arc<ToolViews>,
    commands: mpsc::Sender<SessionCommand>,
    inbox: mpsc::Receiver<SessionCommand>,
    opened: Result<OpenedSession, SessionError>,
}

/// The request that opens a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenRequestKind {
    New,
    /// The editor gets the earlier messages.
    Load,
    /// The editor has the earlier messages.
    Resume,
}

/// The folders and servers of a session.
struct SessionParams {
    folder: PathBuf,
    additional_folders: Vec<PathBuf>,
    servers: Vec<McpServer>,
}

enum TaskOutcome {
    Opened(Box<AttemptedSession>),
    Done,
}

struct Agent {
    client: Client,
    source: Arc<dyn SessionSource>,
    options: AgentOptions,
    /// The editor's capabilities, after `initialize`.
    capabilities: Option<Arc<ClientCapabilities>>,
    sessions: HashMap<String, mpsc::Sender<SessionCommand>>,
    /// The tasks of sessions. They end after their sender is dropped.
    session_tasks: JoinSet<()>,
    /// Requests that take time.
    requests: JoinSet<TaskOutcome>,
}

impl Agent {
    async fn on_request(&mut self, id: RequestId, method: &str, params: Option<&Payload>) {
        let outcome = self.dispatch(&id, method, params).await;
        if let Err(error) = outcome {
            self.client.reject(id, error).await;
        }
    }

    /// Answers a request, or passes it on. An error is the response.
    async fn dispatch(
        &mut self,
        id: &RequestId,
        method: &str,
        params: Option<&Payload>,
    ) -> Result<(), RpcError> {
        if method == method::INITIALIZE {
            let request: InitializeRequest = decode(params)?;
            let response = self.initialize(request);
            self.client.respond(id.clone(), Ok(response)).await;
            return Ok(());
        }
        let Some(capabilities) = self.capabilities.clone() else {
            let text = "send `initialize` first";
            return Err(rpc_error(ErrorCode::InvalidRequest, text));
        };
        match method {
            method::AUTHENTICATE => {
                let text =
                    "there are no authentication methods; sign in to servers with `swb login`";
                Err(rpc_error(ErrorCode::InvalidParams, text))
            }
            method::SESSION_NEW => {
                let it: NewSessionRequest = decode(params)?;
                let params = SessionParams {
                    folder: it.cwd,
                    additional_folders: it.additional_directories,
                    servers: it.mcp_servers,
                };
                self.open((id, OpenRequestKind::New), SessionStart::New, params, capabilities)
            }
            method::SESSION_LOAD => {
                let it: LoadSessionRequest = decode(params)?;
                let params = SessionParams {
                    folder: it.cwd,
                    additional_folders: it.additional_directories,
                    servers: it.mcp_servers,
                };
                let start = self.continued(&it.session_id)?;
                self.open((id, OpenRequestKind::Load), start, params, capabilities)
            }
            method::SESSION_RESUME => {
                let it: ResumeSessionRequest = decode(params)?;
                let params = SessionParams {
                    folder: it.cwd,
                    additional_folders: it.additional_directories,
                    servers: it.mcp_servers,
                };
                let start = self.continued(&it.session_id)?;
                self.open((id, OpenRequestKind::Resume), start, params, capabilities)
            }
            method::SESSION_LIST => {
                let request: ListSessionsRequest = decode(params)?;
                self.list(id.clone(), request);
                Ok(())
            }
            method::SESSION_CLOSE => {
                let request: CloseSessionRequest = decode(params)?;
                self.close(id.clone(), &request.session_id).await
            }
            method::SESSION_PROMPT => {
                let PromptRequest { session_id, prompt, .. } = decode(params)?;
                let command = SessionCommand::Prompt { request: id.clone(), prompt };
                self.send(&session_id, command).await
            }
            method::SESSION_SET_MODE => {
                let SetSessionModeRequest { session_id, mode_id, .. } = decode(params)?;
                let mode = PermissionMode::parse(&mode_id.0).ok_or_else(|| {
                    let modes = PermissionMode::ALL.map(PermissionMode::id).join(", ");
                    rpc_error(ErrorCode::InvalidParams, format!("the modes are {modes}"))
                })?;
                let command = SessionCommand::SetMode { request: id.clone(), mode };
                self.send(&session_id, command).await
            }
            _ => {
                let name: String = method.chars().take(100).collect();
                let text = format!("the method `{name}` is unknown");
                Err(rpc_error(ErrorCode::MethodNotFound, text))
            }
        }
    }

    async fn on_notification(&mut self, method: &str, params: Option<&Payload>) {
        match method {
            method::SESSION_CANCEL => {
                if let Ok(CancelNotification { session_id, .. }) = decode(params) {
                    let _unknown_session = self.send(&session_id, SessionCommand::Cancel).await;
                }
            }
            method::CANCEL_REQUEST => {
                let params: Json = decode(params).unwrap_or_default();
                let request = RequestId::from_json(&params["requestId"]);
                for session in self.sessions.values() {
                    let command = SessionCommand::CancelRequest(request.clone());
                    let _session_over = session.send(command).await;
                }
            }
            _ => {}
        }
    }

    fn initialize(&mut self, request: InitializeRequest) -> InitializeResponse {
        let AgentOptions { name, title, version, .. } = &self.options;
        if let Some(info) = &request.client_info {
            info!(editor = info.name, version = info.version, "the editor has connected");
        }
        self.capabilities = Some(Arc::new(request.client_capabilities));
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new())
            .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
            .mcp_capabilities(McpCapabilities::new().http(true).sse(true))
            .session_capabilities(sessions);
        let info = Implementation::new(name.clone(), version.clone()).title(title.clone());
        // The version that we speak, whatever the editor asks for: it disconnects if it cannot speak it.
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(info)
    }

    fn continued(&self, id: &SessionId) -> Result<SessionStart, RpcError> {
        match self.sessions.contains_key(&*id.0) {
            true => {
                Err(rpc_error(ErrorCode::InvalidRequest, format!("the session `{id}` is open")))
            }
            false => Ok(SessionStart::Continue(id.0.to_string())),
        }
    }

    /// Opens a session beside other requests.
    fn open(
        &mut self,
        (request, kind): (&RequestId, OpenRequestKind),
        start: SessionStart,
        params: SessionParams,
        capabilities: Arc<ClientCapabilities>,
    ) -> Result<(), RpcError> {
        let SessionParams { folder, additional_folders, servers } = params;
        if self.sessions.len() + self.requests.len() >= MAX_SESSIONS {
            let text = format!("{MAX_SESSIONS} sessions are open; close one of them first");
            return Err(rpc_error(ErrorCode::InvalidRequest, text));
        }
        let invalid = |text: String| rpc_error(ErrorCode::InvalidParams, text);
        if !folder.is_absolute() {
            return Err(invalid("`cwd` is not an absolute path".to_owned()));
        }
        let servers =
            server_entries::server_entries(&servers).map_err(|error| invalid(error.to_string()))?;
        let roots = std::iter::once(&folder).chain(&additional_folders);
        let views = Arc::new(ToolViews {
            roots: roots.map(|it| it.canonicalize().unwrap_or_else(|_| it.clone())).collect(),
            folder: folder.clone(),
            workspace_server: self.options.workspace_server.clone(),
        });
        let (commands, inbox) = mpsc::channel(COMMAND_QUEUE);
        let (client, weak) = (self.client.clone(), commands.downgrade());
        let prompt = EditorPermissionPrompt::new(client.clone(), weak.clone(), views.clone());
        let elicitor = EditorElicitor::new(client, weak, capabilities);
        let open = OpenSession {
            folder,
            additional_folders,
            servers,
            start,
            prompt: Arc::new(prompt),
            elicitor: Arc::new(elicitor),
        };
        let (source, request) = (self.source.clone(), request.clone());
        self.requests.spawn(async move {
            let opened = source.open(open).await;
            let opening = AttemptedSession { request, kind, views, commands, inbox, opened };
            TaskOutcome::Opened(Box::new(opening))
        });
        Ok(())
    }

    /// Responds to the request that opened a session, and starts its task.
    async fn on_opened(&mut self, opening: AttemptedSession) {
        let AttemptedSession { request, kind, views, commands, inbox, opened } = opening;
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return self.client.reject(request, session_error(&error)).await,
        };
        let id = opened.id.clone();
        if self.sessions.contains_key(&id) {
            (opened.close)().await;
            let text = format!("the session `{id}` is open");
            return self.client.reject(request, rpc_error(ErrorCode::InvalidRequest, text)).await;
        }
        let modes: SessionModeState = modes::mode_state(opened.setup.call_context.mode);
        match kind {
            OpenRequestKind::New => {
                let response = NewSessionResponse::new(id.clone()).modes(modes);
                self.client.respond(request, Ok(response)).await;
            }
            OpenRequestKind::Load => {
                let pool = opened.setup.call_context.pool.borrow().clone();
                for update in replay::replay(&views, &pool, &opened.setup.history) {
                    let notification = SessionNotification::new(id.clone(), update);
                    self.client.notify(SESSION_UPDATE, &notification).await;
                }
                let response = LoadSessionResponse::new().modes(modes);
                self.client.respond(request, Ok(response)).await;
            }
            OpenRequestKind::Resume => {
                let response = ResumeSessionResponse::new().modes(modes);
                self.client.respond(request, Ok(response)).await;
            }
        }
        let session = Session::start(opened, self.client.clone(), views, commands.downgrade());
        self.session_tasks.spawn(session.run(inbox));
        self.sessions.insert(id, commands);
    }

    fn list(&mut self, request: RequestId, params: ListSessionsRequest) {
        let (client, source) = (self.client.clone(), self.source.clone());
        self.requests.spawn(async move {
            let sessions = source.list(params.cwd).await;
            let info = |it: StoredSession| {
                let StoredSession { id, folder, title, updated_at } = it;
                SessionInfo::new(id, folder).title(title).updated_at(updated_at)
            };
            let response = sessions
                .map(|it| ListSessionsResponse::new(it.into_iter().map(info).collect()))
                .map_err(|error| session_error(&error));
            client.respond(request, response).await;
            TaskOutcome::Done
        });
    }

    async fn close(&mut self, request: RequestId, id: &SessionId) -> Result<(), RpcError> {
        let session = self.sessions.remove(&*id.0).ok_or_else(|| unknown_session(id))?;
        session.send(SessionCommand::Close(request)).await.map_err(|_| unknown_session(id))
    }

    async fn send(&self, id: &SessionId, command: SessionCommand) -> Result<(), RpcError> {
        let session = self.sessions.get(&*id.0).ok_or_else(|| unknown_session(id))?;
        session.send(command).await.map_err(|_| unknown_session(id))
    }

    /// Ends all sessions at the same time, within the limit.
    async fn shut_down(self) {
        let Agent { client, options, sessions, mut session_tasks, mut requests, .. } = self;
        drop((client, sessions));
        let ending = async {
            while let Some(done) = requests.join_next().await {
                if let Ok(TaskOutcome::Opened(opening)) = done
                    && let Ok(opened) = opening.opened
                {
                    session_tasks.spawn((opened.close)());
                }
            }
            while session_tasks.join_next().await.is_some() {}
        };
        let _time_is_up = timeout(options.shutdown_limit, ending).await;
        requests.shutdown().await;
        session_tasks.shutdown().await;
    }
}

fn decode<T: DeserializeOwned>(params: Option<&Payload>) -> Result<T, RpcError> {
    let empty = || Payload::from_json("{}".into());
    params.cloned().unwrap_or_else(empty).decode().map_err(|error| {
        rpc_error(ErrorCode::InvalidParams, format!("the parameters are not valid: {error}"))
    })
}

fn unknown_session(id: &SessionId) -> RpcError {
    let id: String = id.0.chars().take(100).collect();
    rpc_error(ErrorCode::NotFound, format!("there is no open session `{id}`"))
}

fn session_error(error: &SessionError) -> RpcError {
    let code = match error.kind {
        SessionErrorKind::NotFound => ErrorCode::NotFound,
        SessionErrorKind::InvalidParams => ErrorCode::InvalidParams,
        SessionErrorKind::Failed => ErrorCode::Internal,
    };
    rpc_error(code, error.message.clone())
}
