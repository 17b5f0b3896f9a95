//! Starts a conversation for both modes: call context, model, and a transcript that is new or continued.

use std::sync::Arc;
use std::time::Duration;

use switchboard::channel::ChannelInbox;
use switchboard::permission::PermissionPrompt;
use switchboard::sources::loader::Configuration;
use switchboard::{CallContext, Host};
use switchboard_chat::channel::{LocalPrompt, RelayPrompt};
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::conversation::setup::{
    ConversationSetup, ConversationStatus, DEFAULT_MAX_ROUNDS,
};
use switchboard_chat::ide::{IdeHooks, IdePrompt};
use switchboard_tui::backend::{PendingModel, SharedModel, StartedConversation};
use switchboard_tui::state::active_model::ActiveModel;

use crate::chat_ui::screen_backend;
use crate::commands::print::ConversationArgs;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::unusable_files;
use crate::runtime::call_context;
use crate::runtime::channels;
use crate::runtime::ide;
use crate::runtime::language_model;
use crate::runtime::language_model::ModelFlags;

/// How a conversation starts.
#[derive(Clone)]
pub struct StartOptions<'a> {
    /// The flags of the command line.
    pub flags: &'a ConversationArgs,
    /// How long to wait for the model.
    pub model_wait: ModelWait,
    /// The model, where it is not the configured one.
    pub model: Option<SharedModel>,
}

/// How long to wait for the model before the conversation starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelWait {
    /// Until it is set up.
    UntilReady,
    /// [`MODEL_WAIT`]; a model that takes longer is set later.
    Briefly,
}

const MODEL_WAIT: Duration = Duration::from_millis(300);

/// Starts a conversation as the flags say. `prompt` asks the user for permissions, and `inbox` has the messages of channels.
pub async fn start(
    session: &Invocation,
    host: &Host,
    (configuration, options): (&Configuration, StartOptions<'_>),
    (prompt, inbox): (Arc<dyn PermissionPrompt>, Option<ChannelInbox>),
) -> Result<StartedConversation, Failure> {
    let StartOptions { flags, model_wait, model: preset_model } = options;
    let (call_context, context_warning) =
        call_context::call_context_with_warning(session, configuration, host, flags.mode())?;
    let warning = unusable_files::as_text(&session.env, configuration) + &context_warning;
    let (transcript, history) = flags.open_conversation(session)?;
    let system_prompt = flags.system_text(session)?.into();
    let ide = ide::start_session(session, host, &call_context.rules);
    let ide_warning =
        ide::connect_at_start(session, (host, &ide.session), configuration, flags.ide_flag()).await;
    let warning = warning + &ide_warning;
    let warning = warning + &channels::unmatched_text(session, configuration);
    let prompt = Arc::new(IdePrompt::new(prompt, ide.session.clone()));
    let prompt = Arc::new(RelayPrompt::new(prompt, host.clone(), LocalPrompt::Asks));
    let call_context = Arc::new(CallContext { prompt, ..call_context });
    let mut pending_model = match &preset_model {
        Some(_) => None,
        None => Some(load_model(session, flags.model_flags())),
    };
    let limit = match model_wait {
        ModelWait::UntilReady => Duration::MAX,
        ModelWait::Briefly => MODEL_WAIT,
    };
    let loaded = match &mut pending_model {
        Some(loading) => tokio::time::timeout(limit, loading).await.ok(),
        None => None,
    };
    if loaded.is_some() {
        pending_model = None;
    }
    let (model, model_failure) = match loaded {
        Some(Ok(Ok(model))) => (model, None),
        Some(Ok(Err(error))) => (None, Some(error)),
        Some(Err(_)) | None => (preset_model, None),
    };
    let active_model = model.as_ref().map(ActiveModel::from_model);
    let setup = ConversationSetup {
        host: host.clone(),
        call_context: call_context.clone(),
        model,
        system_prompt,
        history: history.clone(),
        max_rounds: DEFAULT_MAX_ROUNDS,
        hooks: vec![Arc::new(IdeHooks::new(ide.session.clone()))],
        structured_output: None,
        channels: inbox,
    };
    let (conversation, events, task) = Conversation::start_recorded(setup, transcript);
    Ok(StartedConversation {
        call_context,
        conversation,
        events,
        task,
        model: active_model,
        pending_model,
        history,
        warning,
        model_failure,
        ide,
    })
}

/// Sets a model up in a blocking task.
fn load_model(session: &Invocation, flags: ModelFlags) -> PendingModel {
    let session = session.clone();
    let load = move || language_model::open_with(&session, &flags);
    tokio::task::spawn_blocking(move || load().map_err(screen_backend::error_text))
}

/// The text printed when the user leaves: how to continue, or why that is impossible.
pub fn exit_message(status: &ConversationStatus) -> String {
    match (&status.id, &status.write_error) {
        (Some(id), None) => format!("To continue this conversation: swb --resume {id}\n"),
        (_, Some(why)) => format!("This conversation could not be stored: {why}\n"),
        (None, None) => String::new(),
    }
}
