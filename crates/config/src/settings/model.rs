//! Reads `model` of a settings file: which language model to use, its URL and its API key.
//! It is not read from a project's file: the authors of a project must not redirect a user's conversations.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::MODEL_KEYS;
use crate::source::Origin;
use crate::template::Template;

/// The key of the section.
pub(crate) const KEY: &str = "model";

/// The API of a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelProvider {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, which many other providers implement.
    OpenAi,
    /// OpenAI's Responses API.
    OpenAiResponses,
}

impl ModelProvider {
    /// Every provider.
    pub const ALL: [ModelProvider; 3] =
        [ModelProvider::Anthropic, ModelProvider::OpenAi, ModelProvider::OpenAiResponses];

    /// The name in settings.
    pub fn id(self) -> &'static str {
        match self {
            ModelProvider::Anthropic => "anthropic",
            ModelProvider::OpenAi => "openai",
            ModelProvider::OpenAiResponses => "openai-responses",
        }
    }

    /// Parses the name of a provider.
    pub fn parse(word: &str) -> Option<ModelProvider> {
        ModelProvider::ALL.into_iter().find(|it| it.id() == word)
    }
}

/// The language model to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSettings {
    /// The API of the provider.
    pub provider: ModelProvider,
    /// The model's name at the provider.
    pub name: Option<String>,
    /// The base URL of the API.
    pub base_url: Option<String>,
    /// The API key.
    pub api_key: Option<Template>,
    /// The maximum length of a response, in tokens.
    pub max_tokens: Option<u64>,
    /// The context window, in tokens.
    pub context_window: Option<u64>,
    /// The token budget for thinking.
    pub thinking_tokens: Option<u64>,
    /// The position of the section.
    pub origin: Origin,
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<ModelSettings> {
    let mut section = Section::open(members, KEY, MODEL_KEYS, reporter)?;
    let provider = section.one_of(
        "provider",
        "`anthropic`, `openai` or `openai-responses`",
        ModelProvider::parse,
    );
    let (name, base_url) = (section.string("name"), section.https_url("baseUrl"));
    let api_key = section.template("apiKey");
    let (max_tokens, window) =
        (section.positive_integer("maxTokens"), section.positive_integer("window"));
    let thinking = section.positive_integer("thinking");
    Some(ModelSettings {
        provider: provider?,
        name: name.filter(|it| !it.trim().is_empty()),
        base_url,
        api_key,
        max_tokens,
        context_window: window,
        thinking_tokens: thinking,
        origin: section.origin(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::settings::test_reader::{problem_keys, read};
    use crate::source::Source;

    #[test]
    fn a_model_is_read_and_invalid_values_are_reported() {
        let good = read(
            r#"{"model": {"provider": "openai", "name": "m", "baseUrl": "http://localhost:1/v1", "apiKey": "${K}", "maxTokens": 9, "window": 10}}"#,
        );
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        let model = good.model.expect("it is there");
        assert_eq!((model.provider, model.name.as_deref()), (ModelProvider::OpenAi, Some("m")));
        assert_eq!((model.max_tokens, model.context_window), (Some(9), Some(10)));
        for (text, key) in [
            (r#"{"model": "m"}"#, "model"),
            (r#"{"model": {}}"#, "model.provider"),
            (r#"{"model": {"provider": "elsewhere"}}"#, "model.provider"),
        ] {
            let bad = read(text);
            let keys = problem_keys(&bad);
            assert_eq!((keys, bad.model), (vec![key.to_owned()], None), "{text}");
        }
    }

    #[test]
    fn unknown_keys_and_invalid_optional_values_are_reported_and_ignored() {
        let odd = read(
            r#"{"model": {"provider": "anthropic", "nmae": "m", "maxTokens": -1, "baseUrl": "http://example.com"}}"#, // misspelt on purpose
        );
        let keys = problem_keys(&odd);
        assert_eq!(keys, ["model.nmae", "model.baseUrl", "model.maxTokens"]); // misspelt on purpose
        assert!(odd.model.is_some_and(|it| it.max_tokens.is_none() && it.base_url.is_none()));
    }

    #[test]
    fn a_projects_file_chooses_no_model() {
        let source = Source::file(Scope::Project, ".mcp.json");
        let project = Settings::read_project(&source, r#"{"model": {"provider": "anthropic"}}"#);
        assert_eq!(project.model, None);
    }

    #[test]
    fn excerpts_show_the_keys_of_the_section() {
        let bad = read(r#"{"model": {"provider": 1, "maxTokens": 5, "window": 9}}"#);
        let excerpt = bad.layer.problems[0].excerpt.as_ref().expect("the problem has a line");
        assert_eq!(excerpt.line, r#"{"model": {"provider": 1, "maxTokens": 5, "window": 9}}"#);
    }
}
