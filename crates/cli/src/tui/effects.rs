//! Does what the chat decides: says things to the model, calls tools, runs slash commands, reads resources, changes
//! servers. What takes time runs beside the screen and comes back as an event.

mod pages;
mod prompts;
pub(crate) mod resource_mentions;
mod server_actions;
mod tool_calls;

use std::path::PathBuf;
use std::sync::Arc;

use switchboard::call::pipeline::CallContext;
use switchboard::config::permission::PermissionMode;
use switchboard::host::Host;
use switchboard::sources::loader::Configuration;
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::message::ContentBlock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::args::CommandArgs;
use crate::commands::disable::DisableArgs;
use crate::commands::enable::EnableArgs;
use crate::commands::reject::RejectArgs;
use crate::outcome::Failure;
use crate::output::report;
use crate::tui::state::screen_state::{ActiveModel, Effect, NO_MODEL, ScreenEvent, Withdrawal};

use crate::chat_ui::conversation;
use crate::chat_ui::conversation::PendingModel;
use crate::invocation::Invocation;
use crate::runtime::servers;
use crate::tui::elicitor::ScreenElicitor;
use crate::tui::slash_command::SlashCommand;
use crate::tui::view::overlay::ServerAction;
use server_actions::approve_command;
use tool_calls::UserCalls;

/// Everything that is needed to do things.
pub struct EffectRunner {
    /// The machine and the flags; its width is the window's.
    pub session: Invocation,
    /// The servers.
    pub host: Host,
    /// What calls depend on.
    pub call_context: Arc<CallContext>,
    /// What is configured.
    pub configuration: Arc<Configuration>,
    /// The conversation.
    pub conversation: Conversation,
    /// Where questions are put.
    pub elicitor: ScreenElicitor,
    /// Where outcomes go.
    pub events: mpsc::Sender<ScreenEvent>,
    /// What is under way beside the screen. Dropping it ends it.
    pub tasks: JoinSet<()>,
    /// Who answers.
    pub model: Option<ActiveModel>,
    user_calls: UserCalls,
    /// What the window hears when it has time. Bounded by what one act says.
    pending_events: Vec<ScreenEvent>,
}

/// What the window has to do itself.
#[derive(Debug, PartialEq, Eq)]
pub enum TerminalEffect {
    /// Leave.
    Quit,
    /// Let an editor have a text.
    OpenEditor(String),
    /// Stop the program.
    Suspend,
    /// Draw everything anew.
    Repaint,
    /// Make a sound: somebody is wanted.
    RingBell,
    /// Remember what was sent.
    SaveHistory(String),
}

impl EffectRunner {
    /// Ready to do things.
    pub fn new(
        session: Invocation,
        host: Host,
        (call_context, configuration): (Arc<CallContext>, Arc<Configuration>),
        (conversation, elicitor): (Conversation, ScreenElicitor),
        events: mpsc::Sender<ScreenEvent>,
    ) -> EffectRunner {
        EffectRunner {
            session,
            host,
            call_context,
            configuration,
            conversation,
            elicitor,
            events,
            tasks: JoinSet::new(),
            model: None,
            user_calls: UserCalls::default(),
            pending_events: Vec::new(),
        }
    }

    /// Does something. Gives what only the window can do.
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
                let conversation = self.conversation.clone();
                self.spawn(async move {
                    match conversation.withdraw_last().await {
                        true => ScreenEvent::MessageWithdrawn(Withdrawal::Withdrawn),
                        false => ScreenEvent::MessageWithdrawn(Withdrawal::TooLate),
                    }
                });
            }
            Effect::Interrupt => {
                self.user_calls.cancel_all();
                self.conversation.interrupt().await;
            }
            Effect::RunCommand(slash) => self.run_command(slash).await,
            Effect::RunServerAction(action) => self.run_server_action(action),
            Effect::SetMode(mode) => self.set_mode(mode).await,
            Effect::GetPrompt(invocation) => self.get_prompt(invocation),
            Effect::CompleteArgument { prompt, typed } => self.complete_argument(prompt, typed),
        }
        None
    }

    /// Another configuration counts from now on.
    pub async fn apply_configuration(&mut self, configuration: Configuration) {
        servers::apply_configuration(&self.host, &configuration, &[]).await;
        let servers = configuration.effective.servers.iter();
        let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone()).collect();
        let rules = self.call_context.rules.clone();
        rules.replace(configuration.rules.clone());
        self.call_context = Arc::new(CallContext {
            trusted_servers: trusted,
            ..CallContext::clone(&self.call_context)
        });
        self.conversation.set_call_context(self.call_context.clone()).await;
        self.configuration = Arc::new(configuration);
    }

    async fn set_mode(&mut self, mode: PermissionMode) {
        self.call_context =
            Arc::new(CallContext { mode, ..CallContext::clone(&self.call_context) });
        self.conversation.set_call_context(self.call_context.clone()).await;
    }

    /// Runs something beside the screen; its outcome comes back as an event.
    fn spawn(&mut self, work: impl Future<Output = ScreenEvent> + Send + 'static) {
        let reports = self.events.clone();
        self.tasks.spawn(async move {
            let event = work.await;
            let _left = reports.send(event).await;
        });
        // What has ended need not be kept.
        while self.tasks.try_join_next().is_some() {}
    }

    async fn send_message(&mut self, text: String) {
        if resource_mentions::find_mentions(&text, &self.host.snapshot()).is_empty() {
            return self.conversation.send(vec![ContentBlock::Text { text }]).await;
        }
        let (host, conversation) = (self.host.clone(), self.conversation.clone());
        let keep = self.call_context.spill.clone();
        let limits = self.call_context.limits;
        let reports = self.events.clone();
        self.tasks.spawn(async move {
            let (parts, faults) =
                resource_mentions::resolve_mentions(&host, &text, (&limits, &keep)).await;
            for fault in faults {
                let _left = reports.send(ScreenEvent::Error(fault)).await;
            }
            conversation.send(parts).await;
        });
    }

    async fn run_command(&mut self, slash: SlashCommand) {
        match slash {
            SlashCommand::Call { tool, arguments } => self.call(tool, &arguments).await,
            SlashCommand::Read { server, uri } => self.read_resource(server, uri),
            SlashCommand::Prompt { name, arguments: given } => {
                self.start_prompt(&name, &given).await
            }
            SlashCommand::Clear => self.conversation.clear().await,
            SlashCommand::Quit => {}
            SlashCommand::Model(Some(name)) => {
                let pending_model = conversation::load_model(&self.session, Some(name));
                self.set_model_when_ready(pending_model);
            }
            slash @ (SlashCommand::Help
            | SlashCommand::Mcp(_)
            | SlashCommand::Tools(_)
            | SlashCommand::Resources(_)
            | SlashCommand::Permissions
            | SlashCommand::Model(None)
            | SlashCommand::Logs(_)
            | SlashCommand::Doctor(_)) => self.text_event(slash).await,
        }
    }

    fn run_server_action(&mut self, action: ServerAction) {
        match action {
            ServerAction::Reconnect(name) => {
                let host = self.host.clone();
                self.spawn(async move {
                    match host.reconnect(&name).await {
                        Some(()) => ScreenEvent::Redraw,
                        None => ScreenEvent::Error(format!("there is no server `{name}`")),
                    }
                });
            }
            ServerAction::ShowLog(name) => {
                let session = self.session.clone();
                self.spawn(async move { pages::log_page(session, name).await });
            }
            ServerAction::Enable(name) => self.run_change(CommandArgs::Enable(EnableArgs { name })),
            ServerAction::Disable(name) => {
                self.run_change(CommandArgs::Disable(DisableArgs { name, scope: None }))
            }
            ServerAction::Approve(name) => self.run_change(approve_command(name)),
            ServerAction::ApproveShown { name, fingerprint } => {
                self.run_change(server_actions::approve_shown_command(name, fingerprint));
            }
            ServerAction::Reject(name) => {
                self.run_change(CommandArgs::Reject(RejectArgs { names: vec![name], all: false }));
            }
            ServerAction::SignIn(name) => self.log_in(name),
            ServerAction::SignOut(name) => self.log_out(name),
        }
    }

    /// Goes on with a model once it is there.
    pub fn set_model_when_ready(&mut self, pending_model: PendingModel) {
        let conversation = self.conversation.clone();
        self.spawn(async move {
            match pending_model.await {
                Ok(Ok(Some(model))) => {
                    let seen = ActiveModel::from_model(&model);
                    conversation.set_model(Some(model)).await;
                    ScreenEvent::Model(Some(seen))
                }
                Ok(Ok(None)) | Err(_) => ScreenEvent::Error(NO_MODEL.to_owned()),
                Ok(Err(failure)) => error_event(&failure),
            }
        });
    }

    /// Says something to the window. It waits for us now, so it must not be waited for.
    fn queue_event(&mut self, event: ScreenEvent) {
        self.pending_events.push(event);
    }

    /// What was said to the window meanwhile.
    pub fn take_pending_events(&mut self) -> Vec<ScreenEvent> {
        std::mem::take(&mut self.pending_events)
    }
}

/// A failure as an event.
pub fn error_event(failure: &Failure) -> ScreenEvent {
    let text = report::failure_text(failure);
    let text = text.replace("\n\n", "\n");
    ScreenEvent::Error(text.trim_end().to_owned())
}

/// A path's folder, for whoever looks for files that were typed.
pub fn working_folder(session: &Invocation) -> PathBuf {
    session.env.working_folder.clone()
}
