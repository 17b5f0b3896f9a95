//! A session: one task that reads the program's frames, runs a conversation, and prints what happens. Requests of the
//! program are answered by `requests`, beside the running turn.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value as Json, json};
use switchboard::channel::ChannelInbox;
use switchboard::config::entry::server::TransportKind;
use switchboard::config::permission::PermissionMode;
use switchboard::permission::PermissionPrompt;
use switchboard::{CallContext, Host};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{sleep_until, timeout};

use crate::channel::{LocalPrompt, PendingChannelMessage, RelayPrompt};
use crate::control::backend::SessionBackend;
use crate::control::callbacks::{HookFrames, SdkHooks};
use crate::control::change_order::{Change, ChangeOrder};
use crate::control::frames::{EMULATED_VERSION, FrameContext, SessionState};
use crate::control::incoming::{FrameError, IncomingFrame, IncomingRequest, UserFrame};
use crate::control::peer::{ControlPeer, RequestFailure};
use crate::control::permission_prompt::{PermissionSource, SdkPermissionPrompt, StatePrompt};
use crate::control::requests::{AllowAll, RequestContext, status_word};
use crate::control::sdk_servers::SdkServers;
use crate::control::session_channels::{SessionInbox, SessionNotices};
use crate::control::session_command::SessionCommand;
use crate::control::state::{
    BypassMode, OpenRequest, PrintSessionState, PrintedCalls, SharedState, StateView,
};
use crate::control::turn_frames::{PartialMessages, TurnCauses, TurnFrames, TurnOutcome};
use crate::conversation::event::{ConversationEvent, TurnEnd};
use crate::conversation::handle::Conversation;
use crate::conversation::hooks::ConversationHooks;
use crate::conversation::setup::ConversationSetup;
use crate::conversation::structured_output::StructuredOutput;
use crate::ide::{IdeHooks, IdePrompt, IdeSession};
use crate::message::{ContentBlock, Message};
use crate::model::language_model::{LanguageModel, Usage};
use crate::transcript::Transcript;

/// How long the first message waits for the servers that the program hosts.
const HOSTED_SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the next message waits for a list that a server of the program announced as changed. Lists are fetched again
/// at most twice a second.
const LIST_CHANGE_TIMEOUT: Duration = Duration::from_secs(1);
/// The end of the methods that announce a changed list.
const LIST_CHANGED: &str = "/list_changed";
/// Why a message is not sent.
const NO_CONTENT: &str = "the message has no content that could be passed on to the model";
/// How long the conversation may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long requests may take after the last turn of a session whose input has ended: programs kill what does not exit
/// within seconds.
const LAST_REQUESTS_TIMEOUT: Duration = Duration::from_secs(2);
/// The most messages that wait for their turn.
const MAX_QUEUED: usize = 10_000;
/// The most requests of the program that are handled at the same time.
const MAX_OPEN_REQUESTS: usize = 4096;
/// How many commands may wait.
const COMMAND_BUFFER: usize = 64;

/// Requests that change nothing in the session, so they can stop anywhere.
const STOPPABLE_REQUESTS: [&str; 3] = ["mcp_call", "mcp_read_resource", "mcp_reconnect"];

/// What a session starts with.
pub struct SessionSetup {
    /// The host that makes tool calls.
    pub host: Host,
    /// The rules of tool calls. Its prompt is replaced.
    pub call_context: CallContext,
    /// The model.
    pub model: Arc<dyn LanguageModel>,
    /// The system prompt, unless the program sends another one.
    pub system_prompt: Arc<str>,
    /// The messages of the conversation that is continued.
    pub history: Vec<Message>,
    /// Where the conversation is stored.
    pub transcript: Option<Transcript>,
    /// The id of the session.
    pub session_id: String,
    /// The file of the transcript.
    pub transcript_path: PathBuf,
    /// The working folder.
    pub folder: PathBuf,
    /// The most responses in one turn.
    pub max_rounds: usize,
    /// Where permission is asked for.
    pub permission_source: PermissionSource,
    /// Whether the program can choose the mode that asks about nothing.
    pub bypass: BypassMode,
    /// What is printed besides the frames that every program gets.
    pub extra_frames: ExtraFrames,
    /// Hooks besides the program's.
    pub hooks: Vec<Arc<dyn ConversationHooks>>,
    /// What the program and the user have to know from the start.
    pub notices: Vec<String>,
    /// Fields of `initialize` without which no message is sent.
    pub awaited_fields: Vec<String>,
    /// A message that comes before those of the program.
    pub first_message: Option<String>,
    /// The session with an IDE, which shows edits beside the program's permission callback.
    pub ide: Arc<IdeSession>,
    /// The schema of the answer, if it is to be JSON.
    pub structured_output: Option<StructuredOutput>,
    /// The messages of channels.
    pub channels: Option<ChannelInbox>,
}

/// What is printed besides the frames that every program gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtraFrames {
    /// The events of a response while it streams.
    pub partial_messages: Option<PrintPartialMessages>,
    /// The start and end of hooks.
    pub hook_events: Option<PrintHookEvents>,
    /// The state of the session.
    pub session_state: Option<PrintSessionState>,
}

/// Prints the events of a response while it streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintPartialMessages;
/// Prints the start and end of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintHookEvents;
/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    /// The input ended, and the last turn succeeded.
    Finished,
    /// The input ended, and the last turn failed.
    FinishedWithError,
    /// The input made no sense.
    Broken(FrameError),
}

/// The end of a session's channel to the program.
pub struct Program {
    /// Sends frames.
    pub peer: ControlPeer,
    /// The program's frames.
    pub incoming: mpsc::Receiver<IncomingFrame>,
    /// The servers that it hosts.
    pub servers: SdkServers,
}

/// Runs a session until the program ends its input and nothing is left to do.
pub async fn run(
    setup: SessionSetup,
    backend: Arc<dyn SessionBackend>,
    program: Program,
) -> SessionEnd {
    let mut session = Session::start(setup, backend, program);
    let end = session.run().await;
    session.stop().await;
    end
}

/// What the session is doing.
enum Phase {
    Idle,
    /// Messages wait until the servers of the program are connected.
    Preparing(TurnInput, BoxFuture<'static, ()>),
    Running(Box<TurnFrames>),
}

/// What a turn begins with.
enum TurnInput {
    User(UserFrame),
    Channels(Vec<PendingChannelMessage>),
}

/// The task of a request.
struct RequestTask {
    handle: AbortHandle,
    withdrawal: Withdrawal,
}

/// What becomes of a request that the program withdraws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Withdrawal {
    /// It stops.
    Stops,
    /// It is only not answered: half of a change would be worse.
    RunsToItsEnd,
}

struct Session {
    context: Arc<RequestContext>,
    incoming: mpsc::Receiver<IncomingFrame>,
    commands: mpsc::Receiver<SessionCommand>,
    events: mpsc::Receiver<ConversationEvent>,
    task: JoinHandle<()>,
    model: Arc<dyn LanguageModel>,
    partial: PartialMessages,
    queue: VecDeque<UserFrame>,
    phase: Phase,
    /// The requests of the program that are handled now. Each task returns the id of its request.
    requests: JoinSet<String>,
    change_order: ChangeOrder,
    request_tasks: HashMap<String, RequestTask>,
    has_input: bool,
    /// When the session ends although requests are not answered: its input has ended, and nothing else is left to do.
    last_moment: Option<Instant>,
    has_initialized: bool,
    last_outcome: TurnOutcome,
    /// What is printed behind the first `init` frame.
    notices: Vec<String>,
    /// Fields of `initialize` that have not come.
    awaited_fields: Vec<String>,
    /// Why no message is sent: the session is not set up as the program wants it.
    setup_failure: Option<String>,
    first_message: Option<String>,
    printed_calls: watch::Sender<PrintedCalls>,
    /// When a server of the program last announced a changed list, and the revision of the pool then.
    list_change: Option<(Instant, u64)>,
    inbox: SessionInbox,
    channel_notices: SessionNotices,
    has_run_turn: bool,
}

impl Session {
    fn start(setup: SessionSetup, backend: Arc<dyn SessionBackend>, program: Program) -> Session {
        let Program { peer, incoming, servers } = program;
        let (command_sender, commands) = mpsc::channel(COMMAND_BUFFER);
        let SessionSetup { host, mut call_context, model, extra_frames, .. } = setup;
        let state = SharedState::new(StateView {
            frames: FrameContext { session_id: setup.session_id },
            transcript_path: setup.transcript_path,
            folder: setup.folder,
            mode: call_context.mode,
            prints_state: extra_frames.session_state,
            open_questions: BTreeMap::new(),
            is_action_announced: false,
            open_requests: BTreeMap::new(),
            interrupting_denials: BTreeSet::new(),
            denial_texts: BTreeMap::new(),
            is_denied_with_interrupt: false,
            state: SessionState::Idle,
            hook_table: Arc::default(),
            // The prompt of the conversation holds this state, so the state must not hold that prompt.
            call_context: Arc::new(call_context.clone().with_prompt(AllowAll)),
            model_name: model.name().to_owned(),
            total_usage: Usage::default(),
        });
        let caller = match &setup.permission_source {
            PermissionSource::Tool(_) => {
                // The mode is for the calls that it decides about.
                let asking = CallContext { mode: PermissionMode::Default, ..call_context.clone() };
                Some((host.clone(), Arc::new(asking.with_prompt(AllowAll))))
            }
            PermissionSource::None | PermissionSource::Program => None,
        };
        let local = match &setup.permission_source {
            PermissionSource::None => LocalPrompt::Refuses,
            PermissionSource::Tool(_) | PermissionSource::Program => LocalPrompt::Asks,
        };
        let prompt = Arc::new(SdkPermissionPrompt {
            peer: peer.clone(),
            backend: backend.clone(),
            state: state.clone(),
            commands: command_sender.clone(),
            source: setup.permission_source,
            caller,
        });
        let prompt = Arc::new(IdePrompt::new(prompt, setup.ide.clone()));
        let prompt = Arc::new(RelayPrompt::new(prompt, host.clone(), local));
        let prompt: Arc<dyn PermissionPrompt> =
            Arc::new(StatePrompt { inner: prompt, peer: peer.clone(), state: state.clone() });
        call_context.prompt = prompt.clone();
        let call_context = Arc::new(call_context);
        let hook_frames = match extra_frames.hook_events {
            Some(PrintHookEvents) => HookFrames::Printed,
            None => HookFrames::Left,
        };
        let (printed_calls, printed) = watch::channel(PrintedCalls::new());
        let own = SdkHooks {
            peer: peer.clone(),
            backend: backend.clone(),
            state: state.clone(),
            frames: hook_frames,
            printed,
        };
        let mut hooks: Vec<Arc<dyn ConversationHooks>> = vec![Arc::new(own)];
        hooks.push(Arc::new(IdeHooks::new(setup.ide)));
        hooks.extend(setup.hooks);
        let conversation_setup = ConversationSetup {
            host: host.clone(),
            call_context,
            model: Some(model.clone()),
            system_prompt: setup.system_prompt,
            history: setup.history,
            max_rounds: setup.max_rounds,
            hooks,
            structured_output: setup.structured_output,
            // The session begins turns itself, so that each has a result of its own.
            channels: None,
        };
        let (conversation, events, task) = match setup.transcript {
            Some(transcript) => Conversation::start_recorded(conversation_setup, transcript),
            None => Conversation::start(conversation_setup),
        };
        let channel_notices = SessionNotices::new(&host);
        let context = Arc::new(RequestContext {
            host,
            peer,
            backend,
            servers,
            conversation,
            state,
            prompt,
            commands: command_sender,
            bypass: setup.bypass,
        });
        let partial = match extra_frames.partial_messages {
            Some(PrintPartialMessages) => PartialMessages::Included,
            None => PartialMessages::Left,
        };
        Session {
            context,
            incoming,
            commands,
            events,
            task,
            model,
            partial,
            queue: VecDeque::new(),
            phase: Phase::Idle,
            requests: JoinSet::new(),
            change_order: ChangeOrder::default(),
            request_tasks: HashMap::new(),
            has_input: true,
            last_moment: None,
            has_initialized: false,
            last_outcome: TurnOutcome::Success,
            notices: setup.notices,
            awaited_fields: setup.awaited_fields,
            setup_failure: None,
            first_message: setup.first_message,
            printed_calls,
            list_change: None,
            inbox: SessionInbox::new(setup.channels),
            channel_notices,
            has_run_turn: false,
        }
    }

    async fn run(&mut self) -> SessionEnd {
        loop {
            self.begin_turn().await;
            let has_ended = !self.has_input && matches!(self.phase, Phase::Idle);
            if has_ended && self.requests.is_empty() {
                return self.end();
            }
            let last_moment = has_ended.then(|| {
                *self.last_moment.get_or_insert_with(|| Instant::now() + LAST_REQUESTS_TIMEOUT)
            });
            let takes_channel_messages = self.takes_channel_messages();
            let preparation = match &mut self.phase {
                Phase::Preparing(_, ready) => ready.left_future(),
                Phase::Idle | Phase::Running(_) => std::future::pending().right_future(),
            };
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => self.on_command(command).await,
                Some(event) = self.events.recv() => self.on_event(event).await,
                frame = self.incoming.recv(), if self.has_input => match frame {
                    Some(IncomingFrame::Broken(error)) => return SessionEnd::Broken(error),
                    Some(frame) => {
                        self.on_frame(frame).await;
                        // Not before the first frame, which may set the session up.
                        self.queue_first_message();
                    }
                    None => self.end_input(),
                },
                () = until(last_moment) => return self.end(),
                () = preparation => self.send_prepared().await,
                line = self.channel_notices.next() => self.context.backend.warn(&line),
                messages = self.inbox.next_messages(), if takes_channel_messages => {
                    self.prepare_channel_turn(messages).await;
                }
                Some(handled) = self.requests.join_next_with_id() => {
                    // An error means that the program withdrew the request. A later request may have its id.
                    if let Ok((task, id)) = handled
                        && self.request_tasks.get(&id).is_some_and(|it| it.handle.id() == task)
                    {
                        self.request_tasks.remove(&id);
                    }
                }
            }
        }
    }

    fn end(&self) -> SessionEnd {
        match self.last_outcome {
            TurnOutcome::Success => SessionEnd::Finished,
            TurnOutcome::Error => SessionEnd::FinishedWithError,
        }
    }

    /// The program sends nothing more, so its servers do not answer either: no message waits for them.
    fn end_input(&mut self) {
        self.has_input = false;
        if let Phase::Preparing(_, ready) = &mut self.phase {
            *ready = std::future::ready(()).boxed();
        }
    }

    async fn stop(mut self) {
        self.requests.shutdown().await;
        let Session { context, events, task, commands, .. } = self;
        context.peer.finish();
        // The last handles of the conversation.
        drop((context, events, commands));
        let _too_slow = timeout(END_TIMEOUT, task).await;
    }

    async fn on_frame(&mut self, frame: IncomingFrame) {
        match frame {
            IncomingFrame::User(_) if self.queue.len() >= MAX_QUEUED => {
                let text = format!("more than {MAX_QUEUED} messages wait, so one was dropped");
                self.context.backend.warn(&text);
            }
            IncomingFrame::User(user) => {
                if !user.left_out.is_empty() {
                    let names = user.left_out.join(", ");
                    let text = format!("a message contained {names}, which could not be passed on");
                    self.context.backend.warn(&text);
                }
                self.queue.push_back(user);
            }
            IncomingFrame::Request(request) => self.on_request(request).await,
            IncomingFrame::InvalidRequest { id, why } => {
                let failure = RequestFailure::new(why);
                self.context.peer.respond_with(&id, Err(failure), Json::Null).await;
            }
            IncomingFrame::Cancelled(id) => self.withdraw(&id),
            IncomingFrame::Ended => self.end_input(),
            // Handled by the caller.
            IncomingFrame::Broken(_) => {}
        }
    }

    async fn on_request(&mut self, request: IncomingRequest) {
        let peer = self.context.peer.clone();
        match request.subtype.as_str() {
            // Before any message: it sets the session up. A program that sends it again later gets an answer beside the
            // running turn.
            "initialize" if !self.has_initialized || self.setup_failure.is_some() => {
                self.has_initialized = true;
                // Later changes wait for it. It waits for none: an earlier one may need this task to end.
                let _turn = self.change_order.turn(Change::of("initialize"));
                let outcome = self.initialize(&request.body).await;
                self.context.respond_to_initialize(&request.id, outcome).await;
            }
            "interrupt" => {
                self.interrupt().await;
                let queued: Vec<&str> =
                    self.queue.iter().filter_map(|it| it.uuid.as_deref()).collect();
                let body = json!({"still_queued": queued});
                self.context.peer.respond(&request.id, Ok(body)).await;
            }
            _ if self.context.state.read(|it| it.open_requests.contains_key(&request.id)) => {
                let why = "a request with this `request_id` is not answered yet";
                peer.respond(&request.id, Err(RequestFailure::new(why))).await;
            }
            _ if self.requests.len() >= MAX_OPEN_REQUESTS => {
                let why = format!("more than {MAX_OPEN_REQUESTS} requests wait for their answers");
                peer.respond(&request.id, Err(RequestFailure::new(why))).await;
            }
            _ => {
                let method = request.body["message"]["method"].as_str().unwrap_or_default();
                if method.ends_with(LIST_CHANGED) {
                    let revision = self.context.host.pool().revision();
                    self.list_change = Some((Instant::now(), revision));
                }
                let (id, context) = (request.id.clone(), self.context.clone());
                let withdrawal = match STOPPABLE_REQUESTS.contains(&request.subtype.as_str()) {
                    true => Withdrawal::Stops,
                    false => Withdrawal::RunsToItsEnd,
                };
                context.state.update(|it| it.open_requests.insert(id.clone(), OpenRequest::Wanted));
                let turn = self.change_order.turn(Change::of(&request.subtype));
                let handle =
                    self.requests.spawn(async move { context.answer(request, turn).await });
                self.request_tasks.insert(id, RequestTask { handle, withdrawal });
            }
        }
    }

    async fn initialize(&mut self, body: &Json) -> Result<Json, RequestFailure> {
        self.awaited_fields.retain(|name| body.get(name).is_none_or(Json::is_null));
        let outcome = match self.unavailable_fields() {
            Some(why) => Err(RequestFailure::new(why)),
            None => self.context.initialize(body).await,
        };
        self.setup_failure = outcome.as_ref().err().map(|it| it.message.clone());
        outcome
    }

    /// Says which fields of `initialize` have not come, if any.
    fn unavailable_fields(&self) -> Option<String> {
        let names = self.awaited_fields.join(", ");
        (!names.is_empty()).then(|| {
            format!("`initialize` does not contain what --initialize-fields announced: {names}")
        })
    }

    fn queue_first_message(&mut self) {
        if let Some(text) = self.first_message.take() {
            let content = vec![ContentBlock::Text { text }];
            self.queue.push_front(UserFrame { content, left_out: Vec::new(), uuid: None });
        }
    }

    /// Stops the request of this id, or at least its answer.
    fn withdraw(&mut self, id: &str) {
        // One that is answered, or never was one, is none.
        let Some(RequestTask { handle, withdrawal }) = self.request_tasks.remove(id) else {
            return;
        };
        self.context.state.update(|it| match (withdrawal, it.open_requests.get_mut(id)) {
            (Withdrawal::Stops, Some(_)) => {
                handle.abort();
                it.open_requests.remove(id);
            }
            (Withdrawal::RunsToItsEnd, Some(open)) => *open = OpenRequest::Withdrawn,
            (_, None) => {}
        });
    }

    async fn interrupt(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {}
            Phase::Preparing(input, _) => {
                match input {
                    TurnInput::User(_) => {}
                    TurnInput::Channels(messages) => self.inbox.postpone(messages),
                }
                let frames = self.turn_frames();
                self.print_start().await;
                self.end_turn(&frames, &TurnEnd::Interrupted).await;
            }
            running @ Phase::Running(_) => {
                self.phase = running;
                self.context.conversation.interrupt().await;
            }
        }
    }

    async fn on_command(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::SetMode { mode, changed } => {
                let mut turn = self.change_order.turn(&[Change::Mode]);
                let context = self.context.clone();
                self.requests.spawn(async move {
                    turn.begin().await;
                    if let Err(failure) = context.set_mode(&mode).await {
                        context.backend.warn(&failure.message);
                    }
                    let _call_ended = changed.send(());
                    // It is no request of the program.
                    String::new()
                });
            }
            SessionCommand::ModelChanged(model) => self.model = model,
        }
    }

    /// Begins the next turn if none is running.
    async fn begin_turn(&mut self) {
        while matches!(self.phase, Phase::Idle) {
            let Some(user) = self.queue.pop_front() else { return };
            self.context.state.update(|it| it.state = SessionState::Running);
            self.print_state(SessionState::Running).await;
            match self.refusal(&user) {
                Some(why) => self.refuse_turn(&why).await,
                None => self.prepare_turn(TurnInput::User(user)),
            }
        }
    }

    /// Why a message is not sent to the model.
    fn refusal(&self, user: &UserFrame) -> Option<String> {
        let not_set_up = self.setup_failure.clone().or_else(|| self.unavailable_fields());
        not_set_up.or_else(|| match (user.content.is_empty(), user.left_out.is_empty()) {
            (true, true) => Some(NO_CONTENT.to_owned()),
            (true, false) => Some(format!("{NO_CONTENT}: {}", user.left_out.join(", "))),
            (false, _) => None,
        })
    }

    /// May messages of channels begin a turn? Those of the program come first, and so does what sets the session up.
    fn takes_channel_messages(&self) -> bool {
        let is_set_up = (self.has_initialized || self.has_run_turn)
            && self.setup_failure.is_none()
            && self.awaited_fields.is_empty();
        is_set_up && self.has_input && self.queue.is_empty() && matches!(self.phase, Phase::Idle)
    }

    async fn prepare_channel_turn(&mut self, messages: Vec<PendingChannelMessage>) {
        self.context.state.update(|it| it.state = SessionState::Running);
        self.print_state(SessionState::Running).await;
        self.prepare_turn(TurnInput::Channels(messages));
    }

    fn prepare_turn(&mut self, input: TurnInput) {
        self.has_run_turn = true;
        let host = self.context.host.clone();
        let list_change = self.list_change.take();
        if !self.has_input {
            self.phase = Phase::Preparing(input, std::future::ready(()).boxed());
            return;
        }
        let ready = async move {
            if let Some((at, revision)) = list_change {
                let rest = LIST_CHANGE_TIMEOUT.saturating_sub(at.elapsed());
                let _not_changed = timeout(rest, next_pool(&host, revision)).await;
            }
            // One that does not answer costs the first turn this time, and its tools are missing in it.
            let _too_slow = timeout(HOSTED_SERVER_TIMEOUT, hosted_servers_settled(&host)).await;
        };
        self.phase = Phase::Preparing(input, ready.boxed());
    }

    /// A turn that the model learns nothing of.
    async fn refuse_turn(&mut self, why: &str) {
        self.print_start().await;
        let frames = self.turn_frames();
        self.print_result(frames.refused(why, Instant::now())).await;
    }

    async fn send_prepared(&mut self) {
        let frames = Box::new(self.turn_frames());
        match std::mem::replace(&mut self.phase, Phase::Running(frames)) {
            Phase::Preparing(TurnInput::User(user), _) => {
                self.context.conversation.send(user.content).await;
            }
            Phase::Preparing(TurnInput::Channels(messages), _) => {
                self.context.conversation.send_from_channels(messages).await;
            }
            Phase::Idle | Phase::Running(_) => {}
        }
    }

    fn turn_frames(&self) -> TurnFrames {
        let frames = self.context.state.read(|it| it.frames.clone());
        let model = (self.model.name(), self.model.context_window());
        TurnFrames::new(frames, model, self.partial, Instant::now())
    }

    async fn on_event(&mut self, event: ConversationEvent) {
        let mut frames = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Running(frames) => frames,
            // An event of no turn of the program must not lose the message that waits.
            other @ (Phase::Idle | Phase::Preparing(..)) => {
                self.phase = other;
                return;
            }
        };
        if let ConversationEvent::TurnEnded(end) = &event {
            self.inbox.end_turn();
            return self.end_turn(&frames, end).await;
        }
        if let ConversationEvent::MessagesAccepted { .. } | ConversationEvent::ChannelMessages(_) =
            &event
        {
            self.print_start().await;
        }
        if let ConversationEvent::Usage(usage) = &event {
            self.context.state.update(|it| it.total_usage = *usage);
        }
        for frame in frames.on(&event, Instant::now()) {
            self.context.peer.send(&frame).await;
        }
        if let ConversationEvent::CallStarted(call) = &event {
            self.printed_calls.send_modify(|it| {
                it.insert(call.id.to_string());
            });
        }
        self.phase = Phase::Running(frames);
    }

    async fn end_turn(&mut self, frames: &TurnFrames, end: &TurnEnd) {
        let is_denied_with_interrupt =
            self.context.state.update(|it| std::mem::take(&mut it.is_denied_with_interrupt));
        let causes = TurnCauses { is_denied_with_interrupt };
        self.print_result(frames.result(end, &causes, Instant::now())).await;
    }

    async fn print_result(&mut self, (frames, outcome): (Vec<Json>, TurnOutcome)) {
        for frame in frames {
            self.context.peer.send(&frame).await;
        }
        self.last_outcome = outcome;
        self.printed_calls.send_replace(PrintedCalls::new());
        // Idle means that nothing is owed: not while messages wait.
        if self.queue.is_empty() {
            self.context.state.update(|it| it.state = SessionState::Idle);
            self.print_state(SessionState::Idle).await;
        }
    }

    async fn print_state(&mut self, state: SessionState) {
        let frame = self.context.state.update(|it| {
            it.is_action_announced = false;
            it.state_frame(state)
        });
        if let Some(frame) = frame {
            self.context.peer.send(&frame).await;
        }
    }

    /// The first frames of a turn.
    async fn print_start(&mut self) {
        self.print_init().await;
        for notice in std::mem::take(&mut self.notices) {
            let members = json!({"content": notice, "level": "warning"});
            let frame = self.context.state.read(|it| it.frames.system("informational", members));
            self.context.peer.send(&frame).await;
        }
    }

    async fn print_init(&mut self) {
        let context = &self.context;
        let plugins = context.backend.plugins();
        let servers = context.listed_servers();
        let servers: Vec<Json> = servers
            .iter()
            .map(|it| {
                let source = context.backend.server_source(&it.name);
                json!({"name": it.name, "status": status_word(&it.status), "source": source})
            })
            .collect();
        let frame = context.state.read(|it| {
            it.frames.system(
                "init",
                json!({
                    "cwd": it.folder,
                    "tools": context.tool_names(),
                    "mcp_servers": servers,
                    "model": self.model.name(),
                    "permissionMode": it.mode_id(),
                    "slash_commands": context.command_names(),
                    "apiKeySource": context.backend.api_key_source(),
                    "claude_code_version": EMULATED_VERSION,
                    "switchboard_version": context.backend.version(),
                    "output_style": "default",
                    "agents": [],
                    "skills": [],
                    "plugins": plugins,
                    "capabilities": [],
                }),
            )
        });
        context.peer.send(&frame).await;
    }
}

/// Waits until a moment; forever without one.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for another pool than the one of this revision.
async fn next_pool(host: &Host, revision: u64) {
    let mut pools = host.watch_pool();
    // An error means that the host has stopped.
    drop(pools.wait_for(|it| it.revision() != revision).await);
}

/// Waits until the servers that the program hosts are connected or have failed.
async fn hosted_servers_settled(host: &Host) {
    let mut snapshots = host.watch();
    loop {
        let is_settled = snapshots
            .borrow_and_update()
            .servers
            .values()
            .all(|it| it.transport != TransportKind::Sdk || it.status.is_settled());
        if is_settled {
            host.settled_pool().await;
            return;
        }
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}
