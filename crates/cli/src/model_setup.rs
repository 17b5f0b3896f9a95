//! The language model of this run: from the command line, the settings and the environment. Keys are looked up when
//! somebody wants to talk to it, and not before.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::config::secret::Secret;
use switchboard::config::shown::printable;
use switchboard::config::template::Template;
use switchboard::counsel::{Model, Sampling};
use switchboard::reveal;
use switchboard_chat::attempts::Temper;
use switchboard_chat::chosen_model::{self, Access, ChoiceError, ChosenModel, ModelWishes};
use switchboard_chat::language_model::LanguageModel;
use switchboard_chat::model_client::ModelClient;
use switchboard_chat::sampling::Sampler;
use tokio::sync::OnceCell;

use crate::exit::Exit;
use crate::live;
use crate::outcome::Failure;
use crate::session::Session;

/// What to type where no model is set.
pub const HOW_TO_SET: &str = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or `model` in your settings; \
                              docs/guide/models.md says how";
/// Chooses a model for one run.
const CHOOSES: &str = "SWB_MODEL";

/// The model that was chosen; none where nothing says which.
pub fn chosen(session: &Session, wanted: Option<&str>) -> Result<Option<ChosenModel>, Failure> {
    let settings = session.backing().model.as_ref();
    let reveal = |key: &Template| revealed(session, key);
    chosen_model::choose(settings, &wishes(session, wanted), reveal).map_err(|error| {
        let failure = Failure::new(Exit::Configuration, &error.to_string());
        match &error {
            ChoiceError::NoKey(_) => failure.hint(HOW_TO_SET),
            ChoiceError::Key(_) | ChoiceError::BaseUrl => failure,
        }
    })
}

/// The same, ready to be asked.
pub fn model(
    session: &Session,
    wanted: Option<&str>,
) -> Result<Option<Arc<dyn LanguageModel>>, Failure> {
    let Some(chosen) = chosen(session, wanted)? else { return Ok(None) };
    let network = live::way_out(session)?;
    let client = ModelClient::new(&chosen, &network, Temper::default()).map_err(|error| {
        Failure::new(Exit::Configuration, "there is no way out to the model").because(error)
    })?;
    Ok(Some(Arc::new(client)))
}

/// What servers may ask, where something says that there is a model.
pub fn sampler(session: &Session) -> Option<Arc<dyn Model>> {
    let wishes = wishes(session, None);
    let has_key = |it: &Access| it.key.is_some();
    let is_set = session.backing().model.is_some()
        || wishes.wanted.is_some()
        || has_key(&wishes.anthropic)
        || has_key(&wishes.openai);
    is_set.then(|| {
        let late = LateSampler { session: session.clone(), sampler: OnceCell::new() };
        Arc::new(late) as Arc<dyn Model>
    })
}

/// A model that is set up when the first server asks.
struct LateSampler {
    session: Session,
    sampler: OnceCell<Sampler>,
}

impl LateSampler {
    async fn set_up(&self) -> Result<Sampler, String> {
        let session = self.session.clone();
        // Keys may come from a command that asks the person for a touch.
        let made = tokio::task::spawn_blocking(move || model(&session, None)).await;
        match made {
            Ok(Ok(Some(model))) => Ok(Sampler::new(model)),
            Ok(Ok(None)) | Err(_) => Err("no model is set up".to_owned()),
            Ok(Err(failure)) => Err(failure.message),
        }
    }
}

impl Model for LateSampler {
    fn sample<'a>(&'a self, params: Json) -> Sampling<'a> {
        Box::pin(async move {
            let sampler = self.sampler.get_or_try_init(|| self.set_up()).await?;
            sampler.sample(params).await
        })
    }
}

fn wishes(session: &Session, wanted: Option<&str>) -> ModelWishes {
    let variable = |name: &str| {
        let value = session.machine.variables.get(name);
        value.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
    };
    let access = |key: &str, base_url: &str| Access {
        key: variable(key).map(Secret::new),
        base_url: variable(base_url),
    };
    ModelWishes {
        wanted: wanted.map(str::to_owned).or_else(|| variable(CHOOSES)),
        anthropic: access("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        openai: access("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    }
}

fn revealed(session: &Session, key: &Template) -> Result<Secret, String> {
    let mut missing = BTreeSet::new();
    let text = key.expand(&session.machine.environment(), &mut missing);
    if let Some(name) = missing.first() {
        return Err(match name.as_str() {
            "" => "it names a variable that is not set".to_owned(),
            name => format!("the variable {} is not set", printable(name)),
        });
    }
    reveal::text(&text, &session.machine.home).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|it| format!(": {it}"));
        format!("{error}{}", cause.unwrap_or_default())
    })
}
