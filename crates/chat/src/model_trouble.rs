//! What went wrong with one attempt at an answer, in words that can be printed, and whether another one may help.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value as Json;
use switchboard::config::shown::printable;

use crate::language_model::ModelErrorKind;

/// The longest message of a service that is passed on, in characters.
const LONGEST: usize = 500;
/// The longest that a service may make us wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) kind: ModelErrorKind,
    pub(crate) again: Again,
}

/// May another attempt help?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// No.
    No,
    /// Yes, after a while.
    Soon,
    /// Yes, after this while.
    After(Duration),
}

impl Trouble {
    pub(crate) fn broken_off(why: &str) -> Trouble {
        Trouble { kind: ModelErrorKind::BrokenOff(shown(why)), again: Again::Soon }
    }

    pub(crate) fn senseless(why: &str) -> Trouble {
        Trouble { kind: ModelErrorKind::Senseless(shown(why)), again: Again::No }
    }

    /// What a service says in the middle of a stream, by the word that it has for it.
    pub(crate) fn told(word: &str, message: &str) -> Trouble {
        let message = shown(&format!("{message} ({word})"));
        match word {
            "overloaded_error" | "rate_limit_error" | "rate_limit_exceeded" => {
                Trouble { kind: ModelErrorKind::Busy(message), again: Again::Soon }
            }
            "authentication_error" | "permission_error" | "invalid_api_key" => {
                Trouble { kind: ModelErrorKind::Key(message), again: Again::No }
            }
            "context_length_exceeded" | "request_too_large" => {
                Trouble { kind: ModelErrorKind::TooLong(message), again: Again::No }
            }
            "invalid_request_error"
            | "invalid_prompt"
            | "not_found_error"
            | "insufficient_quota" => {
                let kind = ModelErrorKind::Refused { status: 200, message };
                Trouble { kind, again: Again::No }
            }
            // A server's own error, a time that was over, and what nobody knows yet.
            _ => Trouble { kind: ModelErrorKind::BrokenOff(message), again: Again::Soon },
        }
    }

    /// What a service says instead of an answer.
    pub(crate) fn refused(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Trouble {
        let said = Said::of(body);
        let message = match said.message.is_empty() {
            true => status.to_string(),
            false => format!("{} ({})", said.message, status.as_u16()),
        };
        let kind = match status.as_u16() {
            401 | 403 => ModelErrorKind::Key(message),
            404 => {
                let message =
                    format!("there is no such model, or nothing at this address: {message}");
                ModelErrorKind::Refused { status: 404, message }
            }
            413 => ModelErrorKind::TooLong(message),
            400 if said.is_too_long() => ModelErrorKind::TooLong(message),
            300..=399 => {
                let message = "it sends us elsewhere, and we follow nobody there".to_owned();
                ModelErrorKind::Refused { status: status.as_u16(), message }
            }
            429 | 503 | 529 => ModelErrorKind::Busy(message),
            status => ModelErrorKind::Refused { status, message },
        };
        let helps = match headers.get("x-should-retry").and_then(|it| it.to_str().ok()) {
            Some("true") => true,
            Some("false") => false,
            Some(_) | None => said.code != "insufficient_quota" && is_passing(status),
        };
        let again = match (helps, wait(headers)) {
            (false, _) => Again::No,
            (true, None) => Again::Soon,
            (true, Some(wait)) => Again::After(wait),
        };
        Trouble { kind, again }
    }

    /// Which part of the request a refusal is about, where it says so.
    pub(crate) fn param(body: &[u8]) -> Option<String> {
        let body: Json = serde_json::from_slice(body).ok()?;
        body["error"]["param"].as_str().map(str::to_owned)
    }
}

fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429 | 500..=599)
}

/// How long a service wants us to wait, as far as we are willing to.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = match number("retry-after-ms") {
        Some(milliseconds) => milliseconds / 1000.0,
        None => number(RETRY_AFTER.as_str())?,
    };
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    Some(wait.min(LONGEST_WAIT))
}

/// What is in the body of a refusal.
struct Said {
    message: String,
    code: String,
}

impl Said {
    fn of(body: &[u8]) -> Said {
        let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
        let Ok(json) = serde_json::from_slice::<Json>(body) else {
            let text = String::from_utf8_lossy(body);
            // A page for browsers says nothing in its first lines.
            let message =
                if text.trim_start().starts_with('<') { "a web page" } else { text.trim() };
            return Said { message: shown(message), code: String::new() };
        };
        // Three shapes: an object with a message, a text, and the message alone.
        let error = &json["error"];
        let message = [&error["message"], error, &json["message"], &json["detail"]];
        let message = message.into_iter().map(text).find(|it| !it.is_empty()).unwrap_or_default();
        let code = match &error["code"] {
            Json::String(code) => code.clone(),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                text(&error["type"])
            }
        };
        Said { message: shown(&message), code }
    }

    /// One service has a word for it, the other only says so.
    fn is_too_long(&self) -> bool {
        self.code == "context_length_exceeded" || self.message.starts_with("prompt is too long")
    }
}

/// A service's words, cut and harmless.
pub(crate) fn shown(text: &str) -> String {
    let text: String = text.chars().take(LONGEST).collect();
    printable(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &'static str, value: &str, expected: Again) {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header"));
        let trouble = Trouble::refused(StatusCode::TOO_MANY_REQUESTS, &headers, b"{}");
        assert_eq!(trouble.again, expected, "{name}: {value}");
    }

    #[test]
    fn a_service_may_make_us_wait_for_a_minute_and_no_longer() {
        check("retry-after", "7", Again::After(Duration::from_secs(7)));
        check("retry-after", "86400", Again::After(Duration::from_secs(60)));
        check("retry-after-ms", "1500", Again::After(Duration::from_millis(1500)));
        // A date is not read: the usual wait is as good.
        check("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", Again::Soon);
        check("retry-after", "-1", Again::Soon);
        check("retry-after", "NaN", Again::Soon);
        check("x-should-retry", "false", Again::No);
    }
}
