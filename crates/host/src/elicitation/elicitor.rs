//! What servers ask people, and the port through which people answer. Who stands behind the port, a terminal, a
//! window, a client of ours, is decided by whoever starts the host.

use std::future::Future;
use std::pin::Pin;

use serde_json::{Map, Value as Json};
use thiserror::Error;
use url::Url;

use crate::elicitation::form::{Form, FormError};

/// The longest message that a person is shown, in characters.
const MAX_MESSAGE_CHARS: usize = 4000;
/// The longest address that a person is sent to.
const MAX_URL_BYTES: usize = 4096;

/// Answers what servers ask. Takes as long as people take; dropping the future withdraws the question.
pub trait Elicitor: Send + Sync {
    /// Answers one question.
    fn elicit<'a>(&'a self, inquiry: &'a Elicitation) -> ElicitFuture<'a>;

    /// Waits with somebody who has been sent to a page, until they have waited enough. Where nobody can say so, only
    /// the server ends the wait.
    fn wait_for_completion<'a>(&'a self, inquiry: &'a Elicitation) -> WaitFuture<'a> {
        let _nobody_says_anything = inquiry;
        Box::pin(std::future::pending())
    }
}

/// An answer that is being waited for.
pub type ElicitFuture<'a> = Pin<Box<dyn Future<Output = ElicitResult> + Send + 'a>>;
/// Somebody's patience.
pub type WaitFuture<'a> = Pin<Box<dyn Future<Output = WaitOutcome> + Send + 'a>>;

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// Who asks.
    pub server: String,
    /// What.
    pub kind: ElicitationKind,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationKind {
    /// Some answers.
    Form(Form),
    /// To go somewhere.
    Url(UrlElicitation),
    /// May the server use the model that is configured?
    Sampling(SamplingRequest),
}

/// Somewhere to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlElicitation {
    /// What the server says to the person.
    pub message: String,
    /// Where. Always a web address.
    pub url: Url,
    /// What the server calls it when it is done.
    pub id: Option<String>,
}

/// What a server wants from a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingRequest {
    /// What it tells the model about itself.
    pub system_prompt: Option<String>,
    /// What is said to it: who, and what.
    pub messages: Vec<(String, String)>,
    /// How long the answer may be.
    pub max_tokens: Option<u64>,
}

/// What somebody answered.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitResult {
    /// Yes; to a form, with these answers. They are checked again.
    Accept(Map<String, Json>),
    /// No, and why.
    Decline(String),
    /// Nobody wants to decide, and why.
    Cancel(String),
}

/// What became of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// It is to be tried again now.
    Retry,
    /// It is not to be tried again.
    GivenUp,
}

/// Nobody. Every question is declined, for this reason.
#[derive(Debug, Clone)]
pub struct DeclineAll(pub String);

impl Default for DeclineAll {
    fn default() -> DeclineAll {
        DeclineAll("nobody is here to answer".to_owned())
    }
}

impl Elicitor for DeclineAll {
    fn elicit<'a>(&'a self, _inquiry: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(async move { ElicitResult::Decline(self.0.clone()) })
    }
}

/// Why a question is not put to anybody.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidElicitation {
    /// Its form makes no sense.
    #[error(transparent)]
    Form(#[from] FormError),
    /// It sends people somewhere that is no web address.
    #[error("the address to visit is not a plain http or https address")]
    Url,
    /// Nobody knows what it is.
    #[error("questions of the mode `{0}` are not known")]
    UnknownMode(String),
}

impl ElicitationKind {
    /// Reads the parameters of `elicitation/create`.
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
    /// Reads a question that sends people somewhere.
    pub fn parse(params: &Json) -> Result<UrlElicitation, InvalidElicitation> {
        let text = params["url"].as_str().filter(|it| it.len() <= MAX_URL_BYTES);
        // What a parser would quietly take away does not belong into an address.
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
    /// Reads the parameters of `sampling/createMessage`, as far as a person needs them.
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
        (None, kind) => format!("[{}]", kind.unwrap_or("something")),
    }
}

fn truncated(text: &str) -> String {
    let mut cut: String = text.chars().take(MAX_MESSAGE_CHARS).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_are_sent_to_plain_web_addresses_only() {
        let visit = |url: &str| UrlElicitation::parse(&json!({"url": url, "elicitationId": "1"}));
        for good in ["https://example.com/a?b=c#d", "http://localhost:8080/"] {
            assert_eq!(visit(good).map(|it| it.url.to_string()), Ok(good.to_owned()));
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
            assert_eq!(visit(bad), Err(InvalidElicitation::Url), "{bad}");
        }
    }

    #[test]
    fn a_question_is_a_form_unless_it_says_otherwise() {
        let form = json!({"message": "m", "requestedSchema": {"properties": {}}});
        assert!(matches!(ElicitationKind::parse(&form), Ok(ElicitationKind::Form(_))));
        let strange = json!({"mode": "telepathy"});
        assert_eq!(
            ElicitationKind::parse(&strange),
            Err(InvalidElicitation::UnknownMode("telepathy".to_owned()))
        );
        assert!(matches!(ElicitationKind::parse(&json!({})), Err(InvalidElicitation::Form(_))));
    }
}
