//! The language model of this run, from the command line, the settings and the environment. API keys are resolved
//! when the model is first used.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::config::display::printable;
use switchboard::config::secret::Secret;
use switchboard::config::template::Template;
use switchboard::connection::{SamplingFuture, SamplingModel};
use switchboard::sources::secrets;
use switchboard_chat::model::client::ModelClient;
use switchboard_chat::model::config;
use switchboard_chat::model::config::{
    ApiAccess, Effort, ModelConfig, ModelConfigError, ModelOverrides, ThinkingSetting,
};
use switchboard_chat::model::fallback::FallbackModel;
use switchboard_chat::model::language_model::LanguageModel;
use switchboard_chat::model::retry::RetryPolicy;
use switchboard_chat::model::sampling::Sampler;
use tokio::sync::OnceCell;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::network;

/// The hint where no model is configured.
pub const SETUP_HINT: &str = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or `model` in your settings; docs/guide/models.md says how";
/// Selects the model for one run.
const MODEL_VARIABLE: &str = "SWB_MODEL";

/// What the command line says about the model.
#[derive(Debug, Clone, Default)]
pub struct ModelFlags {
    /// `provider/name` or a name.
    pub model: Option<String>,
    /// How it thinks.
    pub thinking: Option<ThinkingSetting>,
    /// Its effort.
    pub effort: Option<Effort>,
    /// The model to use while it is overloaded.
    pub fallback: Option<String>,
}

/// The configured model; `None` if none is configured.
pub fn choose(
    invocation: &Invocation,
    requested: Option<&str>,
) -> Result<Option<ModelConfig>, Failure> {
    let settings = invocation.providers().model.as_ref();
    let resolve = |key: &Template| resolve_key(invocation, key);
    config::resolve_model(settings, &model_selection(invocation, requested), resolve).map_err(
        |error| {
            let failure = Failure::new(Exit::Configuration, &error.to_string());
            match &error {
                ModelConfigError::MissingKey(_) => failure.hint(SETUP_HINT),
                ModelConfigError::UnusableKey(_) | ModelConfigError::InvalidBaseUrl => failure,
            }
        },
    )
}

/// A client for the configured model.
pub fn open(
    invocation: &Invocation,
    requested: Option<&str>,
) -> Result<Option<Arc<dyn LanguageModel>>, Failure> {
    let flags = ModelFlags { model: requested.map(str::to_owned), ..ModelFlags::default() };
    open_with(invocation, &flags)
}

/// A client for the configured model, changed as the command line says.
pub fn open_with(
    invocation: &Invocation,
    flags: &ModelFlags,
) -> Result<Option<Arc<dyn LanguageModel>>, Failure> {
    let Some(model) = open_one(invocation, flags.model.as_deref(), flags)? else { return Ok(None) };
    let Some(fallback) = &flags.fallback else { return Ok(Some(model)) };
    Ok(Some(match open_one(invocation, Some(fallback), flags)? {
        Some(fallback) => Arc::new(FallbackModel::new(model, fallback)),
        None => model,
    }))
}

fn open_one(
    invocation: &Invocation,
    name: Option<&str>,
    flags: &ModelFlags,
) -> Result<Option<Arc<dyn LanguageModel>>, Failure> {
    let Some(chosen) = choose(invocation, name)? else { return Ok(None) };
    let chosen = ModelConfig {
        thinking: flags.thinking.unwrap_or(chosen.thinking),
        effort: flags.effort.or(chosen.effort),
        ..chosen
    };
    let network = network::outbound_network(invocation)?;
    let client = ModelClient::new(&chosen, &network, RetryPolicy::default()).map_err(|error| {
        Failure::new(Exit::Configuration, "the model client cannot be created").caused_by(error)
    })?;
    Ok(Some(Arc::new(client)))
}

/// The model for sampling requests, if one is configured.
pub fn sampler(invocation: &Invocation) -> Option<Arc<dyn SamplingModel>> {
    let selection = model_selection(invocation, None);
    let has_key = |it: &ApiAccess| it.key.is_some();
    let is_set = invocation.providers().model.is_some()
        || selection.model.is_some()
        || has_key(&selection.anthropic)
        || has_key(&selection.openai);
    is_set.then(|| {
        let lazy = LazySampler { invocation: invocation.clone(), sampler: OnceCell::new() };
        Arc::new(lazy) as Arc<dyn SamplingModel>
    })
}

/// Opens the model with the first sampling request.
struct LazySampler {
    invocation: Invocation,
    sampler: OnceCell<Sampler>,
}

impl LazySampler {
    async fn initialize(&self) -> Result<Sampler, String> {
        let invocation = self.invocation.clone();
        // Resolving a key may run a command that waits for the user.
        let opened = tokio::task::spawn_blocking(move || open(&invocation, None)).await;
        match opened {
            Ok(Ok(Some(model))) => Ok(Sampler::new(model)),
            Ok(Ok(None)) | Err(_) => Err("no model is set up".to_owned()),
            Ok(Err(failure)) => Err(failure.message),
        }
    }
}

impl SamplingModel for LazySampler {
    fn create_message<'a>(&'a self, params: Json) -> SamplingFuture<'a> {
        Box::pin(async move {
            let sampler = self.sampler.get_or_try_init(|| self.initialize()).await?;
            sampler.create_message(params).await
        })
    }
}

fn model_selection(invocation: &Invocation, requested: Option<&str>) -> ModelOverrides {
    let variable = |name: &str| {
        let value = invocation.env.variables.get(name);
        value.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
    };
    let access = |key: &str, base_url: &str| ApiAccess {
        key: variable(key).map(Secret::new),
        base_url: variable(base_url),
    };
    ModelOverrides {
        model: requested.map(str::to_owned).or_else(|| variable(MODEL_VARIABLE)),
        anthropic: access("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        openai: access("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    }
}

fn resolve_key(invocation: &Invocation, key: &Template) -> Result<Secret, String> {
    let mut missing = BTreeSet::new();
    let text = key.expand(&invocation.env.template_environment(), &mut missing);
    if let Some(name) = missing.first() {
        return Err(match name.as_str() {
            "" => "it names a variable that is not set".to_owned(),
            name => format!("the variable {} is not set", printable(name)),
        });
    }
    secrets::reveal_text(&text, &invocation.env.home).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|it| format!(": {it}"));
        format!("{error}{}", cause.unwrap_or_default())
    })
}
