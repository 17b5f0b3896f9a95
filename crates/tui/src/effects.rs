//! Runs the effects that updates ask for: messages to the model, tool calls, slash commands, changes to servers. Slow
//! effects run in a task beside the screen and report their result as an event.

pub mod effect;
mod pages;
mod prompts;
mod resource_mentions;
mod server_actions;
pub(crate) mod tool_calls;

use std::sync::Arc;

use switchboard::config::display::printable;
use switchboard::config::permission::PermissionMode;
use switchboard::sources::loader::Configuration;
use switchboard::{CallContext, Host};
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::ide::{ActiveSelection, IdeSession, IdeUpdates};
use switchboard_chat::message::ContentBlock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::backend::{Backend, ErrorText, PendingModel};
use crate::configured_servers::ConfiguredServers;
use crate::effects::effect::Effect;
use crate::elicitor::ScreenElicitor;
use crate::slash_command::SlashCommand;
use crate::state::active_model::ActiveModel;
use crate::state::event::{ScreenEvent, Withdrawal};
use tool_calls::UserCalls;

/// The answer to a message while no model is set.
pub const NO_MODEL: &str = "No model is set, so there is no answer to that.\n\
    hint: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or `model` in your settings (/model says where)\n\
    Every slash command works without one: /help lists them, /call calls a tool.";

/// What an [`EffectRunner`] works with.
pub struct EffectContext {
    /// The program around the screen.
    pub backend: Arc<dyn Backend>,
    /// The host.
    pub host: Host,
    /// The context of tool calls.
    pub call_context: Arc<CallContext>,
    /// The configuration in effect.
    pub configuration: Arc<Configuration>,
    /// The conversation.
    pub conversation: Conversation,
    /// The session with the IDE.
    pub ide: Arc<IdeSession>,
    /// Asks the user.
    pub elicitor: ScreenElicitor,
    /// The user's settings file, as it is displayed.
    pub settings_file: String,
    /// The width of the terminal.
    pub width: usize,
}

/// Runs effects.
pub struct EffectRunner {
    context: EffectContext,
    /// Receives the outcomes of tasks.
    events: mpsc::Sender<ScreenEvent>,
    /// The tasks beside the screen. Dropping the set aborts them.
    tasks: JoinSet<()>,
    model: Option<ActiveModel>,
    user_calls: UserCalls,
    /// Events for the caller to apply next. Bounded by what one effect says.
    pending_events: Vec<ScreenEvent>,
}

/// An effect that only the owner of the terminal can run.
#[derive(Debug, PartialEq, Eq)]
pub enum TerminalEffect {
    /// Leave.
    Quit,
    /// Open the user's editor with a text.
    OpenEditor(String),
    /// Suspend the process.
    Suspend,
    /// Draw everything again.
    Repaint,
    /// Ring the bell.
    RingBell,
    /// Add a text to the input history.
    SaveHistory(String),
}

impl EffectRunner {
    /// A runner without a model yet. Outcomes of its tasks go to `events`.
    pub fn new(context: EffectContext, events: mpsc::Sender<ScreenEvent>) -> EffectRunner {
        EffectRunner {
            context,
            events,
            tasks: JoinSet::new(),
            model: None,
            user_calls: UserCalls::default(),
            pending_events: Vec::new(),
        }
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.context.host
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        &self.context.conversation
    }

    /// The model of the conversation.
    pub fn model(&self) -> Option<&ActiveModel> {
        self.model.as_ref()
    }

    /// Notes which model the conversation has now.
    pub fn set_model(&mut self, model: Option<ActiveModel>) {
        self.model = model;
    }

    /// Notes the width of the terminal.
    pub fn set_width(&mut self, width: usize) {
        self.context.width = width;
    }

    /// The configured servers, for the server panel.
    pub fn configured_servers(&self) -> ConfiguredServers {
        self.context.backend.configured_servers(&self.context.configuration)
    }

    /// Runs a task that is aborted with this runner.
    pub(crate) fn spawn_task(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Is any task running, or finished and not joined yet?
    pub fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Waits until one task has finished; none where there is none. May be dropped and called again.
    pub async fn join_task(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(|_| ())
    }

    /// Aborts all tasks and writes out the audit log.
    pub async fn shutdown(mut self) {
        self.tasks.shutdown().await;
        self.context.call_context.audit.flush().await;
    }

    /// Runs an effect. Returns it where only the owner of the terminal can run it.
    pub async fn run(&mut self, effect: Effect) -> Option<TerminalEffect> {
        match effect {
            Effect::Quit | Effect::RunCommand(SlashCommand::Quit) => {
                return Some(TerminalEffect::Quit);
            }
            Effect::OpenEditor(text) => return Some(TerminalEffect::OpenEditor(text)),
            Effect::Suspend => return Some(TerminalEffect::Suspend),
            Effect::Repaint => return Some(TerminalEffect::Repaint),
            Effect::RingBell => return Some(TerminalEffect::RingBell),
            Effect::SaveHistory(text) => return Some(TerminalEffect::SaveHistory(text)),
            Effect::SendMessage(text) => self.send_message(text).await,
            Effect::WithdrawMessage => {
                let conversation = self.context.conversation.clone();
                self.spawn(async move {
                    match conversation.withdraw_last().await {
                        true => ScreenEvent::MessageWithdrawn(Withdrawal::Withdrawn),
                        false => ScreenEvent::MessageWithdrawn(Withdrawal::TooLate),
                    }
                });
            }
            Effect::Interrupt => {
                self.user_calls.cancel_all();
                self.context.conversation.interrupt().await;
            }
            Effect::RunCommand(command) => self.run_command(command).await,
            Effect::RunServerAction(action) => self.run_server_action(action),
            Effect::SetMode(mode) => self.set_mode(mode).await,
            Effect::GetPrompt(invocation) => self.get_prompt(invocation),
            Effect::CompleteArgument { prompt, typed } => self.complete_argument(prompt, typed),
        }
        None
    }

    /// Puts another configuration into effect.
    pub async fn apply_configuration(&mut self, configuration: Configuration) {
        let EffectContext { backend, host, call_context, .. } = &self.context;
        backend.apply_configuration(host, &configuration).await;
        let servers = configuration.effective.servers.iter();
        let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone()).collect();
        call_context.rules.replace(configuration.rules.clone());
        let call_context =
            Arc::new(CallContext { trusted_servers: trusted, ..CallContext::clone(call_context) });
        self.context.call_context = call_context.clone();
        self.context.conversation.set_call_context(call_context);
        self.context.configuration = Arc::new(configuration);
    }

    async fn set_mode(&mut self, mode: PermissionMode) {
        let call_context =
            Arc::new(CallContext { mode, ..CallContext::clone(&self.context.call_context) });
        self.context.call_context = call_context.clone();
        self.context.conversation.set_call_context(call_context);
    }

    /// Runs work in a task beside the screen; its outcome comes back as an event.
    fn spawn(&mut self, work: impl Future<Output = ScreenEvent> + Send + 'static) {
        let events = self.events.clone();
        self.tasks.spawn(async move {
            let event = work.await;
            let _left = events.send(event).await;
        });
        // Finished tasks need not be kept.
        while self.tasks.try_join_next().is_some() {}
    }

    async fn send_message(&mut self, text: String) {
        let EffectContext { host, conversation, call_context, .. } = &self.context;
        if resource_mentions::find_mentions(&text, &host.snapshot()).is_empty() {
            return conversation.send(vec![ContentBlock::Text { text }]).await;
        }
        let (host, conversation) = (host.clone(), conversation.clone());
        let (limits, spill) = (call_context.limits, call_context.spill.clone());
        let events = self.events.clone();
        self.tasks.spawn(async move {
            let (blocks, errors) =
                resource_mentions::resolve_mentions(&host, &text, (&limits, &spill)).await;
            for error in errors {
                let _left = events.send(ScreenEvent::Error(error)).await;
            }
            conversation.send(blocks).await;
        });
    }

    async fn run_command(&mut self, command: SlashCommand) {
        match command {
            SlashCommand::Call { tool, arguments } => self.call(tool, &arguments).await,
            SlashCommand::Read { server, uri } => self.read_resource(server, uri),
            SlashCommand::Prompt { name, arguments } => self.start_prompt(&name, &arguments),
            SlashCommand::Clear => self.context.conversation.clear().await,
            SlashCommand::Ide(argument) => self.run_ide_command(argument),
            SlashCommand::Registry(words) => self.run_registry_command(words),
            SlashCommand::Quit => {}
            SlashCommand::Model(Some(name)) => {
                let backend = self.context.backend.clone();
                let load = move || backend.load_model(Some(name));
                self.set_model_when_ready(tokio::task::spawn_blocking(load));
            }
            command @ (SlashCommand::Help
            | SlashCommand::Mcp(_)
            | SlashCommand::Tools(_)
            | SlashCommand::Resources(_)
            | SlashCommand::Permissions
            | SlashCommand::Plugin(_)
            | SlashCommand::Model(None)
            | SlashCommand::Logs(_)
            | SlashCommand::Doctor(_)) => self.show_page(command),
        }
    }

    fn run_ide_command(&mut self, argument: Option<String>) {
        let EffectContext { backend, host, configuration, ide, .. } = &self.context;
        let (backend, host) = (backend.clone(), host.clone());
        let (configuration, ide) = (configuration.clone(), ide.clone());
        self.spawn(async move {
            let argument = argument.as_deref();
            match backend.run_ide_command(&host, &configuration, &ide, argument).await {
                Ok(text) => ScreenEvent::Note(text),
                Err(error) => error_event(&error),
            }
        });
    }

    fn run_registry_command(&mut self, words: Vec<String>) {
        let (backend, width) = (self.context.backend.clone(), self.context.width);
        self.spawn(async move {
            match backend.run_registry_command(&words, width).await {
                Ok(text) => ScreenEvent::Text { title: "registry".to_owned(), text },
                Err(error) => error_event(&error),
            }
        });
    }

    /// Shows what the IDE announces, until it announces nothing more.
    pub fn follow_ide(&mut self, updates: IdeUpdates) {
        let events = self.events.clone();
        self.tasks.spawn(forward_ide_updates(updates, events));
    }

    /// Gives the conversation a model once it is set up.
    pub fn set_model_when_ready(&mut self, pending_model: PendingModel) {
        let conversation = self.context.conversation.clone();
        self.spawn(async move {
            match pending_model.await {
                Ok(Ok(Some(model))) => {
                    let active = ActiveModel::from_model(&model);
                    conversation.set_model(Some(model)).await;
                    ScreenEvent::Model(Some(active))
                }
                Ok(Ok(None)) | Err(_) => ScreenEvent::Error(NO_MODEL.to_owned()),
                Ok(Err(error)) => error_event(&error),
            }
        });
    }

    /// Queues an event for the caller, who waits for this runner now and so cannot receive.
    fn queue_event(&mut self, event: ScreenEvent) {
        self.pending_events.push(event);
    }

    /// Takes the events that were queued for the caller.
    pub fn take_pending_events(&mut self) -> Vec<ScreenEvent> {
        std::mem::take(&mut self.pending_events)
    }
}

async fn forward_ide_updates(updates: IdeUpdates, events: mpsc::Sender<ScreenEvent>) {
    let IdeUpdates { mut selection, mut mentions } = updates;
    loop {
        let event = tokio::select! {
            changed = selection.changed() => match changed {
                Ok(()) => {
                    let text = selection.borrow_and_update().as_ref().map(selection_text);
                    ScreenEvent::IdeSelection(text)
                }
                Err(_) => return,
            },
            mention = mentions.recv() => match mention {
                Some(mention) => ScreenEvent::IdeMention(mention.typed),
                None => return,
            },
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}

fn selection_text(selection: &ActiveSelection) -> String {
    let lines = match selection.line_count() {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    };
    format!("{lines} from {}", printable(&selection.file_name()))
}

/// An error as an event. Empty lines are left out: the transcript separates entries itself.
pub(crate) fn error_event(error: &ErrorText) -> ScreenEvent {
    ScreenEvent::Error(error.0.replace("\n\n", "\n").trim_end().to_owned())
}
