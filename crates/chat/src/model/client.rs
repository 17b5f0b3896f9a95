//! The HTTP client of a model: sends a request, reads the response stream, and retries. The format of both is left to
//! `provider`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use switchboard::config::display::printable;
use switchboard::config::secret::Secret;
use switchboard::config::settings::model::ModelProvider;
use switchboard::wire::http::client::{HttpClient, HttpSetupError};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{debug, info, warn};
use url::Url;

use crate::model::attempt_error::{AttemptError, RetryAdvice};
use crate::model::config::ModelConfig;
use crate::model::language_model::{
    LanguageModel, ModelError, ModelErrorKind, ModelRequest, ModelResponse, ResponseDelta,
    ResponseFuture,
};
use crate::model::provider::{
    RequestSettings, ResponseParser, anthropic, openai_chat, openai_responses,
};
use crate::model::retry::RetryPolicy;
use crate::model::sse_stream::{SseStream, root_cause};

/// The most bytes of an error body that are read.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// How long reading an error body may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A model behind an HTTP API.
pub struct ModelClient {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
    key: Option<Secret>,
    provider: ModelProvider,
    settings: Arc<RequestSettings>,
    name: String,
    context_window: Option<u64>,
    retry_policy: RetryPolicy,
}

impl fmt::Debug for ModelClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelClient").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ModelClient {
    /// A client for a resolved model. It follows no redirects.
    pub fn new(
        config: &ModelConfig,
        network: &HttpClient,
        retry_policy: RetryPolicy,
    ) -> Result<ModelClient, HttpSetupError> {
        let client = network.reqwest_client(|builder| builder)?;
        let ModelConfig {
            provider,
            name,
            base_url,
            key,
            max_tokens,
            context_window: window,
            thinking,
            effort,
        } = config;
        let settings = RequestSettings {
            model: name.clone(),
            max_tokens: *max_tokens,
            thinking: *thinking,
            effort: *effort,
            model_id: format!("{}/{name}", provider.id()),
            returns_encrypted_reasoning: AtomicBool::new(true),
        };
        Ok(ModelClient {
            client,
            endpoint: endpoint_url(*provider, base_url),
            headers: request_headers(*provider, key.as_ref()),
            key: key.clone(),
            provider: *provider,
            settings: Arc::new(settings),
            name: name.clone(),
            context_window: *window,
            retry_policy,
        })
    }

    fn request_body(&self, request: &ModelRequest) -> Bytes {
        let body = match self.provider {
            ModelProvider::Anthropic => anthropic::body(request, &self.settings),
            ModelProvider::OpenAi => openai_chat::body(request, &self.settings),
            ModelProvider::OpenAiResponses => openai_responses::body(request, &self.settings),
        };
        body.to_string().into()
    }

    fn response_parser(&self) -> Box<dyn ResponseParser> {
        let model_id = self.settings.model_id.clone();
        match self.provider {
            ModelProvider::Anthropic => Box::new(anthropic::MessagesParser::new(model_id)),
            ModelProvider::OpenAi => Box::new(openai_chat::ChatCompletionsParser::default()),
            ModelProvider::OpenAiResponses => {
                Box::new(openai_responses::ResponsesParser::new(model_id))
            }
        }
    }

    /// Sends the request, and retries as the policy allows.
    async fn respond_with_retries(
        &self,
        request: &ModelRequest,
        deltas: &mpsc::Sender<ResponseDelta>,
    ) -> Result<ModelResponse, ModelError> {
        let mut attempt = 1;
        loop {
            let error = match self.attempt(self.request_body(request), deltas).await {
                Ok(response) => {
                    let usage = response.usage;
                    let (input, output) = (usage.input, usage.output);
                    debug!(model = self.name, attempt, input, output, "model responded");
                    return Ok(response);
                }
                Err(error) => self.without_key(error),
            };
            let error_kind = error.kind.log_label();
            let Some(after) = self.retry_policy.backoff(attempt, error.retry) else {
                warn!(model = self.name, attempt, error = error_kind, "model request failed");
                let host = self.endpoint.host_str().unwrap_or_default();
                let model = format!("{} at {host}", printable(&self.name));
                return Err(ModelError { model, status: error.status, kind: error.kind });
            };
            let (model, delay) = (&*self.name, after);
            info!(model, attempt, error = error_kind, ?delay, "model request failed, retrying");
            let reason = error.kind.to_string();
            let _receiver_dropped =
                deltas.send(ResponseDelta::Retrying { attempt, after, reason }).await;
            tokio::time::sleep(after).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        body: Bytes,
        deltas: &mpsc::Sender<ResponseDelta>,
    ) -> Result<ModelResponse, AttemptError> {
        let response = self.send(body).await?;
        let mut events = SseStream::new(response, self.retry_policy.idle_timeout);
        let mut parser = self.response_parser();
        while !parser.is_complete() {
            let Some(event) = events.next().await? else { break };
            for delta in parser.push_event(&event)? {
                let _receiver_dropped = deltas.send(delta).await;
            }
        }
        parser.finish()
    }

    async fn send(&self, body: Bytes) -> Result<Response, AttemptError> {
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
        let response =
            match timeout(self.retry_policy.response_timeout, request.body(body).send()).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(self.unreachable(&root_cause(&error))),
                Err(_) => {
                    let seconds = self.retry_policy.response_timeout.as_secs_f64();
                    return Err(self.unreachable(&format!("no answer within {seconds} s")));
                }
            };
        if response.status() != StatusCode::OK {
            let (status, headers) = (response.status(), response.headers().clone());
            let body = error_body(response).await;
            let mut error = AttemptError::from_status(status, &headers, &body);
            let rejects_reasoning =
                AttemptError::rejected_parameter(&body).is_some_and(|it| it.starts_with("include"));
            if rejects_reasoning
                && self.settings.returns_encrypted_reasoning.swap(false, Ordering::Relaxed)
            {
                error.retry = RetryAdvice::After(Duration::ZERO);
            }
            return Err(error);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        match kind {
            Some(kind) if kind.starts_with("text/event-stream") => Ok(response),
            Some(kind) => Err(AttemptError::invalid_response(&format!(
                "{kind} instead of a stream of events"
            ))),
            None => Err(AttemptError::invalid_response("something instead of a stream of events")),
        }
    }

    fn unreachable(&self, why: &str) -> AttemptError {
        let url = self.endpoint.origin().ascii_serialization();
        let why = format!("{url}: {}", printable(why));
        let kind = ModelErrorKind::Unreachable(why);
        AttemptError { kind, retry: RetryAdvice::WithBackoff, status: None }
    }

    /// Removes the API key from an error that quotes it.
    fn without_key(&self, error: AttemptError) -> AttemptError {
        let Some(key) = self.key.as_ref().map(Secret::reveal).filter(|it| !it.is_empty()) else {
            return error;
        };
        let redact = |text: String| text.replace(key, "…");
        let kind = match error.kind {
            ModelErrorKind::NotConfigured => ModelErrorKind::NotConfigured,
            ModelErrorKind::Unreachable(text) => ModelErrorKind::Unreachable(redact(text)),
            ModelErrorKind::KeyRejected(text) => ModelErrorKind::KeyRejected(redact(text)),
            ModelErrorKind::Overloaded(text) => ModelErrorKind::Overloaded(redact(text)),
            ModelErrorKind::ContextTooLong(text) => ModelErrorKind::ContextTooLong(redact(text)),
            ModelErrorKind::Rejected { status, message } => {
                ModelErrorKind::Rejected { status, message: redact(message) }
            }
            ModelErrorKind::InvalidResponse(text) => ModelErrorKind::InvalidResponse(redact(text)),
            ModelErrorKind::StreamInterrupted(text) => {
                ModelErrorKind::StreamInterrupted(redact(text))
            }
        };
        AttemptError { kind, ..error }
    }
}

impl LanguageModel for ModelClient {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_window(&self) -> Option<u64> {
        self.context_window
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest,
        deltas: mpsc::Sender<ResponseDelta>,
    ) -> ResponseFuture<'a> {
        Box::pin(async move { self.respond_with_retries(&request, &deltas).await })
    }
}

/// The start of an error body.
async fn error_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk_bytes)) = response.chunk().await {
            let room = MAX_ERROR_BODY_BYTES - body.len();
            body.extend_from_slice(&chunk_bytes[..chunk_bytes.len().min(room)]);
            if body.len() >= MAX_ERROR_BODY_BYTES {
                break;
            }
        }
    };
    let _timed_out = timeout(ERROR_BODY_TIMEOUT, read).await;
    body
}

/// The endpoint of requests. Base URLs may contain the API version or not.
fn endpoint_url(provider: ModelProvider, base: &Url) -> Url {
    let (version, path) = match provider {
        ModelProvider::Anthropic => ("v1", "messages"),
        ModelProvider::OpenAi => ("", "chat/completions"),
        ModelProvider::OpenAiResponses => ("", "responses"),
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

fn request_headers(provider: ModelProvider, key: Option<&Secret>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let (name, value) = match provider {
        ModelProvider::Anthropic => {
            let version = HeaderName::from_static("anthropic-version");
            headers.insert(version, HeaderValue::from_static("2023-06-01"));
            (HeaderName::from_static("x-api-key"), key.map(|it| it.reveal().to_owned()))
        }
        ModelProvider::OpenAi | ModelProvider::OpenAiResponses => {
            (AUTHORIZATION, key.map(|it| format!("Bearer {}", it.reveal())))
        }
    };
    // A key that is not a valid header value is left out; the service then reports a missing key.
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
    fn check(provider: ModelProvider, base: &str, expected: &str) {
        let base = Url::parse(base).expect("a URL");
        assert_eq!(endpoint_url(provider, &base).as_str(), expected);
    }

    #[test]
    fn a_base_may_have_its_version_and_a_slash_or_not() {
        let messages = "https://a.example/v1/messages";
        check(ModelProvider::Anthropic, "https://a.example", messages);
        check(ModelProvider::Anthropic, "https://a.example/v1/", messages);
        check(ModelProvider::Anthropic, "https://a.example/x", "https://a.example/x/v1/messages");
        check(
            ModelProvider::OpenAi,
            "http://localhost:1/v1",
            "http://localhost:1/v1/chat/completions",
        );
        check(
            ModelProvider::OpenAiResponses,
            "https://o.example/v1/",
            "https://o.example/v1/responses",
        );
    }
}
