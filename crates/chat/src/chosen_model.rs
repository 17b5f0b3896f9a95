//! Which model answers: what a person said on the command line, in settings and in the environment, made into one choice.
//! A key and the address that it is shown to always come from the same place.

use std::fmt;

use switchboard::config::model_choice::{ModelChoice, Provider};
use switchboard::config::secret::Secret;
use switchboard::config::template::Template;
use thiserror::Error;
use url::Url;

/// What a provider is known by.
struct Known {
    provider: Provider,
    base_url: &'static str,
    usual_name: &'static str,
    /// How its models' names begin.
    beginnings: &'static [&'static str],
}

const KNOWN: &[Known] = &[
    Known {
        provider: Provider::Anthropic,
        base_url: "https://api.anthropic.com",
        usual_name: "claude-sonnet-4-5",
        beginnings: &["claude"],
    },
    Known {
        provider: Provider::OpenAi,
        base_url: "https://api.openai.com/v1",
        usual_name: "gpt-5",
        beginnings: &["gpt-", "chatgpt-", "o1", "o3", "o4"],
    },
    Known {
        provider: Provider::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        usual_name: "gpt-5",
        beginnings: &[],
    },
];

/// How much models can look at, by how their names begin; the first that fits.
const WINDOWS: &[(&str, u64)] = &[
    ("claude", 200_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("o3", 200_000),
    ("o4", 200_000),
];

fn known(provider: Provider) -> &'static Known {
    KNOWN.iter().find(|it| it.provider == provider).expect("every provider is in the table")
}

/// A key and where it is shown, as one place says.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The key.
    pub key: Option<Secret>,
    /// The address.
    pub base_url: Option<String>,
}

/// What a person said besides the settings.
#[derive(Debug, Clone, Default)]
pub struct ModelWishes {
    /// `provider/name` or a name: from the command line, else from the environment.
    pub wanted: Option<String>,
    /// For Anthropic's messages.
    pub anthropic: Access,
    /// For OpenAI's ways.
    pub openai: Access,
}

/// A model that was chosen.
#[derive(Debug, Clone)]
pub struct ChosenModel {
    /// How it is spoken to.
    pub provider: Provider,
    /// What it is called there.
    pub name: String,
    /// Where it is.
    pub base_url: Url,
    /// What to show there.
    pub key: Option<Secret>,
    /// The longest answer, in tokens.
    pub max_tokens: Option<u64>,
    /// How much it can look at, in tokens.
    pub window: Option<u64>,
    /// How many tokens it may think with.
    pub thinking: Option<u64>,
}

/// As people write it.
impl fmt::Display for ChosenModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.id(), self.name)
    }
}

/// Why no choice can be made of it.
#[derive(Debug, Error)]
pub enum ChoiceError {
    /// A model of a provider that there is no key for.
    #[error("there is no key for a model of `{}`", .0.id())]
    NoKey(Provider),
    /// The key cannot be had.
    #[error("the key of the model cannot be used: {0}")]
    Key(String),
    /// An address that is none.
    #[error("the model's base URL is no http or https address")]
    BaseUrl,
}

/// Makes the choice; none where nothing says which. `reveal` puts variables and secrets into a key.
pub fn choose(
    settings: Option<&ModelChoice>,
    wishes: &ModelWishes,
    reveal: impl Fn(&Template) -> Result<Secret, String>,
) -> Result<Option<ChosenModel>, ChoiceError> {
    let (wanted_provider, wanted_name) = wishes.wanted.as_deref().map_or((None, None), taken_apart);
    let of_name = wanted_name.and_then(|name| {
        let begins = |it: &&Known| it.beginnings.iter().any(|start| name.starts_with(start));
        KNOWN.iter().find(begins).map(|it| it.provider)
    });
    let Some(provider) = wanted_provider
        .or(settings.map(|it| it.provider))
        .or(of_name.filter(|it| wishes.has_access(*it)))
        .or_else(|| wishes.usual(wanted_name))
    else {
        return match (wanted_provider.or(of_name), wanted_name) {
            (Some(provider), _) => Err(ChoiceError::NoKey(provider)),
            (None, Some(_)) => Err(ChoiceError::NoKey(Provider::Anthropic)),
            (None, None) => Ok(None),
        };
    };
    let settings = settings.filter(|it| it.provider == provider);
    let of_settings = settings.filter(|it| it.base_url.is_some() || it.api_key.is_some());
    let access = match of_settings {
        Some(it) => {
            let key = it.api_key.as_ref().map(reveal).transpose().map_err(ChoiceError::Key)?;
            Access { key, base_url: it.base_url.clone() }
        }
        None => wishes.access(provider).clone(),
    };
    if access.key.is_none() && access.base_url.is_none() {
        return Err(ChoiceError::NoKey(provider));
    }
    let known = known(provider);
    let base_url = Url::parse(access.base_url.as_deref().unwrap_or(known.base_url)).ok();
    let base_url = base_url.filter(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    let name = wanted_name.or(settings.and_then(|it| it.name.as_deref()));
    let name = name.unwrap_or(known.usual_name).to_owned();
    // A window that was written down belongs to the model that was.
    let is_written = settings.is_some_and(|it| it.name.as_ref().is_none_or(|it| *it == name));
    let window = settings.filter(|_| is_written).and_then(|it| it.window);
    let usual_window = || WINDOWS.iter().find(|(start, _)| name.starts_with(start)).map(|it| it.1);
    Ok(Some(ChosenModel {
        provider,
        base_url: base_url.ok_or(ChoiceError::BaseUrl)?,
        key: access.key,
        max_tokens: settings.and_then(|it| it.max_tokens),
        window: window.or_else(usual_window),
        thinking: settings.and_then(|it| it.thinking),
        name,
    }))
}

impl ModelWishes {
    fn access(&self, provider: Provider) -> &Access {
        match provider {
            Provider::Anthropic => &self.anthropic,
            Provider::OpenAi | Provider::OpenAiResponses => &self.openai,
        }
    }

    fn has_access(&self, provider: Provider) -> bool {
        let access = self.access(provider);
        access.key.is_some() || access.base_url.is_some()
    }

    /// Whose key is there. An address alone is enough for who says which model: those on this machine want no key.
    fn usual(&self, name: Option<&str>) -> Option<Provider> {
        let both = [Provider::Anthropic, Provider::OpenAi];
        let has_key = |it: &Provider| self.access(*it).key.is_some();
        let is_there = |it: &Provider| name.is_some() && self.has_access(*it);
        both.into_iter().find(has_key).or_else(|| both.into_iter().find(is_there))
    }
}

/// `provider/name`, `provider` or a name. Names have slashes, too.
fn taken_apart(wanted: &str) -> (Option<Provider>, Option<&str>) {
    let wanted = wanted.trim();
    if wanted.is_empty() {
        return (None, None);
    }
    let (first, rest) = match wanted.split_once('/') {
        Some((first, rest)) => (first, Some(rest).filter(|it| !it.is_empty())),
        None => (wanted, None),
    };
    match Provider::parse(first) {
        Some(provider) => (Some(provider), rest),
        None => (None, Some(wanted)),
    }
}
