//! The response of a token endpoint, as RFC 6749 defines it and as real servers send it.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::fetch::FetchResponse;
use crate::scopes::Scopes;
use crate::secret::Secret;
use crate::untrusted_text::sanitize_for_display;

/// The maximum length of a token.
const MAX_TOKEN_LENGTH: usize = 256 * 1024;
/// The maximum lifetime that is believed: ten years.
const MAX_LIFETIME: u64 = 10 * 365 * 24 * 3600;

/// The type of an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenType {
    /// Sent as it is.
    Bearer,
    /// Sent with a DPoP proof (RFC 9449).
    Dpop,
}

/// The tokens of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenResponse {
    /// The access token.
    pub access_token: Secret,
    /// Its type.
    pub token_type: TokenType,
    /// The refresh token.
    pub refresh_token: Option<Secret>,
    /// The ID token (OpenID Connect).
    pub id_token: Option<Secret>,
    /// The lifetime in seconds.
    pub expires_in: Option<u64>,
    /// The granted scopes, if the response names them.
    pub scopes: Option<Scopes>,
}

/// The error code of a token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenErrorCode {
    /// The code or refresh token is invalid or expired.
    InvalidGrant,
    /// The client is unknown.
    InvalidClient,
    /// The client may not use this grant.
    UnauthorizedClient,
    /// The scope is unknown or not allowed.
    InvalidScope,
    /// The resource is unknown or not allowed.
    InvalidTarget,
    /// The grant type is not supported.
    UnsupportedGrantType,
    /// The DPoP proof must contain the server's nonce.
    UseDpopNonce,
    /// The user has not finished yet.
    AuthorizationPending,
    /// The client polls too often.
    SlowDown,
    /// The user denied access.
    AccessDenied,
    /// The device code has expired.
    ExpiredToken,
    /// A temporary failure of the server.
    TemporarilyUnavailable,
    /// Any other code.
    Other,
}

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The authorization server refused.
    #[error("the authorization server refused: {error} {description}")]
    Refused {
        /// The parsed error code.
        code: TokenErrorCode,
        /// The error code as sent.
        error: String,
        /// The error description.
        description: String,
    },
    /// The response contains neither a token nor an error.
    #[error("the authorization server answered with HTTP {status} and no token")]
    Malformed {
        /// The status code.
        status: u16,
    },
}

impl TokenError {
    /// The error code, if the server sent one.
    pub fn code(&self) -> Option<TokenErrorCode> {
        match self {
            TokenError::Refused { code, .. } => Some(*code),
            TokenError::Malformed { .. } => None,
        }
    }
}

/// Parses the response of a token endpoint. An error takes precedence over the status: some servers send errors
/// with status 200.
pub fn parse_token_response(response: &FetchResponse) -> Result<TokenResponse, TokenError> {
    let status = response.status;
    let Some(body) = body_fields(&response.body) else { return Err(unparsable(status)) };
    if let Some(refused) = parse_error(&body, status) {
        return Err(refused);
    }
    let nested = body.get("authed_user").and_then(Value::as_object);
    let access =
        parse_token(&body, "access_token").or_else(|| parse_token(nested?, "access_token"));
    let (true, Some(access)) = (response.is_success(), access) else {
        return Err(unparsable(status));
    };
    let from = match parse_token(&body, "access_token") {
        Some(_) => &body,
        None => nested.unwrap_or(&body),
    };
    let kind = from.get("token_type").and_then(Value::as_str).unwrap_or_default();
    Ok(TokenResponse {
        access_token: access,
        token_type: match kind.eq_ignore_ascii_case("dpop") {
            true => TokenType::Dpop,
            false => TokenType::Bearer,
        },
        refresh_token: parse_token(from, "refresh_token"),
        id_token: parse_token(&body, "id_token"),
        expires_in: from.get("expires_in").and_then(parse_seconds),
        scopes: from.get("scope").and_then(Value::as_str).map(Scopes::parse),
    })
}

fn unparsable(status: u16) -> TokenError {
    match status {
        408 | 429 | 500..=599 => TokenError::Refused {
            code: TokenErrorCode::TemporarilyUnavailable,
            error: format!("HTTP {status}"),
            description: String::new(),
        },
        _ => TokenError::Malformed { status },
    }
}

/// The fields of the body: JSON, or a form, which some servers send regardless of `Accept`.
fn body_fields(body: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(map)) => return Some(map),
        Ok(_) => return None,
        Err(_) => {}
    }
    let text = std::str::from_utf8(body).ok()?.trim();
    if !text.contains('=') || text.starts_with(['<', '{']) {
        return None;
    }
    let pairs = url::form_urlencoded::parse(text.as_bytes());
    Some(pairs.map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect())
}

fn parse_error(body: &Map<String, Value>, status: u16) -> Option<TokenError> {
    let has_token = body.get("access_token").is_some();
    let error = match body.get("error") {
        Some(Value::String(error)) => Some((error.as_str(), None)),
        // Some servers put the code into an object.
        Some(Value::Object(inner)) => {
            let field = |key: &str| inner.get(key).and_then(Value::as_str);
            Some((field("code").or_else(|| field("type")).unwrap_or("error"), field("message")))
        }
        Some(_) | None => None,
    };
    let (error, message) = match error {
        Some(error) => error,
        None if body.get("ok") == Some(&Value::Bool(false)) && !has_token => ("error", None),
        None => return None,
    };
    let description = body.get("error_description").and_then(Value::as_str).or(message);
    Some(TokenError::Refused {
        code: parse_error_code(error, status),
        error: sanitize_for_display(error),
        description: sanitize_for_display(description.unwrap_or_default()),
    })
}

fn parse_error_code(error: &str, status: u16) -> TokenErrorCode {
    match error {
        "invalid_grant"
        | "invalid_refresh_token"
        | "expired_refresh_token"
        | "token_expired"
        | "token_revoked"
        | "invalid_code"
        | "bad_verification_code"
        | "bad_refresh_token"
        | "refresh_token_expired" => TokenErrorCode::InvalidGrant,
        "invalid_client"
        | "invalid_client_id"
        | "bad_client_secret"
        | "incorrect_client_credentials" => TokenErrorCode::InvalidClient,
        "unauthorized_client" => TokenErrorCode::UnauthorizedClient,
        "invalid_scope" => TokenErrorCode::InvalidScope,
        "invalid_target" => TokenErrorCode::InvalidTarget,
        "unsupported_grant_type" => TokenErrorCode::UnsupportedGrantType,
        "use_dpop_nonce" => TokenErrorCode::UseDpopNonce,
        "authorization_pending" => TokenErrorCode::AuthorizationPending,
        "slow_down" => TokenErrorCode::SlowDown,
        "access_denied" => TokenErrorCode::AccessDenied,
        "expired_token" => TokenErrorCode::ExpiredToken,
        "temporarily_unavailable"
        | "server_error"
        | "ratelimited"
        | "internal_error"
        | "fatal_error"
        | "service_unavailable" => TokenErrorCode::TemporarilyUnavailable,
        _ if status == 429 || status >= 500 => TokenErrorCode::TemporarilyUnavailable,
        _ => TokenErrorCode::Other,
    }
}

/// A token that fits into a header.
fn parse_token(body: &Map<String, Value>, name: &str) -> Option<Secret> {
    let text = body.get(name)?.as_str()?;
    let is_good = !text.is_empty()
        && text.len() <= MAX_TOKEN_LENGTH
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    is_good.then(|| Secret::new(text))
}

/// Parses a number, or a string that contains one. Other values are ignored.
fn parse_seconds(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    (number.is_finite() && number >= 0.0).then(|| (number as u64).min(MAX_LIFETIME))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    fn check(status: u16, body: &str) -> Result<TokenResponse, TokenError> {
        let body = body.to_owned().into();
        parse_token_response(&FetchResponse { status, headers: HeaderMap::new(), body })
    }

    fn plain() -> TokenResponse {
        TokenResponse {
            access_token: Secret::new("a"),
            token_type: TokenType::Bearer,
            refresh_token: None,
            id_token: None,
            expires_in: None,
            scopes: None,
        }
    }

    #[test]
    fn token_responses_are_parsed() {
        let refresh = Some(Secret::new("r"));
        for (body, expected) in [
            (r#"{"access_token":"a","token_type":"Bearer"}"#, plain()),
            (r#"{"access_token":"a"}"#, plain()),
            (r#"{"access_token":"a","token_type":"bEARER","error":null}"#, plain()),
            (
                r#"{"access_token":"a","token_type":"DPoP"}"#,
                TokenResponse { token_type: TokenType::Dpop, ..plain() },
            ),
            (
                r#"{"access_token":"a","expires_in":3600}"#,
                TokenResponse { expires_in: Some(3600), ..plain() },
            ),
            (
                r#"{"access_token":"a","expires_in":"3600"}"#,
                TokenResponse { expires_in: Some(3600), ..plain() },
            ),
            (
                r#"{"access_token":"a","expires_in":3599.5}"#,
                TokenResponse { expires_in: Some(3599), ..plain() },
            ),
            (r#"{"access_token":"a","expires_in":-1}"#, plain()),
            (
                r#"{"access_token":"a","expires_in":1e300}"#,
                TokenResponse { expires_in: Some(MAX_LIFETIME), ..plain() },
            ),
            (r#"{"access_token":"a","expires_in":"soon"}"#, plain()),
            (r#"{"access_token":"a","expires_in":{}}"#, plain()),
            (
                r#"{"access_token":"a","refresh_token":"r"}"#,
                TokenResponse { refresh_token: refresh.clone(), ..plain() },
            ),
            (r#"{"access_token":"a","refresh_token":""}"#, plain()),
            (
                r#"{"access_token":"a","scope":"x,y z"}"#,
                TokenResponse { scopes: Some(Scopes::parse("x y z")), ..plain() },
            ),
            (
                r#"{"ok":true,"authed_user":{"access_token":"a","refresh_token":"r","expires_in":"5"}}"#,
                TokenResponse { refresh_token: refresh.clone(), expires_in: Some(5), ..plain() },
            ),
            (
                "access_token=a&scope=x&token_type=bearer",
                TokenResponse { scopes: Some(Scopes::parse("x")), ..plain() },
            ),
        ] {
            assert_eq!(check(200, body), Ok(expected), "{body}");
        }
    }

    #[test]
    fn errors_are_parsed_whatever_the_status() {
        use TokenErrorCode::*;
        for (status, body, expected) in [
            (400, r#"{"error":"invalid_grant"}"#, InvalidGrant),
            (200, r#"{"ok":false,"error":"invalid_refresh_token"}"#, InvalidGrant),
            (200, r#"{"ok":false,"error":"expired_refresh_token"}"#, InvalidGrant),
            (200, r#"{"ok":false,"error":"token_expired"}"#, InvalidGrant),
            (200, r#"{"error":"bad_verification_code"}"#, InvalidGrant),
            (200, "error=bad_verification_code&error_uri=x", InvalidGrant),
            (200, r#"{"ok":false,"error":"ratelimited"}"#, TemporarilyUnavailable),
            (200, r#"{"ok":false}"#, Other),
            (401, r#"{"error":"invalid_client"}"#, InvalidClient),
            (400, r#"{"error":"unauthorized_client"}"#, UnauthorizedClient),
            (400, r#"{"error":"use_dpop_nonce"}"#, UseDpopNonce),
            (400, r#"{"error":"authorization_pending"}"#, AuthorizationPending),
            (400, r#"{"error":"slow_down"}"#, SlowDown),
            (400, r#"{"error":"invalid_target"}"#, InvalidTarget),
            (400, r#"{"error":{"code":"invalid_grant","message":"m"}}"#, InvalidGrant),
            (400, r#"{"error":"something"}"#, Other),
            (503, r#"{"error":"something"}"#, TemporarilyUnavailable),
            (500, "<html>", TemporarilyUnavailable),
            (429, "", TemporarilyUnavailable),
            // An error takes precedence over a token.
            (200, r#"{"error":"invalid_grant","access_token":"a"}"#, InvalidGrant),
        ] {
            let code = check(status, body).map_err(|error| error.code());
            assert_eq!(code.map(|_| ()), Err(Some(expected)), "{status} {body}");
        }
    }

    #[test]
    fn malformed_responses_are_refused() {
        for (status, body) in [
            (200, ""),
            (200, "[]"),
            (200, "<html>a=b</html>"),
            (200, r#"{"access_token":""}"#),
            (200, r#"{"access_token":7}"#),
            (200, r#"{"access_token":"a\nb"}"#),
            (200, r#"{"access_token":"é"}"#),
            (400, r#"{"access_token":"a"}"#),
            (302, ""),
        ] {
            assert_eq!(check(status, body), Err(TokenError::Malformed { status }), "{body}");
        }
    }

    #[test]
    fn tokens_do_not_print() {
        let body = r#"{"access_token":"canary1","refresh_token":"canary2","id_token":"canary3"}"#;
        assert!(!format!("{:?}", check(200, body)).contains("canary"));
    }

    proptest! {
        #[test]
        fn no_body_causes_a_panic(status in 0u16..700, body in "[ -~]{0,120}") {
            let _read = check(status, &body);
        }
    }
}
