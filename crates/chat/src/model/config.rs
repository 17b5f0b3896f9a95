//! Which model answers: what a person said on the command line, in settings and in the environment, made into one choice.
//! A key and the address that it is shown to always come from the same place.

use std::fmt;

use switchboard::config::secret::Secret;
use switchboard::config::settings::model::{ModelProvider, ModelSettings};
use switchboard::config::template::Template;
use thiserror::Error;
use url::Url;

/// What a provider is known by.
struct ProviderDefaults {
    provider: ModelProvider,
    base_url: &'static str,
    default_model: &'static str,
    /// How its models' names begin.
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

/// How much models can look at, by how their names begin; the first that fits.
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

/// A key and where it is shown, as one place says.
#[derive(Debug, Clone, Default)]
pub struct ApiAccess {
    /// The key.
    pub key: Option<Secret>,
    /// The address.
    pub base_url: Option<String>,
}

/// What a person said besides the settings.
#[derive(Debug, Clone, Default)]
pub struct ModelOverrides {
    /// `provider/name` or a name: from the command line, else from the environment.
    pub model: Option<String>,
    /// For Anthropic's messages.
    pub anthropic: ApiAccess,
    /// For OpenAI's ways.
    pub openai: ApiAccess,
}

/// A model that was chosen.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// How it is spoken to.
    pub provider: ModelProvider,
    /// What it is called there.
    pub name: String,
    /// Where it is.
    pub base_url: Url,
    /// What to show there.
    pub key: Option<Secret>,
    /// The longest answer, in tokens.
    pub max_tokens: Option<u64>,
    /// How much it can look at, in tokens.
    pub context_window: Option<u64>,
    /// How many tokens it may think with.
    pub thinking_budget: Option<u64>,
}

/// As people write it.
impl fmt::Display for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.id(), self.name)
    }
}

/// Why no choice can be made of it.
#[derive(Debug, Error)]
pub enum ModelConfigError {
    /// A model of a provider that there is no key for.
    #[error("there is no key for a model of `{}`", .0.id())]
    MissingKey(ModelProvider),
    /// The key cannot be had.
    #[error("the key of the model cannot be used: {0}")]
    UnusableKey(String),
    /// An address that is none.
    #[error("the model's base URL is no http or https address")]
    InvalidBaseUrl,
}

/// Makes the choice; none where nothing says which. `reveal` puts variables and secrets into a key.
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
    // A window that was written down belongs to the model that was.
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
        thinking_budget: settings.and_then(|it| it.thinking_tokens),
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

    /// Whose key is there. An address alone is enough for who says which model: those on this machine want no key.
    fn default_provider(&self, name: Option<&str>) -> Option<ModelProvider> {
        let both = [ModelProvider::Anthropic, ModelProvider::OpenAi];
        let has_key = |it: &ModelProvider| self.access(*it).key.is_some();
        let is_there = |it: &ModelProvider| name.is_some() && self.has_access(*it);
        both.into_iter().find(has_key).or_else(|| both.into_iter().find(is_there))
    }
}

/// `provider/name`, `provider` or a name. Names have slashes, too.
fn split_provider(wanted: &str) -> (Option<ModelProvider>, Option<&str>) {
    let wanted = wanted.trim();
    if wanted.is_empty() {
        return (None, None);
    }
    let (first, rest) = match wanted.split_once('/') {
        Some((first, rest)) => (first, Some(rest).filter(|it| !it.is_empty())),
        None => (wanted, None),
    };
    match ModelProvider::parse(first) {
        Some(provider) => (Some(provider), rest),
        None => (None, Some(wanted)),
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
    fn what_is_wanted_chooses_provider_and_name() {
        let both = [("akey", "A"), ("okey", "O")];
        let with = |wanted| [both[0], both[1], ("wanted", wanted)];
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
        // Another model has another window.
        let wanted = [("wanted", "n")];
        check(ours, &wanted, "openai/n https://ours.example/v1 S 0");
        let key_only = r#"{"provider": "openai", "apiKey": "S"}"#;
        check(key_only, &variables, "openai/gpt-5 https://api.openai.com/v1 S 400000");
        let address_only = r#"{"provider": "openai", "baseUrl": "https://ours.example"}"#;
        check(address_only, &variables, "openai/gpt-5 https://ours.example/ - 400000");
        let neither = r#"{"provider": "openai", "name": "m"}"#;
        check(neither, &variables, "openai/m https://theirs.example/v1 O 0");
        check(neither, &[], "there is no key for a model of `openai`");
        // What belongs to one provider is nothing to another.
        check(
            ours,
            &[("wanted", "anthropic/claude-x"), ("akey", "A")],
            "anthropic/claude-x https://api.anthropic.com/ A 200000",
        );
    }
}
