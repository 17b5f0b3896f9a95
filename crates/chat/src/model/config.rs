//! Resolves the model from the command line, the settings and the environment. An API key and its base URL always come
//! from the same source.

use std::fmt;

use switchboard::config::secret::Secret;
use switchboard::config::settings::model::{ModelProvider, ModelSettings};
use switchboard::config::template::Template;
use thiserror::Error;
use url::Url;

/// The defaults of a provider.
struct ProviderDefaults {
    provider: ModelProvider,
    base_url: &'static str,
    default_model: &'static str,
    /// The prefixes of its models' names.
    model_prefixes: &'static [&'static str],
}

const PROVIDERS: &[ProviderDefaults] = &[
    ProviderDefaults {
        provider: ModelProvider::Anthropic,
        base_url: "https://api.anthropic.com",
        default_model: "claude-sonnet-4-5",
        model_prefixes: &["claude"],
    },
    ProviderDefaults {
        provider: ModelProvider::OpenAi,
        base_url: "https://api.openai.com/v1",
        default_model: "gpt-5",
        model_prefixes: &["gpt-", "chatgpt-", "o1", "o3", "o4"],
    },
    ProviderDefaults {
        provider: ModelProvider::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        default_model: "gpt-5",
        model_prefixes: &[],
    },
];

/// Context windows by prefix of the model's name; the first match counts.
const CONTEXT_WINDOWS: &[(&str, u64)] = &[
    ("claude", 200_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("o3", 200_000),
    ("o4", 200_000),
];

fn provider_defaults(provider: ModelProvider) -> &'static ProviderDefaults {
    PROVIDERS.iter().find(|it| it.provider == provider).expect("every provider is in the table")
}

/// An API key and a base URL from one source.
#[derive(Debug, Clone, Default)]
pub struct ApiAccess {
    /// The key.
    pub key: Option<Secret>,
    /// The base URL.
    pub base_url: Option<String>,
}

/// What overrides or completes the settings.
#[derive(Debug, Clone, Default)]
pub struct ModelOverrides {
    /// `provider/name` or a name: from the command line, else from the environment.
    pub model: Option<String>,
    /// Access to the Anthropic API.
    pub anthropic: ApiAccess,
    /// Access to the OpenAI APIs.
    pub openai: ApiAccess,
}

/// A resolved model.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Its API.
    pub provider: ModelProvider,
    /// Its name at the provider.
    pub name: String,
    /// The base URL.
    pub base_url: Url,
    /// The API key.
    pub key: Option<Secret>,
    /// The maximum length of a response, in tokens.
    pub max_tokens: Option<u64>,
    /// The context window, in tokens.
    pub context_window: Option<u64>,
    /// How it thinks.
    pub thinking: ThinkingSetting,
    /// Its effort; the provider's default if absent.
    pub effort: Option<Effort>,
}

/// How a model thinks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThinkingSetting {
    /// As the provider's default is, which is not at all where the provider has a switch.
    #[default]
    Off,
    /// As much as the model chooses.
    Adaptive,
    /// With at most this many tokens.
    Budget(u64),
}

/// The effort of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Little.
    Low,
    /// Less than usual.
    Medium,
    /// The usual effort.
    High,
    /// More than usual.
    ExtraHigh,
    /// As much as possible.
    Max,
}

impl Effort {
    /// The name in requests to Anthropic.
    pub(crate) fn anthropic_id(self) -> &'static str {
        match self {
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::ExtraHigh => "xhigh",
            Effort::Max => "max",
        }
    }

    /// The name in requests to OpenAI, whose models have no level above the highest usual one.
    pub(crate) fn openai_id(self) -> &'static str {
        match self {
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High | Effort::ExtraHigh | Effort::Max => "high",
        }
    }
}

/// Writes `provider/name`.
impl fmt::Display for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.id(), self.name)
    }
}

/// Why no model can be resolved.
#[derive(Debug, Error)]
pub enum ModelConfigError {
    /// There is no API key for the provider.
    #[error("there is no key for a model of `{}`", .0.id())]
    MissingKey(ModelProvider),
    /// The API key cannot be read.
    #[error("the key of the model cannot be used: {0}")]
    UnusableKey(String),
    /// The base URL is invalid.
    #[error("the model's base URL is no http or https address")]
    InvalidBaseUrl,
}

/// Resolves the model; `None` where nothing names one. `reveal` expands variables and secrets in a key.
pub fn resolve_model(
    settings: Option<&ModelSettings>,
    overrides: &ModelOverrides,
    reveal: impl Fn(&Template) -> Result<Secret, String>,
) -> Result<Option<ModelConfig>, ModelConfigError> {
    let (wanted_provider, wanted_name) =
        overrides.model.as_deref().map_or((None, None), split_provider);
    let provider_of_name = wanted_name.and_then(|name| {
        let begins =
            |it: &&ProviderDefaults| it.model_prefixes.iter().any(|start| name.starts_with(start));
        PROVIDERS.iter().find(begins).map(|it| it.provider)
    });
    let Some(provider) = wanted_provider
        .or(settings.map(|it| it.provider))
        .or(provider_of_name.filter(|it| overrides.has_access(*it)))
        .or_else(|| overrides.default_provider(wanted_name))
    else {
        return match (wanted_provider.or(provider_of_name), wanted_name) {
            (Some(provider), _) => Err(ModelConfigError::MissingKey(provider)),
            (None, Some(_)) => Err(ModelConfigError::MissingKey(ModelProvider::Anthropic)),
            (None, None) => Ok(None),
        };
    };
    let settings = settings.filter(|it| it.provider == provider);
    let settings_access = settings.filter(|it| it.base_url.is_some() || it.api_key.is_some());
    let access = match settings_access {
        Some(it) => {
            let key = it
                .api_key
                .as_ref()
                .map(reveal)
                .transpose()
                .map_err(ModelConfigError::UnusableKey)?;
            ApiAccess { key, base_url: it.base_url.clone() }
        }
        None => overrides.access(provider).clone(),
    };
    if access.key.is_none() && access.base_url.is_none() {
        return Err(ModelConfigError::MissingKey(provider));
    }
    let known = provider_defaults(provider);
    let base_url = Url::parse(access.base_url.as_deref().unwrap_or(known.base_url)).ok();
    let base_url = base_url.filter(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    let name = wanted_name.or(settings.and_then(|it| it.name.as_deref()));
    let name = name.unwrap_or(known.default_model).to_owned();
    // A configured context window belongs to the configured model only.
    let is_written = settings.is_some_and(|it| it.name.as_ref().is_none_or(|it| *it == name));
    let window = settings.filter(|_| is_written).and_then(|it| it.context_window);
    let default_window =
        || CONTEXT_WINDOWS.iter().find(|(start, _)| name.starts_with(start)).map(|it| it.1);
    Ok(Some(ModelConfig {
        provider,
        base_url: base_url.ok_or(ModelConfigError::InvalidBaseUrl)?,
        key: access.key,
        max_tokens: settings.and_then(|it| it.max_tokens),
        context_window: window.or_else(default_window),
        thinking: settings
            .and_then(|it| it.thinking_tokens)
            .map_or(ThinkingSetting::Off, ThinkingSetting::Budget),
        effort: None,
        name,
    }))
}

impl ModelOverrides {
    fn access(&self, provider: ModelProvider) -> &ApiAccess {
        match provider {
            ModelProvider::Anthropic => &self.anthropic,
            ModelProvider::OpenAi | ModelProvider::OpenAiResponses => &self.openai,
        }
    }

    fn has_access(&self, provider: ModelProvider) -> bool {
        let access = self.access(provider);
        access.key.is_some() || access.base_url.is_some()
    }

    /// The provider that there is a key for. A base URL alone is enough where the model is named: local models need no key.
    fn default_provider(&self, name: Option<&str>) -> Option<ModelProvider> {
        let both = [ModelProvider::Anthropic, ModelProvider::OpenAi];
        let has_key = |it: &ModelProvider| self.access(*it).key.is_some();
        let is_there = |it: &ModelProvider| name.is_some() && self.has_access(*it);
        both.into_iter().find(has_key).or_else(|| both.into_iter().find(is_there))
    }
}

/// Parses `provider/name`, `provider` or a name, which may contain slashes.
fn split_provider(requested: &str) -> (Option<ModelProvider>, Option<&str>) {
    let requested = requested.trim();
    if requested.is_empty() {
        return (None, None);
    }
    let (first, rest) = match requested.split_once('/') {
        Some((first, rest)) => (first, Some(rest).filter(|it| !it.is_empty())),
        None => (requested, None),
    };
    match ModelProvider::parse(first) {
        Some(provider) => (Some(provider), rest),
        None => (None, Some(requested)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard::config::policy::Authority;
    use switchboard::config::scope::Scope;
    use switchboard::config::settings::Settings;
    use switchboard::config::source::Source;

    /// `settings` is the object under `model`; `variables` are `wanted`, `akey`, `abase`, `okey`, `obase`.
    fn chosen(settings: &str, variables: &[(&str, &str)]) -> String {
        let text = format!(r#"{{"model": {settings}}}"#);
        let source = Source::file(Scope::User, "settings.json");
        let settings = Settings::read(&source, &text, Authority::User).model;
        let get = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
        let access = |key: &str, base: &str| ApiAccess {
            key: get(key).map(Secret::new),
            base_url: get(base),
        };
        let overrides = ModelOverrides {
            model: get("wanted"),
            anthropic: access("akey", "abase"),
            openai: access("okey", "obase"),
        };
        let reveal = |key: &Template| Ok(Secret::new(key.as_str().to_owned()));
        match resolve_model(settings.as_ref(), &overrides, reveal) {
            Ok(None) => "none".to_owned(),
            Ok(Some(it)) => {
                let key = it.key.as_ref().map_or("-", |it| it.reveal());
                format!("{it} {} {key} {}", it.base_url, it.context_window.unwrap_or_default())
            }
            Err(error) => error.to_string(),
        }
    }

    #[track_caller]
    fn check(settings: &str, variables: &[(&str, &str)], expected: &str) {
        assert_eq!(chosen(settings, variables), expected);
    }

    #[test]
    fn a_key_in_the_environment_is_enough() {
        check("null", &[], "none");
        check(
            "null",
            &[("akey", "A")],
            "anthropic/claude-sonnet-4-5 https://api.anthropic.com/ A 200000",
        );
        check("null", &[("okey", "O")], "openai/gpt-5 https://api.openai.com/v1 O 400000");
        check(
            "null",
            &[("akey", "A"), ("okey", "O")],
            "anthropic/claude-sonnet-4-5 https://api.anthropic.com/ A 200000",
        );
        check(
            "null",
            &[("okey", "O"), ("obase", "http://x/v1")],
            "openai/gpt-5 http://x/v1 O 400000",
        );
        check(
            "null",
            &[("okey", "O"), ("obase", "nowhere")],
            "the model's base URL is no http or https address",
        );
    }

    #[test]
    fn the_requested_model_chooses_provider_and_name() {
        let both = [("akey", "A"), ("okey", "O")];
        let with = |requested| [both[0], both[1], ("wanted", requested)];
        check("null", &with("gpt-4o"), "openai/gpt-4o https://api.openai.com/v1 O 128000");
        check("null", &with("claude-x"), "anthropic/claude-x https://api.anthropic.com/ A 200000");
        check(
            "null",
            &with("openai-responses"),
            "openai-responses/gpt-5 https://api.openai.com/v1 O 400000",
        );
        check("null", &with("openai/a/b"), "openai/a/b https://api.openai.com/v1 O 0");
        check(
            "null",
            &[("obase", "http://localhost:1"), ("wanted", "a/b")],
            "openai/a/b http://localhost:1/ - 0",
        );
        check("null", &[("obase", "http://localhost:1")], "none");
        check(
            "null",
            &[("akey", "A"), ("wanted", "openai/x")],
            "there is no key for a model of `openai`",
        );
        check("null", &[("wanted", "gpt-5")], "there is no key for a model of `openai`");
    }

    #[test]
    fn a_key_and_its_address_come_from_one_place() {
        let ours = r#"{"provider": "openai", "name": "m", "baseUrl": "https://ours.example/v1", "apiKey": "S", "window": 9}"#;
        let variables = [("okey", "O"), ("obase", "https://theirs.example/v1")];
        check(ours, &variables, "openai/m https://ours.example/v1 S 9");
        // Another model has another context window.
        let requested = [("wanted", "n")];
        check(ours, &requested, "openai/n https://ours.example/v1 S 0");
        let key_only = r#"{"provider": "openai", "apiKey": "S"}"#;
        check(key_only, &variables, "openai/gpt-5 https://api.openai.com/v1 S 400000");
        let address_only = r#"{"provider": "openai", "baseUrl": "https://ours.example"}"#;
        check(address_only, &variables, "openai/gpt-5 https://ours.example/ - 400000");
        let neither = r#"{"provider": "openai", "name": "m"}"#;
        check(neither, &variables, "openai/m https://theirs.example/v1 O 0");
        check(neither, &[], "there is no key for a model of `openai`");
        // Settings of one provider do not apply to another.
        check(
            ours,
            &[("wanted", "anthropic/claude-x"), ("akey", "A")],
            "anthropic/claude-x https://api.anthropic.com/ A 200000",
        );
    }
}
