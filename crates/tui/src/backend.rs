//! What the program around the screen supplies: the trait [`Backend`] for everything that needs the command line's
//! output, files or environment, and the conversation that it starts before the screen runs.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use switchboard::auth::browser::browser_flow::LoginPrompt;
use switchboard::pool::Tool;
use switchboard::request::RequestError;
use switchboard::sources::loader::Configuration;
use switchboard::tool_result::ToolOutput;
use switchboard::{CallContext, Host, ToolCallError};
use switchboard_chat::conversation::event::ConversationEvent;
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::ide::{IdeSession, IdeUpdates};
use switchboard_chat::message::Message;
use switchboard_chat::model::language_model::LanguageModel;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::configured_servers::ConfiguredServers;
use crate::state::active_model::ActiveModel;
use crate::view::dialog::project_servers::ProjectServer;

/// A failure as the command line renders it: message, causes and hint, with its SGR colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorText(pub String);

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A future of the backend.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A model that can be asked.
pub type SharedModel = Arc<dyn LanguageModel>;

/// A model that is still being set up: its key may come from a slow command.
pub type PendingModel = JoinHandle<Result<Option<SharedModel>, ErrorText>>;

/// A change to the configuration or the approvals of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerChange {
    /// Enable it.
    Enable(String),
    /// Disable it.
    Disable(String),
    /// Approve a server of the project.
    Approve {
        /// Its name.
        name: String,
        /// The fingerprint of what the user saw. The approval fails where it is another one by now.
        fingerprint: Option<String>,
    },
    /// Reject a server of the project.
    Reject(String),
}

/// The output of a command, for the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandPage {
    /// The tools, of one server or of all.
    Tools(Option<String>),
    /// The resources, of one server or of all.
    Resources(Option<String>),
    /// The plugins, or one of them.
    Plugins(Option<String>),
    /// The permission rules.
    Permissions,
    /// The diagnosis of one server or of all.
    Doctor(Option<String>),
}

/// The last lines of a server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogText {
    /// The lines.
    Lines(String),
    /// A note on why there are none.
    Empty(String),
}

/// What a [`CommandPage`] is made from.
#[derive(Debug, Clone, Copy)]
pub struct PageInput<'a> {
    /// The host, with its snapshot and pool.
    pub host: &'a Host,
    /// The configuration in effect.
    pub configuration: &'a Configuration,
    /// The permissions in effect.
    pub call_context: &'a CallContext,
    /// The width of the terminal.
    pub width: usize,
}

/// What the screen needs from the program around it.
pub trait Backend: Send + Sync {
    /// Makes a change, and returns what the command of that name prints. Blocks.
    fn change_server(&self, change: ServerChange) -> Result<String, ErrorText>;

    /// The output of a command.
    fn page(&self, page: CommandPage, input: PageInput<'_>) -> Result<String, ErrorText>;

    /// The last lines of a server's log. Blocks.
    fn log(&self, server: String, max_lines: usize) -> Result<LogText, ErrorText>;

    /// Sets up a model: the configured one, or the one of this name. Blocks.
    fn load_model(&self, name: Option<String>) -> Result<Option<SharedModel>, ErrorText>;

    /// The arguments of a tool call, from words as they are typed after `swb call`. A known tool's schema gives texts
    /// their types.
    fn parse_arguments(&self, tool: Option<&Tool>, words: &[String]) -> Result<Json, ErrorText>;

    /// How long a tool call may take.
    fn tool_timeout(&self) -> Result<Duration, ErrorText>;

    /// A tool's output as text.
    fn render_output(&self, output: &ToolOutput, width: usize) -> String;

    /// A failed request as text.
    fn render_request_error(&self, error: &RequestError) -> ErrorText;

    /// A failed tool call as text. Asks the host which scopes are missing.
    fn render_call_failure<'a>(
        &'a self,
        failure: &'a ToolCallError,
        host: &'a Host,
        tool: &'a str,
    ) -> BackendFuture<'a, ErrorText>;

    /// Signs in to a server and reconnects it. Returns what to tell the user.
    fn log_in<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
        server: &'a str,
        prompt: &'a dyn LoginPrompt,
    ) -> BackendFuture<'a, Result<String, ErrorText>>;

    /// Deletes the login of a server and reconnects it. Returns what to tell the user.
    fn log_out<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
        server: &'a str,
    ) -> BackendFuture<'a, Result<String, ErrorText>>;

    /// Puts a configuration into effect: hooks, rules, then servers.
    fn apply_configuration<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
    ) -> BackendFuture<'a, ()>;

    /// The channels that the user has to confirm before they count.
    fn unconfirmed_channels(&self, configuration: &Configuration) -> Vec<String>;

    /// Notes that the user confirmed them, and puts that into effect.
    fn confirm_channels<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
    ) -> BackendFuture<'a, ()>;

    /// Runs `/ide`: lists IDEs, connects one or disconnects. Returns what to tell the user.
    fn run_ide_command<'a>(
        &'a self,
        host: &'a Host,
        configuration: &'a Configuration,
        session: &'a IdeSession,
        argument: Option<&'a str>,
    ) -> BackendFuture<'a, Result<String, ErrorText>>;

    /// Runs `/registry`: searches the registry, or shows one of its servers. Returns what to tell the user.
    fn run_registry_command<'a>(
        &'a self,
        words: &'a [String],
        width: usize,
    ) -> BackendFuture<'a, Result<String, ErrorText>>;

    /// The configured servers, as the server panel shows them.
    fn configured_servers(&self, configuration: &Configuration) -> ConfiguredServers;

    /// The servers of the project that wait for approval.
    fn pending_project_servers(&self, configuration: &Configuration) -> Vec<ProjectServer>;
}

/// A conversation that has started.
pub struct StartedConversation {
    /// The context of its tool calls.
    pub call_context: Arc<CallContext>,
    /// The handle.
    pub conversation: Conversation,
    /// Its events.
    pub events: mpsc::Receiver<ConversationEvent>,
    /// Its task. It ends with the last handle.
    pub task: JoinHandle<()>,
    /// Its model.
    pub model: Option<ActiveModel>,
    /// Its model, while that is still being set up.
    pub pending_model: Option<PendingModel>,
    /// The messages of the conversation that it continues.
    pub history: Vec<Message>,
    /// A warning for the user; usually empty.
    pub warning: String,
    /// Why the model could not be set up.
    pub model_failure: Option<ErrorText>,
    /// What it does with an IDE.
    pub ide: StartedIde,
}

/// The session of a conversation with the IDE.
pub struct StartedIde {
    /// The session.
    pub session: Arc<IdeSession>,
    /// What the IDE announces.
    pub updates: IdeUpdates,
    /// Its task. It ends with the session.
    pub task: JoinHandle<()>,
}
