//! The authorization response: the redirect that reached our listener, or text that the user pasted. `state`
//! and `iss` (RFC 9207) are checked before any other parameter.

use thiserror::Error;
use url::{Url, form_urlencoded};

use crate::secret::Secret;
use crate::untrusted_text::sanitize_for_display;

/// The maximum length of a callback.
const MAX_CALLBACK_LENGTH: usize = 16 * 1024;

/// The expected parameters of the callback.
#[derive(Debug, Clone)]
pub struct ExpectedCallback {
    /// The state that was sent.
    pub state: Secret,
    /// The issuer that the request went to.
    pub issuer: String,
    /// Whether the issuer announced that it sends `iss`.
    pub requires_iss: bool,
}

/// How the callback arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackSource {
    /// At our listener: the query of the request.
    Listener,
    /// Pasted by the user: a URL, its query, or the code alone.
    Pasted,
}

/// Why a callback is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallbackError {
    /// It contains no code.
    #[error("it contains no code")]
    NoCode,
    /// It is too long, or repeats a parameter.
    #[error("it is malformed")]
    Malformed,
    /// It belongs to another login.
    #[error("its state does not belong to this login")]
    WrongState,
    /// It comes from another issuer.
    #[error("it comes from another issuer, `{0}`")]
    WrongIssuer(String),
    /// It lacks the announced `iss`.
    #[error("it does not name its issuer")]
    NoIssuer,
    /// It is a bare code, but the issuer requires `iss`.
    #[error("a code alone is not enough for this authorization server: paste the whole address")]
    BareCode,
    /// The user denied access.
    #[error("access was denied")]
    Denied,
    /// The authorization server refused.
    #[error("the authorization server refused: {error} {description}")]
    Refused {
        /// The error code.
        error: String,
        /// The error description.
        description: String,
    },
}

/// Parses a callback and returns the code.
pub fn parse_callback(
    text: &str,
    source: CallbackSource,
    expected: &ExpectedCallback,
) -> Result<Secret, CallbackError> {
    let text = text.trim();
    if text.len() > MAX_CALLBACK_LENGTH {
        return Err(CallbackError::Malformed);
    }
    let query = match source {
        CallbackSource::Listener => text.to_owned(),
        CallbackSource::Pasted => match query_in_pasted_text(text) {
            Some(query) => query,
            None => return parse_bare_code(text, expected),
        },
    };
    let parameters = CallbackParameters::parse(&query)?;
    if !parameters.state.as_deref().is_some_and(|state| expected.state.equals(state)) {
        return Err(CallbackError::WrongState);
    }
    check_issuer(parameters.issuer.as_deref(), expected)?;
    match (parameters.error, parameters.code) {
        (Some(error), _) if error == "access_denied" => Err(CallbackError::Denied),
        (Some(error), _) => Err(CallbackError::Refused {
            error: sanitize_for_display(&error),
            description: sanitize_for_display(&parameters.description.unwrap_or_default()),
        }),
        (None, Some(code)) if !code.is_empty() => Ok(Secret::new(code)),
        (None, Some(_) | None) => Err(CallbackError::NoCode),
    }
}

/// Compares issuers exactly: a trailing slash makes a difference.
fn check_issuer(iss: Option<&str>, expected: &ExpectedCallback) -> Result<(), CallbackError> {
    match iss {
        Some(issuer) if issuer == expected.issuer => Ok(()),
        Some(issuer) => Err(CallbackError::WrongIssuer(sanitize_for_display(issuer))),
        None if expected.requires_iss => Err(CallbackError::NoIssuer),
        None => Ok(()),
    }
}

/// The query in a pasted text: of a URL, or by itself.
fn query_in_pasted_text(text: &str) -> Option<String> {
    if let Ok(url) = Url::parse(text)
        && matches!(url.scheme(), "http" | "https")
    {
        return Some(url.query().unwrap_or_default().to_owned());
    }
    let query = text.strip_prefix('?').unwrap_or(text);
    let has_names = query.contains("code=") || query.contains("error=");
    has_names.then(|| query.to_owned())
}

/// Parses a bare code, or `code#state` as some pages show it.
fn parse_bare_code(text: &str, expected: &ExpectedCallback) -> Result<Secret, CallbackError> {
    let (code, state) = match text.split_once('#') {
        Some((code, state)) => (code, Some(state)),
        None => (text, None),
    };
    if code.is_empty()
        || code.chars().any(|character| character.is_whitespace() || character.is_control())
    {
        return Err(CallbackError::NoCode);
    }
    if state.is_some_and(|state| !expected.state.equals(state)) {
        return Err(CallbackError::WrongState);
    }
    match expected.requires_iss {
        true => Err(CallbackError::BareCode),
        false => Ok(Secret::new(code)),
    }
}

#[derive(Default)]
struct CallbackParameters {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

impl CallbackParameters {
    fn parse(query: &str) -> Result<CallbackParameters, CallbackError> {
        let mut parameters = CallbackParameters::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let slot = match &*name {
                "code" => &mut parameters.code,
                "state" => &mut parameters.state,
                "iss" => &mut parameters.issuer,
                "error" => &mut parameters.error,
                "error_description" => &mut parameters.description,
                _ => continue,
            };
            // RFC 6749, section 3.1: parameters must not be repeated.
            if slot.replace(value.into_owned()).is_some() {
                return Err(CallbackError::Malformed);
            }
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expected(requires_iss: bool) -> ExpectedCallback {
        let issuer = "https://as.example.com".to_owned();
        ExpectedCallback { state: Secret::new("good-state"), issuer, requires_iss }
    }

    fn check(
        text: &str,
        source: CallbackSource,
        requires_iss: bool,
    ) -> Result<String, CallbackError> {
        parse_callback(text, source, &expected(requires_iss)).map(|code| code.reveal().to_owned())
    }

    const WITH_ISSUER: &str = "code=c&state=good-state&iss=https%3A%2F%2Fas.example.com";

    #[test]
    fn state_and_issuer_come_before_everything_else() {
        let wrong = |issuer: &str| Err(CallbackError::WrongIssuer(issuer.to_owned()));
        for (query, requires_iss, expected) in [
            ("code=c&state=good-state", false, Ok("c".to_owned())),
            (WITH_ISSUER, true, Ok("c".to_owned())),
            (WITH_ISSUER, false, Ok("c".to_owned())),
            ("code=c&state=good-state", true, Err(CallbackError::NoIssuer)),
            (
                "code=c&state=good-state&iss=https://evil.example",
                false,
                wrong("https://evil.example"),
            ),
            (
                "code=c&state=good-state&iss=https://as.example.com/",
                true,
                wrong("https://as.example.com/"),
            ),
            ("code=c&state=good-state&iss=", false, wrong("")),
            (
                "code=c&state=good-state&iss=HTTPS://as.example.com",
                true,
                wrong("HTTPS://as.example.com"),
            ),
            ("code=c", false, Err(CallbackError::WrongState)),
            ("code=c&state=", false, Err(CallbackError::WrongState)),
            ("code=c&state=good-stat", false, Err(CallbackError::WrongState)),
            ("error=access_denied&state=other", false, Err(CallbackError::WrongState)),
            ("error=access_denied&state=good-state", false, Err(CallbackError::Denied)),
            ("error=access_denied&state=good-state&iss=https://e.x", false, wrong("https://e.x")),
            ("state=good-state", false, Err(CallbackError::NoCode)),
            ("code=&state=good-state", false, Err(CallbackError::NoCode)),
            ("", false, Err(CallbackError::WrongState)),
            ("code=a&code=b&state=good-state", false, Err(CallbackError::Malformed)),
            ("code=a&state=good-state&state=x", false, Err(CallbackError::Malformed)),
        ] {
            assert_eq!(check(query, CallbackSource::Listener, requires_iss), expected, "{query}");
        }
    }

    #[test]
    fn an_error_wins_over_a_code_and_cannot_paint_the_screen() {
        let query = "error=server_error&error_description=a%1b%5b31mb%0ac&code=x&state=good-state";
        let refused = CallbackError::Refused {
            error: "server_error".to_owned(),
            description: "a[31mbc".to_owned(),
        };
        assert_eq!(check(query, CallbackSource::Listener, false), Err(refused));
    }

    #[test]
    fn a_user_may_paste_the_url_its_query_or_the_code() {
        for text in [
            "http://127.0.0.1:7000/callback?code=c&state=good-state",
            "  http://localhost/callback?code=c&state=good-state \n",
            "?code=c&state=good-state",
            "code=c&state=good-state",
            "c",
            "c#good-state",
        ] {
            assert_eq!(check(text, CallbackSource::Pasted, false), Ok("c".to_owned()), "{text}");
        }
        let address = format!("http://127.0.0.1:7000/callback?{WITH_ISSUER}");
        assert_eq!(check(&address, CallbackSource::Pasted, true), Ok("c".to_owned()));
        for (text, requires_iss, error) in [
            ("c", true, CallbackError::BareCode),
            ("c#other", false, CallbackError::WrongState),
            ("two words", false, CallbackError::NoCode),
            ("", false, CallbackError::NoCode),
            ("http://127.0.0.1/callback", false, CallbackError::WrongState),
            ("http://127.0.0.1/callback?code=c&state=old", false, CallbackError::WrongState),
        ] {
            assert_eq!(check(text, CallbackSource::Pasted, requires_iss), Err(error), "{text}");
        }
        let long = "c".repeat(MAX_CALLBACK_LENGTH + 1);
        assert_eq!(check(&long, CallbackSource::Pasted, false), Err(CallbackError::Malformed));
    }

    #[test]
    fn a_code_alone_never_arrives_at_the_listener() {
        assert_eq!(check("c", CallbackSource::Listener, false), Err(CallbackError::WrongState));
    }

    proptest! {
        #[test]
        fn the_listener_refuses_callbacks_without_the_state(query in "[ -~]{0,80}") {
            prop_assume!(!query.contains("good-state"));
            prop_assert!(check(&query, CallbackSource::Listener, false).is_err());
        }
    }
}
