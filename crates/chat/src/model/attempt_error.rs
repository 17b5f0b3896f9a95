//! The error of one failed attempt, with a printable message and whether to retry.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value as Json;
use switchboard::config::display::printable;

use crate::model::language_model::ModelErrorKind;

/// The longest message of a service that is shown, in characters.
const MAX_MESSAGE_CHARS: usize = 500;
/// The longest accepted `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct AttemptError {
    pub(crate) kind: ModelErrorKind,
    pub(crate) retry: RetryAdvice,
    /// The HTTP status, if that is the error.
    pub(crate) status: Option<u16>,
}

/// Whether to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryAdvice {
    /// Do not retry.
    Never,
    /// Retry after the policy's backoff.
    WithBackoff,
    /// Retry after this time.
    After(Duration),
}

impl AttemptError {
    pub(crate) fn stream_interrupted(why: &str) -> AttemptError {
        AttemptError {
            kind: ModelErrorKind::StreamInterrupted(printable_message(why)),
            retry: RetryAdvice::WithBackoff,
            status: None,
        }
    }

    pub(crate) fn invalid_response(why: &str) -> AttemptError {
        AttemptError {
            kind: ModelErrorKind::InvalidResponse(printable_message(why)),
            retry: RetryAdvice::Never,
            status: None,
        }
    }

    /// An error event inside a stream, by its code.
    pub(crate) fn from_error_event(code: &str, message: &str) -> AttemptError {
        let message = printable_message(&format!("{message} ({code})"));
        let (kind, retry) = match code {
            "overloaded_error" | "rate_limit_error" | "rate_limit_exceeded" => {
                (ModelErrorKind::Overloaded(message), RetryAdvice::WithBackoff)
            }
            "authentication_error" | "permission_error" | "invalid_api_key" => {
                (ModelErrorKind::KeyRejected(message), RetryAdvice::Never)
            }
            "context_length_exceeded" | "request_too_large" => {
                (ModelErrorKind::ContextTooLong(message), RetryAdvice::Never)
            }
            "invalid_request_error"
            | "invalid_prompt"
            | "not_found_error"
            | "insufficient_quota" => {
                (ModelErrorKind::Rejected { status: 200, message }, RetryAdvice::Never)
            }
            // Internal errors, timeouts and unknown codes.
            _ => (ModelErrorKind::StreamInterrupted(message), RetryAdvice::WithBackoff),
        };
        AttemptError { kind, retry, status: None }
    }

    /// A response with an error status.
    pub(crate) fn from_status(
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> AttemptError {
        let error_body = ErrorBody::parse(body);
        let message = match error_body.message.is_empty() {
            true => status.to_string(),
            false => format!("{} ({})", error_body.message, status.as_u16()),
        };
        let kind = match status.as_u16() {
            401 | 403 => ModelErrorKind::KeyRejected(message),
            404 => {
                let message =
                    format!("there is no such model, or nothing at this address: {message}");
                ModelErrorKind::Rejected { status: 404, message }
            }
            413 => ModelErrorKind::ContextTooLong(message),
            400 if error_body.is_too_long() => ModelErrorKind::ContextTooLong(message),
            300..=399 => {
                let message = "it redirects, and redirects are not followed".to_owned();
                ModelErrorKind::Rejected { status: status.as_u16(), message }
            }
            429 | 503 | 529 => ModelErrorKind::Overloaded(message),
            status => ModelErrorKind::Rejected { status, message },
        };
        let is_retryable = match headers.get("x-should-retry").and_then(|it| it.to_str().ok()) {
            Some("true") => true,
            Some("false") => false,
            Some(_) | None => error_body.code != "insufficient_quota" && is_transient(status),
        };
        let retry = match (is_retryable, retry_after(headers)) {
            (false, _) => RetryAdvice::Never,
            (true, None) => RetryAdvice::WithBackoff,
            (true, Some(wait)) => RetryAdvice::After(wait),
        };
        AttemptError { kind, retry, status: Some(status.as_u16()) }
    }

    /// The request parameter that an error is about, if it names one.
    pub(crate) fn rejected_parameter(body: &[u8]) -> Option<String> {
        let body: Json = serde_json::from_slice(body).ok()?;
        body["error"]["param"].as_str().map(str::to_owned)
    }
}

fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429 | 500..=599)
}

/// The time to wait that a service asks for, limited to [`MAX_RETRY_AFTER`].
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = match number("retry-after-ms") {
        Some(milliseconds) => milliseconds / 1000.0,
        None => number(RETRY_AFTER.as_str())?,
    };
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    Some(wait.min(MAX_RETRY_AFTER))
}

/// The body of an error response.
struct ErrorBody {
    message: String,
    code: String,
}

impl ErrorBody {
    fn parse(body: &[u8]) -> ErrorBody {
        let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
        let Ok(json) = serde_json::from_slice::<Json>(body) else {
            let text = String::from_utf8_lossy(body);
            // The start of an HTML page says nothing.
            let message =
                if text.trim_start().starts_with('<') { "a web page" } else { text.trim() };
            return ErrorBody { message: printable_message(message), code: String::new() };
        };
        // Services send an error object with a message, an error string, or a message alone.
        let error = &json["error"];
        let message = [&error["message"], error, &json["message"], &json["detail"]];
        let message = message.into_iter().map(text).find(|it| !it.is_empty()).unwrap_or_default();
        let code = match &error["code"] {
            Json::String(code) => code.clone(),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                text(&error["type"])
            }
        };
        ErrorBody { message: printable_message(&message), code }
    }

    /// Is the context too long? One service has a code for it, the other only a message.
    fn is_too_long(&self) -> bool {
        self.code == "context_length_exceeded" || self.message.starts_with("prompt is too long")
    }
}

/// A service's message, shortened and printable.
pub(crate) fn printable_message(text: &str) -> String {
    let text: String = text.chars().take(MAX_MESSAGE_CHARS).collect();
    printable(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &'static str, value: &str, expected: RetryAdvice) {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header"));
        let error = AttemptError::from_status(StatusCode::TOO_MANY_REQUESTS, &headers, b"{}");
        assert_eq!(error.retry, expected, "{name}: {value}");
    }

    #[test]
    fn a_service_may_make_us_wait_for_a_minute_and_no_longer() {
        check("retry-after", "7", RetryAdvice::After(Duration::from_secs(7)));
        check("retry-after", "86400", RetryAdvice::After(Duration::from_secs(60)));
        check("retry-after-ms", "1500", RetryAdvice::After(Duration::from_millis(1500)));
        // A date is not parsed: the policy's backoff is used.
        check("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", RetryAdvice::WithBackoff);
        check("retry-after", "-1", RetryAdvice::WithBackoff);
        check("retry-after", "NaN", RetryAdvice::WithBackoff);
        check("x-should-retry", "false", RetryAdvice::Never);
    }
}
