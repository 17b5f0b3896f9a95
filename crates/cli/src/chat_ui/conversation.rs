//! What both faces begin with: the desk, the model and the conversation, a new one or one that is gone on with.

use std::sync::Arc;
use std::time::Duration;

use switchboard::call::pipeline::{CallContext, PermissionPrompt};
use switchboard::host::Host;
use switchboard::sources::loader::Configuration;
use switchboard_chat::conversation::event::ConversationEvent;
use switchboard_chat::conversation::handle::{
    Conversation, ConversationSetup, ConversationStatus, DEFAULT_MAX_ROUNDS,
};
use switchboard_chat::message::Message;
use switchboard_chat::model::language_model::LanguageModel;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::commands::print::ConversationArgs;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::call_context;
use crate::runtime::language_model;
use crate::tui::state::screen_state::ActiveModel;

/// A conversation that has begun.
pub struct StartedConversation {
    /// What calls depend on.
    pub call_context: Arc<CallContext>,
    /// The conversation.
    pub conversation: Conversation,
    /// What happens in it.
    pub events: mpsc::Receiver<ConversationEvent>,
    /// The task behind it. It ends with the last `Talk`.
    pub task: JoinHandle<()>,
    /// Who answers.
    pub model: Option<ActiveModel>,
    /// Who will answer, where that is not known yet.
    pub pending_model: Option<PendingModel>,
    /// What was said before.
    pub history: Vec<Message>,
    /// What somebody should know; nothing, mostly.
    pub warning: String,
    /// Why nobody answers, where a model was wanted.
    pub model_failure: Option<Failure>,
}

/// How a conversation begins.
#[derive(Clone)]
pub struct StartOptions<'a> {
    /// What somebody said on the command line.
    pub flags: &'a ConversationArgs,
    /// How long a model may take to be set up.
    pub model_wait: ModelWait,
    /// Who answers, where nobody is to choose.
    pub model: Option<SharedModel>,
}

/// How long a model may take to be set up before anything else begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelWait {
    /// As long as it takes.
    UntilReady,
    /// A moment; then it comes later.
    Briefly,
}

/// How long a moment is.
const MODEL_WAIT: Duration = Duration::from_millis(300);

/// A model, ready to be asked.
pub type SharedModel = Arc<dyn LanguageModel>;
/// A model that is being set up: a key may come from a command that takes its time.
pub type PendingModel = JoinHandle<Result<Option<SharedModel>, Failure>>;

/// Begins a conversation as the flags say.
pub async fn start(
    session: &Invocation,
    host: &Host,
    (configuration, start_options): (&Configuration, StartOptions<'_>),
    consent: Arc<dyn PermissionPrompt>,
) -> Result<StartedConversation, Failure> {
    let StartOptions { flags, model_wait, model: preset_model } = start_options;
    let (call_context, warning) =
        call_context::call_context_with_warning(session, configuration, host, None)?;
    let call_context = Arc::new(CallContext { prompt: consent, ..call_context });
    let (transcript, history) = flags.open_conversation(session)?;
    let mut pending_model = match &preset_model {
        Some(_) => None,
        None => Some(load_model(session, flags.model.clone())),
    };
    let limit = match model_wait {
        ModelWait::UntilReady => Duration::MAX,
        ModelWait::Briefly => MODEL_WAIT,
    };
    let made = match &mut pending_model {
        Some(making) => tokio::time::timeout(limit, making).await.ok(),
        None => None,
    };
    if made.is_some() {
        pending_model = None;
    }
    let (model, model_failure) = match made {
        Some(Ok(Ok(model))) => (model, None),
        Some(Ok(Err(failure))) => (None, Some(failure)),
        Some(Err(_)) | None => (preset_model, None),
    };
    let seen = model.as_ref().map(ActiveModel::from_model);
    let setting = ConversationSetup {
        host: host.clone(),
        call_context: call_context.clone(),
        model,
        system_prompt: flags.system_text(session).into(),
        history: history.clone(),
        max_rounds: DEFAULT_MAX_ROUNDS,
    };
    let (conversation, conversation_events, task) =
        Conversation::start_recorded(setting, transcript);
    Ok(StartedConversation {
        call_context,
        conversation,
        events: conversation_events,
        task,
        model: seen,
        pending_model,
        history,
        model_failure,
        warning,
    })
}

/// Sets a model up beside everything else.
pub fn load_model(session: &Invocation, wanted: Option<String>) -> PendingModel {
    let session = session.clone();
    tokio::task::spawn_blocking(move || language_model::open(&session, wanted.as_deref()))
}

/// What is said when somebody leaves.
pub fn exit_message(status: &ConversationStatus) -> String {
    match (&status.id, &status.write_error) {
        (Some(id), None) => format!("To go on with this conversation: swb --resume {id}\n"),
        (_, Some(why)) => format!("This conversation could not be kept: {why}\n"),
        (None, None) => String::new(),
    }
}
