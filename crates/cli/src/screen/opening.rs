//! What both faces begin with: the desk, the model and the conversation, a new one or one that is gone on with.

use std::sync::Arc;
use std::time::Duration;

use switchboard::calling::{Consent, Desk};
use switchboard::engine::Host;
use switchboard::load::Configuration;
use switchboard_chat::happening::Happening;
use switchboard_chat::language_model::LanguageModel;
use switchboard_chat::talk::{Setting, Standing, Talk, USUAL_ROUNDS};
use switchboard_chat::utterance::Utterance;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::commands::print::Print;
use crate::desk;
use crate::model_setup;
use crate::outcome::Failure;
use crate::screen::chat::ModelSeen;
use crate::session::Session;

/// A conversation that has begun.
pub struct Begun {
    /// What calls depend on.
    pub desk: Arc<Desk>,
    /// The conversation.
    pub talk: Talk,
    /// What happens in it.
    pub happenings: mpsc::Receiver<Happening>,
    /// The task behind it. It ends with the last `Talk`.
    pub task: JoinHandle<()>,
    /// Who answers.
    pub model: Option<ModelSeen>,
    /// Who will answer, where that is not known yet.
    pub coming: Option<Coming>,
    /// What was said before.
    pub before: Vec<Utterance>,
    /// What somebody should know; nothing, mostly.
    pub warning: String,
    /// Why nobody answers, where a model was wanted.
    pub trouble: Option<Failure>,
}

/// How a conversation begins.
#[derive(Clone)]
pub struct Terms<'a> {
    /// What somebody said on the command line.
    pub flags: &'a Print,
    /// How long a model may take to be set up.
    pub patience: Patience,
    /// Who answers, where nobody is to choose.
    pub model: Option<Answerer>,
}

/// How long a model may take to be set up before anything else begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// As long as it takes.
    Endless,
    /// A moment; then it comes later.
    Short,
}

/// How long a moment is.
const MOMENT: Duration = Duration::from_millis(300);

/// A model, ready to be asked.
pub type Answerer = Arc<dyn LanguageModel>;
/// A model that is being set up: a key may come from a command that takes its time.
pub type Coming = JoinHandle<Result<Option<Answerer>, Failure>>;

/// Begins a conversation as the flags say.
pub async fn begin(
    session: &Session,
    host: &Host,
    (configuration, terms): (&Configuration, Terms<'_>),
    consent: Arc<dyn Consent>,
) -> Result<Begun, Failure> {
    let Terms { flags, patience, model: given } = terms;
    let (desk, warning) = desk::with_warning(session, configuration, host, None)?;
    let desk = Arc::new(Desk { consent, ..desk });
    let (chronicle, before) = flags.conversation(session)?;
    let mut coming = match &given {
        Some(_) => None,
        None => Some(model(session, flags.model.clone())),
    };
    let limit = match patience {
        Patience::Endless => Duration::MAX,
        Patience::Short => MOMENT,
    };
    let made = match &mut coming {
        Some(making) => tokio::time::timeout(limit, making).await.ok(),
        None => None,
    };
    if made.is_some() {
        coming = None;
    }
    let (model, trouble) = match made {
        Some(Ok(Ok(model))) => (model, None),
        Some(Ok(Err(failure))) => (None, Some(failure)),
        Some(Err(_)) | None => (given, None),
    };
    let seen = model.as_ref().map(ModelSeen::of);
    let setting = Setting {
        host: host.clone(),
        desk: desk.clone(),
        model,
        system: flags.system(session).into(),
        before: before.clone(),
        rounds: USUAL_ROUNDS,
    };
    let (talk, happenings, task) = Talk::begin_kept(setting, chronicle);
    Ok(Begun { desk, talk, happenings, task, model: seen, coming, before, trouble, warning })
}

/// Sets a model up beside everything else.
pub fn model(session: &Session, wanted: Option<String>) -> Coming {
    let session = session.clone();
    tokio::task::spawn_blocking(move || model_setup::model(&session, wanted.as_deref()))
}

/// What is said when somebody leaves.
pub fn farewell(standing: &Standing) -> String {
    match (&standing.id, &standing.not_kept) {
        (Some(id), None) => format!("To go on with this conversation: swb --resume {id}\n"),
        (_, Some(why)) => format!("This conversation could not be kept: {why}\n"),
        (None, None) => String::new(),
    }
}
