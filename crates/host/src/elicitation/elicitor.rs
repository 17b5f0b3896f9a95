//! The [`Elicitor`] trait, through which the user answers elicitations, and its request and result types. The program
//! that starts the host implements it: a terminal, a window or a gateway client.

use std::future::Future;
use std::pin::Pin;

use serde_json::{Map, Value as Json};
use thiserror::Error;
use url::Url;

use crate::elicitation::form::{Form, FormError};

/// The maximum length of a message shown to the user, in characters.
const MAX_MESSAGE_CHARS: usize = 4000;
/// The maximum length of a URL shown to the user.
const MAX_URL_BYTES: usize = 4096;

/// The reason of a denial that the user chose without giving one.
pub const DENIED_BY_USER: &str = "you said no";

/// Answers elicitations. The user may take any time; dropping the future withdraws the elicitation.
pub trait Elicitor: Send + Sync {
    /// Answers one elicitation.
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a>;

    /// Waits until the user, who was sent to a page, wants to retry or gives up. The default never returns: only the
    /// server's notification ends the wait.
    fn wait_for_completion<'a>(&'a self, elicitation: &'a Elicitation) -> WaitFuture<'a> {
        let _unused = elicitation;
        Box::pin(std::future::pending())
    }
}

/// The future of an elicitation's result.
pub type ElicitFuture<'a> = Pin<Box<dyn Future<Output = ElicitResult> + Send + 'a>>;
/// The future of a wait for the user.
pub type WaitFuture<'a> = Pin<Box<dyn Future<Output = WaitOutcome> + Send + 'a>>;

/// A request from a server to the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// The name of the server.
    pub server: String,
    /// The content of the request.
    pub kind: ElicitationKind,
}

/// The kinds of elicitation.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationKind {
    /// Asks the user to fill in a form.
    Form(Form),
    /// Asks the user to open a URL.
    Url(UrlElicitation),
    /// Asks for permission to use the configured model.
    Sampling(SamplingRequest),
}

/// A request to open a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlElicitation {
    /// The server's message to the user.
    pub message: String,
    /// The URL. Always http or https.
    pub url: Url,
    /// The id that the server uses in its completion notification.
    pub id: Option<String>,
}

/// A server's request for a model's response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingRequest {
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// The messages: role and text.
    pub messages: Vec<(String, String)>,
    /// The maximum number of tokens in the response.
    pub max_tokens: Option<u64>,
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitResult {
    /// Accepted; for a form, with these values. They are validated again.
    Accept(Map<String, Json>),
    /// Declined, with a reason.
    Decline(String),
    /// Cancelled without a decision, with a reason.
    Cancel(String),
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Retry the request now.
    Retry,
    /// The user gave up.
    GivenUp,
}

/// Declines every elicitation, with this reason.
#[derive(Debug, Clone)]
pub struct DeclineAll(pub String);

impl Default for DeclineAll {
    fn default() -> DeclineAll {
        DeclineAll("no user is present to answer".to_owned())
    }
}

impl Elicitor for DeclineAll {
    fn elicit<'a>(&'a self, _elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(async move { ElicitResult::Decline(self.0.clone()) })
    }
}

/// Why an elicitation is rejected without asking the user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidElicitation {
    /// The form is invalid.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The URL is not a plain http or https URL.
    #[error("the URL is not a plain http or https URL")]
    Url,
    /// The mode is unknown.
    #[error("the elicitation mode `{0}` is unknown")]
    UnknownMode(String),
}

impl ElicitResult {
    /// The action in the response to the server.
    pub(crate) fn action(&self) -> &'static str {
        match self {
            ElicitResult::Accept(_) => "accept",
            ElicitResult::Decline(_) => "decline",
            ElicitResult::Cancel(_) => "cancel",
        }
    }
}

impl ElicitationKind {
    /// The kind, for logs.
    pub(crate) fn id(&self) -> &'static str {
        match self {
            ElicitationKind::Form(_) => "form",
            ElicitationKind::Url(_) => "url",
            ElicitationKind::Sampling(_) => "sampling",
        }
    }

    /// Parses the params of `elicitation/create`.
    pub fn parse(params: &Json) -> Result<ElicitationKind, InvalidElicitation> {
        match params["mode"].as_str().unwrap_or("form") {
            "form" => {
                let mut form = Form::parse(params)?;
                form.message = truncated(&form.message);
                Ok(ElicitationKind::Form(form))
            }
            "url" => UrlElicitation::parse(params).map(ElicitationKind::Url),
            other => Err(InvalidElicitation::UnknownMode(other.chars().take(40).collect())),
        }
    }
}

impl UrlElicitation {
    /// Parses a URL elicitation.
    pub fn parse(params: &Json) -> Result<UrlElicitation, InvalidElicitation> {
        let text = params["url"].as_str().filter(|it| it.len() <= MAX_URL_BYTES);
        // URL parsers silently remove such characters; reject the URL instead.
        let text = text.filter(|it| !it.contains(|c: char| c.is_control() || c.is_whitespace()));
        let url = text.and_then(|it| Url::parse(it).ok());
        let is_plain = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && url.host_str().is_some()
                && url.username().is_empty()
                && url.password().is_none()
        };
        Ok(UrlElicitation {
            message: truncated(params["message"].as_str().unwrap_or_default()),
            url: url.filter(is_plain).ok_or(InvalidElicitation::Url)?,
            id: params["elicitationId"].as_str().map(str::to_owned),
        })
    }
}

impl SamplingRequest {
    /// Parses the params of `sampling/createMessage`, as far as the user needs them.
    pub fn parse(params: &Json) -> SamplingRequest {
        let message = |it: &Json| {
            let role = it["role"].as_str().unwrap_or_default();
            let content = match it["content"].as_array() {
                Some(parts) => parts.iter().map(content_text).collect::<Vec<_>>().join("\n"),
                None => content_text(&it["content"]),
            };
            (truncated(role), truncated(&content))
        };
        SamplingRequest {
            system_prompt: params["systemPrompt"].as_str().map(truncated),
            messages: params["messages"].as_array().into_iter().flatten().map(message).collect(),
            max_tokens: params["maxTokens"].as_u64(),
        }
    }
}

fn content_text(content: &Json) -> String {
    match (content["text"].as_str(), content["type"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, kind) => format!("[{}]", kind.unwrap_or("content")),
    }
}

fn truncated(text: &str) -> String {
    let mut truncated_text: String = text.chars().take(MAX_MESSAGE_CHARS).collect();
    if truncated_text.len() < text.len() {
        truncated_text.push('…');
    }
    truncated_text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_plain_web_urls_are_accepted() {
        let parse = |url: &str| UrlElicitation::parse(&json!({"url": url, "elicitationId": "1"}));
        for good in ["https://example.com/a?b=c#d", "http://localhost:8080/"] {
            assert_eq!(parse(good).map(|it| it.url.to_string()), Ok(good.to_owned()));
        }
        let long = format!("https://example.com/{}", "a".repeat(MAX_URL_BYTES));
        for bad in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "https://user:pass@example.com/",
            "https://example.com/\nX",
            "https://exa\tmple.com/",
            "--help",
            "",
            "vscode://x",
            &long,
        ] {
            assert_eq!(parse(bad), Err(InvalidElicitation::Url), "{bad}");
        }
    }

    #[test]
    fn the_default_mode_is_form() {
        let form = json!({"message": "m", "requestedSchema": {"properties": {}}});
        assert!(matches!(ElicitationKind::parse(&form), Ok(ElicitationKind::Form(_))));
        let unknown_mode = json!({"mode": "telepathy"});
        assert_eq!(
            ElicitationKind::parse(&unknown_mode),
            Err(InvalidElicitation::UnknownMode("telepathy".to_owned()))
        );
        assert!(matches!(ElicitationKind::parse(&json!({})), Err(InvalidElicitation::Form(_))));
    }
}
