//! The token that a request presents in its `Authorization` header.

use http::{HeaderMap, Method, Uri, header};

use super::auth_error::AuthError;
use super::jws;

/// The parts of a request that authentication needs.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The method.
    pub method: &'a Method,
    /// The target. Only the path is used.
    pub uri: &'a Uri,
}

/// The scheme of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthScheme {
    Bearer,
    Dpop,
}

/// The token that a request presents.
#[derive(Clone, Copy)]
pub(crate) struct PresentedToken<'a> {
    pub scheme: AuthScheme,
    pub token: &'a str,
}

impl<'a> PresentedToken<'a> {
    /// Takes the token from the `Authorization` header. Tokens in the URL are ignored.
    pub(super) fn from_headers(headers: &'a HeaderMap) -> Result<PresentedToken<'a>, AuthError> {
        let mut all = headers.get_all(header::AUTHORIZATION).iter();
        let value = all.next().ok_or(AuthError::MissingToken)?;
        if all.next().is_some() {
            return Err(AuthError::Malformed);
        }
        let text = value.to_str().map_err(|_| AuthError::Malformed)?;
        let (scheme, token) = text.split_once(' ').ok_or(AuthError::Malformed)?;
        let scheme = match scheme {
            it if it.eq_ignore_ascii_case("bearer") => AuthScheme::Bearer,
            it if it.eq_ignore_ascii_case("dpop") => AuthScheme::Dpop,
            // Another scheme, such as Basic.
            _ => return Err(AuthError::MissingToken),
        };
        let token = token.trim_matches(' ');
        let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let is_token =
            !token.is_empty() && token.len() <= jws::MAX_LENGTH && token.bytes().all(is_token_byte);
        is_token.then_some(PresentedToken { scheme, token }).ok_or(AuthError::Malformed)
    }

    pub(super) fn bearer_token(headers: &'a HeaderMap) -> Option<&'a str> {
        let presented = PresentedToken::from_headers(headers).ok()?;
        (presented.scheme == AuthScheme::Bearer).then_some(presented.token)
    }
}
