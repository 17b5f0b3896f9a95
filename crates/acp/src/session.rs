//! The task of a session: owns its conversation, runs one prompt at a time, and sends the editor everything of the
//! session in order: updates, permission requests, responses.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CloseSessionResponse, ContentBlock as EditorBlock, CurrentModeUpdate, PromptResponse,
    SessionId, SessionNotification, SessionUpdate, SetSessionModeResponse, StopReason,
    ToolCallContent, ToolCallStatus, UsageUpdate,
};
use serde_json::json;
use switchboard::wire::jsonrpc::message::{RequestId, RpcError};
use switchboard::{CallContext, Host};
use switchboard_chat::conversation::event::{ConversationEvent, TurnEnd};
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::message::ContentBlock;
use switchboard_chat::model::language_model::ModelError;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use crate::client::Client;
use crate::commands;
use crate::commands::Commands;
use crate::content;
use crate::edit_hooks::EditHooks;
use crate::method::{ErrorCode, SESSION_UPDATE, rpc_error};
use crate::session_command::{EditorRequest, SessionCommand};
use crate::session_source::{CloseSession, OpenedSession};
use crate::tool_view::ToolViews;
use crate::updates;
use crate::updates::ShownChanges;

/// What the conversation is doing.
enum Turn {
    /// Nothing.
    Idle,
    /// It fetches the prompt of a server for this request.
    FetchingPrompt(RequestId),
    /// The model works on this request.
    Running(RequestId),
}

/// The task of a session.
pub(crate) struct Session {
    id: SessionId,
    client: Client,
    views: Arc<ToolViews>,
    host: Host,
    call_context: Arc<CallContext>,
    conversation: Conversation,
    events: mpsc::Receiver<ConversationEvent>,
    agent_loop: JoinHandle<()>,
    close: CloseSession,
    context_window: Option<u64>,
    turn: Turn,
    /// Whether the running turn was cancelled.
    is_cancelled: bool,
    /// Fetches the prompt of a server. At most one.
    fetching: JoinSet<Result<Vec<ContentBlock>, String>>,
    /// The changes of running calls. Removed when the call ends.
    changes: HashMap<Arc<str>, Vec<ToolCallContent>>,
    commands: Commands,
}

impl Session {
    /// Starts the conversation of an opened session.
    pub(crate) fn start(
        opened: OpenedSession,
        client: Client,
        views: Arc<ToolViews>,
        commands: mpsc::WeakSender<SessionCommand>,
    ) -> Session {
        let OpenedSession { id, mut setup, transcript, close } = opened;
        let (host, call_context) = (setup.host.clone(), setup.call_context.clone());
        let context_window = setup.model.as_ref().and_then(|it| it.context_window());
        let pool = call_context.pool.clone();
        setup.hooks.push(Arc::new(EditHooks { views: views.clone(), pool, commands }));
        let (conversation, events, agent_loop) = Conversation::start_recorded(setup, transcript);
        Session {
            id: SessionId::new(id),
            client,
            views,
            host,
            call_context,
            conversation,
            events,
            agent_loop,
            close,
            context_window,
            turn: Turn::Idle,
            is_cancelled: false,
            fetching: JoinSet::new(),
            changes: HashMap::new(),
            commands: Commands::new(),
        }
    }

    /// Runs until every sender of commands is dropped, and stops the session's servers.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<SessionCommand>) {
        let mut snapshots = self.host.watch();
        snapshots.mark_changed();
        let close_request = loop {
            tokio::select! {
                biased;
                // Events first: a call has started when the user is asked about it.
                Some(event) = self.events.recv() => self.on_event(event).await,
                command = inbox.recv() => match command {
                    Some(SessionCommand::Close(request)) => break Some(request),
                    Some(command) => self.execute(command).await,
                    None => break None,
                },
                Some(fetched) = self.fetching.join_next() => {
                    self.on_prompt_fetched(fetched.unwrap_or_else(|_| Err("the prompt could not be fetched".to_owned()))).await;
                }
                Ok(()) = snapshots.changed() => {
                    let commands = commands::commands(&snapshots.borrow_and_update());
                    if commands != self.commands {
                        self.update(commands::commands_update(&commands)).await;
                        self.commands = commands;
                    }
                }
            }
        };
        let client = self.client.clone();
        drop(inbox);
        self.shut_down().await;
        if let Some(request) = close_request {
            client.respond(request, Ok(CloseSessionResponse::new())).await;
        }
    }

    async fn shut_down(mut self) {
        self.fetching.shutdown().await;
        if let Some(request) = self.take_request() {
            self.client.respond(request, Ok(PromptResponse::new(StopReason::Cancelled))).await;
        }
        drop((self.conversation, self.events));
        let _panicked = self.agent_loop.await;
        (self.close)().await;
    }

    async fn execute(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Prompt { request, prompt } => self.start_turn(request, prompt).await,
            SessionCommand::Cancel => self.cancel().await,
            SessionCommand::CancelRequest(request) => match &self.turn {
                Turn::FetchingPrompt(running) | Turn::Running(running) if *running == request => {
                    self.cancel().await;
                }
                Turn::FetchingPrompt(_) | Turn::Running(_) | Turn::Idle => {}
            },
            SessionCommand::SetMode { request, mode } => {
                let context = CallContext { mode, ..CallContext::clone(&self.call_context) };
                self.call_context = Arc::new(context);
                self.conversation.set_call_context(self.call_context.clone());
                self.client.respond(request, Ok(SetSessionModeResponse::new())).await;
                let update = CurrentModeUpdate::new(mode.id());
                self.update(SessionUpdate::CurrentModeUpdate(update)).await;
            }
            SessionCommand::Ask(request) => self.ask(*request).await,
            SessionCommand::ShowChanges { id, content } => {
                self.update(updates::call_content(&id, content.clone())).await;
                self.changes.insert(id, content);
            }
            SessionCommand::CallPermitted { id } => {
                self.update(updates::call_status(&id, ToolCallStatus::InProgress)).await;
            }
            SessionCommand::Warn(text) => self.update(updates::agent_thought(text)).await,
            // It ends the loop that calls this.
            SessionCommand::Close(_) => {}
        }
    }

    async fn start_turn(&mut self, request: RequestId, prompt: Vec<EditorBlock>) {
        match self.turn {
            Turn::Idle => {}
            Turn::FetchingPrompt(_) | Turn::Running(_) => {
                let text = "a prompt is running in this session; cancel it first";
                let error = rpc_error(ErrorCode::InvalidRequest, text);
                return self.client.reject(request, error).await;
            }
        }
        self.is_cancelled = false;
        if let Some(invocation) = commands::invocation(&self.commands, &prompt) {
            let host = self.host.clone();
            self.fetching.spawn(async move { commands::prompt_messages(&host, invocation).await });
            self.turn = Turn::FetchingPrompt(request);
            return;
        }
        match content::prompt_blocks(&prompt) {
            Ok(blocks) => {
                self.turn = Turn::Running(request);
                self.conversation.send(blocks).await;
            }
            Err(error) => {
                let error = rpc_error(ErrorCode::InvalidParams, error.to_string());
                self.client.reject(request, error).await;
            }
        }
    }

    async fn on_prompt_fetched(&mut self, fetched: Result<Vec<ContentBlock>, String>) {
        let Some(request) = self.take_request() else { return };
        match fetched {
            Ok(blocks) => {
                self.turn = Turn::Running(request);
                self.conversation.send(blocks).await;
            }
            Err(message) => {
                self.client.reject(request, rpc_error(ErrorCode::Internal, message)).await;
            }
        }
    }

    async fn cancel(&mut self) {
        match self.turn {
            Turn::Idle => {}
            Turn::FetchingPrompt(_) => {
                self.fetching.shutdown().await;
                if let Some(request) = self.take_request() {
                    let response = PromptResponse::new(StopReason::Cancelled);
                    self.client.respond(request, Ok(response)).await;
                }
            }
            Turn::Running(_) => {
                self.is_cancelled = true;
                self.conversation.interrupt().await;
            }
        }
    }

    async fn ask(&mut self, editor_request: EditorRequest) {
        let EditorRequest { request, method, mut params, call_id } = editor_request;
        params["sessionId"] = json!(self.id);
        if let Some(changes) = call_id.and_then(|id| self.changes.get(&id))
            && let Some(content) = params["toolCall"]["content"].as_array_mut()
        {
            let changes = changes.iter().filter_map(|it| serde_json::to_value(it).ok());
            content.splice(0..0, changes);
        }
        self.client.send_request(request, method, &params).await;
    }

    async fn on_event(&mut self, event: ConversationEvent) {
        let update = match event {
            ConversationEvent::Text(text) => updates::agent_text(text),
            ConversationEvent::Thinking(text) => updates::agent_thought(text),
            ConversationEvent::CallStarted(call) => {
                let pool = self.call_context.pool.borrow().clone();
                updates::call_started(&self.views, &pool, &call)
            }
            ConversationEvent::CallProgress { id, progress, total, message } => {
                match self.changes.contains_key(&id) {
                    // Progress would replace the changes.
                    true => updates::call_status(&id, ToolCallStatus::InProgress),
                    false => updates::call_progress(&id, (progress, total), message.as_deref()),
                }
            }
            ConversationEvent::CallEnded { id, outcome, text, result, .. } => {
                let changes = match self.changes.remove(&id) {
                    Some(_) => ShownChanges::Shown,
                    None => ShownChanges::None,
                };
                updates::call_ended(&id, outcome, (&text, result.as_deref()), changes)
            }
            ConversationEvent::Usage(_) => match self.context_window {
                Some(size) => {
                    let used = self.conversation.status().context_tokens;
                    SessionUpdate::UsageUpdate(UsageUpdate::new(used, size))
                }
                None => return,
            },
            ConversationEvent::Retrying { attempt, after, reason } => {
                let seconds = after.as_secs_f64();
                updates::agent_thought(format!(
                    "\n[attempt {attempt} failed: {reason}; again in {seconds:.1} s]\n"
                ))
            }
            ConversationEvent::TurnEnded(end) => return self.on_turn_ended(end).await,
            ConversationEvent::MessagesAccepted { .. }
            | ConversationEvent::ChannelMessages(_)
            | ConversationEvent::ToolUseStarted { .. }
            | ConversationEvent::ToolInput(_)
            | ConversationEvent::BlockEnded(_)
            | ConversationEvent::StructuredOutput(_)
            | ConversationEvent::ResponseEnded(_) => return,
        };
        self.update(update).await;
    }

    async fn on_turn_ended(&mut self, end: TurnEnd) {
        let stop_reason = match end {
            // Whatever an interrupted turn ends with, the protocol wants this.
            _ if self.is_cancelled => Ok(StopReason::Cancelled),
            TurnEnd::Finished => Ok(StopReason::EndTurn),
            TurnEnd::CutShort => Ok(StopReason::MaxTokens),
            TurnEnd::Refused => Ok(StopReason::Refusal),
            TurnEnd::Interrupted => Ok(StopReason::Cancelled),
            TurnEnd::TooManyRounds => Ok(StopReason::MaxTurnRequests),
            // An editor sets no schema.
            TurnEnd::NoStructuredOutput => Ok(StopReason::EndTurn),
            TurnEnd::StoppedByHook(reason) => {
                self.update(updates::agent_text(reason)).await;
                Ok(StopReason::EndTurn)
            }
            TurnEnd::Failed(error) => Err(model_error(&error)),
        };
        self.changes.clear();
        if let Some(why) = self.conversation.status().write_error {
            let text = format!("\n[this conversation is not saved: {why}]\n");
            self.update(updates::agent_thought(text)).await;
        }
        if let Some(request) = self.take_request() {
            self.client.respond(request, stop_reason.map(PromptResponse::new)).await;
        }
    }

    /// The request of the current turn, which ends with this.
    fn take_request(&mut self) -> Option<RequestId> {
        match std::mem::replace(&mut self.turn, Turn::Idle) {
            Turn::Idle => None,
            Turn::FetchingPrompt(request) | Turn::Running(request) => Some(request),
        }
    }

    async fn update(&self, update: SessionUpdate) {
        let notification = SessionNotification::new(self.id.clone(), update);
        self.client.notify(SESSION_UPDATE, &notification).await;
    }
}

/// A failed model request as an error of the prompt, with all causes.
fn model_error(error: &ModelError) -> RpcError {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    rpc_error(ErrorCode::Internal, message)
}
