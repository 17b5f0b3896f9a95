//! A model at a URL: sends what a provider's language makes of a conversation, reads the stream that comes back, and
//! asks again where that may help. What is said, and what it means, is left to each language.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value as Json;
use switchboard::config::model_choice::Provider;
use switchboard::config::secret::Secret;
use switchboard::config::shown::printable;
use switchboard::wire::network::{Network, SetupError};
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;

use crate::anthropic;
use crate::attempts::Temper;
use crate::chosen_model::ChosenModel;
use crate::event_flow::{EventFlow, cause};
use crate::language_model::{
    Answered, Answering, Delta, LanguageModel, ModelError, ModelErrorKind, ModelRequest,
};
use crate::model_trouble::{Again, Trouble};
use crate::openai_chat;
use crate::openai_responses;

/// The most of a refusal that is read.
const LARGEST_REFUSAL: usize = 64 * 1024;
/// How long a refusal may take.
const REFUSING: Duration = Duration::from_secs(10);

/// What a request is written with, besides what was said.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) model: String,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) thinking: Option<u64>,
    /// Who may take back what was thought: the same model in the same language.
    pub(crate) thinker: String,
    /// Does it give away its thoughts in a form that can be given back? Asked until it says no.
    pub(crate) gives_thoughts: AtomicBool,
}

impl Manner {
    /// The longest answer, in tokens, whoever is the stricter.
    pub(crate) fn longest(&self, request: &ModelRequest) -> Option<u64> {
        match (self.max_tokens, request.max_tokens) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        }
    }
}

/// Takes the events of one answer.
pub(crate) trait Hearing: Send {
    /// Takes one, and says what may be passed on at once.
    fn take(&mut self, event: &Json) -> Result<Vec<Delta>, Trouble>;

    /// Is it all there? Some streams go on after their last word.
    fn is_over(&self) -> bool;

    /// The whole answer, where it is one.
    fn finish(self: Box<Self>) -> Result<Answered, Trouble>;
}

/// A model at a URL.
pub struct ModelClient {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
    key: Option<Secret>,
    provider: Provider,
    manner: Arc<Manner>,
    name: String,
    window: Option<u64>,
    temper: Temper,
}

impl fmt::Debug for ModelClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelClient").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ModelClient {
    /// A client for the model that was chosen. It follows no redirects.
    pub fn new(
        chosen: &ChosenModel,
        network: &Network,
        temper: Temper,
    ) -> Result<ModelClient, SetupError> {
        let client = network.client(|builder| builder)?;
        let ChosenModel { provider, name, base_url, key, max_tokens, window, thinking } = chosen;
        let manner = Manner {
            model: name.clone(),
            max_tokens: *max_tokens,
            thinking: *thinking,
            thinker: format!("{}/{name}", provider.id()),
            gives_thoughts: AtomicBool::new(true),
        };
        Ok(ModelClient {
            client,
            endpoint: endpoint(*provider, base_url),
            headers: headers(*provider, key.as_ref()),
            key: key.clone(),
            provider: *provider,
            manner: Arc::new(manner),
            name: name.clone(),
            window: *window,
            temper,
        })
    }

    fn body(&self, request: &ModelRequest) -> Bytes {
        let body = match self.provider {
            Provider::Anthropic => anthropic::body(request, &self.manner),
            Provider::OpenAi => openai_chat::body(request, &self.manner),
            Provider::OpenAiResponses => openai_responses::body(request, &self.manner),
        };
        body.to_string().into()
    }

    fn hearing(&self) -> Box<dyn Hearing> {
        let thinker = self.manner.thinker.clone();
        match self.provider {
            Provider::Anthropic => Box::new(anthropic::Heard::new(thinker)),
            Provider::OpenAi => Box::new(openai_chat::Heard::default()),
            Provider::OpenAiResponses => Box::new(openai_responses::Heard::new(thinker)),
        }
    }

    /// Asks as often as may help.
    async fn persist(
        &self,
        request: &ModelRequest,
        said: &mpsc::Sender<Delta>,
    ) -> Result<Answered, ModelError> {
        let mut attempt = 1;
        loop {
            let trouble = match self.once(self.body(request), said).await {
                Ok(answered) => return Ok(answered),
                Err(trouble) => self.hushed(trouble),
            };
            let Some(after) = self.temper.wait(attempt, trouble.again) else {
                let host = self.endpoint.host_str().unwrap_or_default();
                let model = format!("{} at {host}", printable(&self.name));
                return Err(ModelError { model, kind: trouble.kind });
            };
            let because = trouble.kind.to_string();
            let _nobody_listens = said.send(Delta::Again { attempt, after, because }).await;
            tokio::time::sleep(after).await;
            attempt += 1;
        }
    }

    async fn once(&self, body: Bytes, said: &mpsc::Sender<Delta>) -> Result<Answered, Trouble> {
        let response = self.send(body).await?;
        let mut flow = EventFlow::new(response, self.temper.idle);
        let mut heard = self.hearing();
        while !heard.is_over() {
            let Some(event) = flow.next().await? else { break };
            for delta in heard.take(&event)? {
                let _nobody_listens = said.send(delta).await;
            }
        }
        heard.finish()
    }

    async fn send(&self, body: Bytes) -> Result<Response, Trouble> {
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
        let response = match timeout(self.temper.beginning, request.body(body).send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unreachable(&cause(&error))),
            Err(_) => {
                let seconds = self.temper.beginning.as_secs_f64();
                return Err(self.unreachable(&format!("no answer within {seconds} s")));
            }
        };
        if response.status() != StatusCode::OK {
            let (status, headers) = (response.status(), response.headers().clone());
            let body = refusal(response).await;
            let mut trouble = Trouble::refused(status, &headers, &body);
            let is_about_thoughts =
                Trouble::param(&body).is_some_and(|it| it.starts_with("include"));
            if is_about_thoughts && self.manner.gives_thoughts.swap(false, Ordering::Relaxed) {
                trouble.again = Again::After(Duration::ZERO);
            }
            return Err(trouble);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        match kind {
            Some(kind) if kind.starts_with("text/event-stream") => Ok(response),
            Some(kind) => Err(Trouble::senseless(&format!("{kind} instead of a stream of events"))),
            None => Err(Trouble::senseless("something instead of a stream of events")),
        }
    }

    fn unreachable(&self, why: &str) -> Trouble {
        let url = self.endpoint.origin().ascii_serialization();
        let why = format!("{url}: {}", printable(why));
        Trouble { kind: ModelErrorKind::Unreachable(why), again: Again::Soon }
    }

    /// A service that quotes what it was shown is not quoted with it.
    fn hushed(&self, trouble: Trouble) -> Trouble {
        let Some(key) = self.key.as_ref().map(Secret::reveal).filter(|it| !it.is_empty()) else {
            return trouble;
        };
        let hush = |text: String| text.replace(key, "…");
        let kind = match trouble.kind {
            ModelErrorKind::NotSet => ModelErrorKind::NotSet,
            ModelErrorKind::Unreachable(text) => ModelErrorKind::Unreachable(hush(text)),
            ModelErrorKind::Key(text) => ModelErrorKind::Key(hush(text)),
            ModelErrorKind::Busy(text) => ModelErrorKind::Busy(hush(text)),
            ModelErrorKind::TooLong(text) => ModelErrorKind::TooLong(hush(text)),
            ModelErrorKind::Refused { status, message } => {
                ModelErrorKind::Refused { status, message: hush(message) }
            }
            ModelErrorKind::Senseless(text) => ModelErrorKind::Senseless(hush(text)),
            ModelErrorKind::BrokenOff(text) => ModelErrorKind::BrokenOff(hush(text)),
        };
        Trouble { kind, ..trouble }
    }
}

impl LanguageModel for ModelClient {
    fn name(&self) -> &str {
        &self.name
    }

    fn window(&self) -> Option<u64> {
        self.window
    }

    fn answer<'a>(&'a self, request: ModelRequest, said: mpsc::Sender<Delta>) -> Answering<'a> {
        Box::pin(async move { self.persist(&request, &said).await })
    }
}

/// As much of a refusal as is worth reading.
async fn refusal(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            let room = LARGEST_REFUSAL - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if body.len() >= LARGEST_REFUSAL {
                break;
            }
        }
    };
    let _what_came_is_enough = timeout(REFUSING, read).await;
    body
}

/// Where requests go. People write the base with and without the version.
fn endpoint(provider: Provider, base: &Url) -> Url {
    let (version, path) = match provider {
        Provider::Anthropic => ("v1", "messages"),
        Provider::OpenAi => ("", "chat/completions"),
        Provider::OpenAiResponses => ("", "responses"),
    };
    let mut endpoint = base.clone();
    let base = base.path().trim_end_matches('/');
    let version = match version {
        "" => String::new(),
        version if base.ends_with(&format!("/{version}")) => String::new(),
        version => format!("/{version}"),
    };
    endpoint.set_path(&format!("{base}{version}/{path}"));
    endpoint
}

fn headers(provider: Provider, key: Option<&Secret>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let (name, value) = match provider {
        Provider::Anthropic => {
            let version = HeaderName::from_static("anthropic-version");
            headers.insert(version, HeaderValue::from_static("2023-06-01"));
            (HeaderName::from_static("x-api-key"), key.map(|it| it.reveal().to_owned()))
        }
        Provider::OpenAi | Provider::OpenAiResponses => {
            (AUTHORIZATION, key.map(|it| format!("Bearer {}", it.reveal())))
        }
    };
    // A key that cannot stand in a header is none; the service says that one is missing.
    if let Some(mut value) = value.and_then(|it| HeaderValue::from_str(it.trim()).ok()) {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(provider: Provider, base: &str, expected: &str) {
        let base = Url::parse(base).expect("a URL");
        assert_eq!(endpoint(provider, &base).as_str(), expected);
    }

    #[test]
    fn a_base_may_have_its_version_and_a_slash_or_not() {
        let messages = "https://a.example/v1/messages";
        check(Provider::Anthropic, "https://a.example", messages);
        check(Provider::Anthropic, "https://a.example/v1/", messages);
        check(Provider::Anthropic, "https://a.example/x", "https://a.example/x/v1/messages");
        check(Provider::OpenAi, "http://localhost:1/v1", "http://localhost:1/v1/chat/completions");
        check(Provider::OpenAiResponses, "https://o.example/v1/", "https://o.example/v1/responses");
    }
}
