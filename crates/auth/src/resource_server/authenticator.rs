//! The port at which requests show who they come from. Whom we have seen is let in without waiting ([`Doorkeeper::known`]);
//! everybody else is looked at ([`Doorkeeper::verify`]), and told what is missing ([`Doorkeeper::challenge`]).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use serde_json::Value;
use thiserror::Error;

use super::dpop_verifier::DpopProofError;
use super::jwks::IssuerError;
use super::jws;
use super::jwt_verifier::{AccessTokenError, JwtVerifier};
use super::principal::Principal;
use super::protected_resource::{ProtectedResource, www_authenticate};
use super::token_file::TokenFile;
use crate::scopes::Scopes;

/// Says who a request comes from.
#[derive(Debug)]
pub enum Authenticator {
    /// Nobody is asked: whoever comes is this one. For loopback only.
    Disabled(Principal),
    /// Who is on a list.
    TokenFile(Arc<TokenFile>),
    /// Whom an issuer vouches for.
    Jwt(Box<JwtVerifier>),
}

/// A request, as far as it says who sent it.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its method.
    pub method: &'a Method,
    /// Its target. Only the path counts.
    pub uri: &'a Uri,
}

/// Why a request is not let in. Nothing of the request is in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthError {
    /// It shows no token.
    #[error("a token is needed")]
    MissingToken,
    /// It shows one in a way that nobody understands.
    #[error("the authorization header is malformed, or there are several")]
    Malformed,
    /// The token is not good.
    #[error("{0}")]
    Token(AccessTokenError),
    /// The token is good, and its sender does not prove to be its owner.
    #[error("{0}")]
    Proof(DpopProofError),
    /// The token is good, and not for this.
    #[error("the token does not have the scopes that are needed")]
    InsufficientScope(Scopes),
    /// Nobody can say: the issuer does not answer.
    #[error("the issuer's keys are not there")]
    IssuerUnavailable(#[source] IssuerError),
}

impl AuthError {
    /// The answer's status.
    pub fn status(&self) -> StatusCode {
        match self {
            AuthError::MissingToken | AuthError::Token(_) | AuthError::Proof(_) => {
                StatusCode::UNAUTHORIZED
            }
            AuthError::Malformed => StatusCode::BAD_REQUEST,
            AuthError::InsufficientScope(_) => StatusCode::FORBIDDEN,
            AuthError::IssuerUnavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Authenticator {
    /// Lets everybody in as `local`. For loopback only.
    pub fn disabled() -> Authenticator {
        Authenticator::Disabled(Principal::local())
    }

    /// Who it is, where that is known already: a look-up, and no waiting. Bound tokens need a proof with every request,
    /// and so are never known. Must be called inside of the runtime: old keys are fetched anew behind it.
    pub fn cached(&self, headers: &HeaderMap) -> Option<Principal> {
        match self {
            Authenticator::Disabled(local) => Some(local.clone()),
            Authenticator::TokenFile(list) => list.find(PresentedToken::bearer_token(headers)?),
            Authenticator::Jwt(issuer) => {
                issuer.cached_bearer(PresentedToken::bearer_token(headers)?)
            }
        }
    }

    /// Who it is. May wait for the issuer's keys, with a deadline.
    pub async fn authenticate(&self, request: RequestHead<'_>) -> Result<Principal, AuthError> {
        match self {
            Authenticator::Disabled(local) => Ok(local.clone()),
            Authenticator::TokenFile(list) => {
                match PresentedToken::from_headers(request.headers)? {
                    PresentedToken { scheme: AuthScheme::Bearer, token } => {
                        list.find(token).ok_or(AuthError::Token(AccessTokenError::Unknown))
                    }
                    PresentedToken { scheme: AuthScheme::Dpop, .. } => {
                        Err(AuthError::Token(AccessTokenError::WrongScheme))
                    }
                }
            }
            Authenticator::Jwt(issuer) => {
                let presented = PresentedToken::from_headers(request.headers)?;
                match issuer
                    .cached_bearer(presented.token)
                    .filter(|_| presented.scheme == AuthScheme::Bearer)
                {
                    Some(known) => Ok(known),
                    None => issuer.verify(presented, request).await,
                }
            }
        }
    }

    /// What the answer to a refusal says in `WWW-Authenticate`.
    pub fn challenge(&self, error: &AuthError) -> Option<HeaderValue> {
        www_authenticate(error, self.resource())
    }

    /// Us, where an issuer's tokens name us.
    pub fn resource(&self) -> Option<&ProtectedResource> {
        match self {
            Authenticator::Disabled(_) | Authenticator::TokenFile(_) => None,
            Authenticator::Jwt(issuer) => Some(issuer.resource()),
        }
    }

    /// The document about us, to be served to everybody at the path of [`ProtectedResource::metadata_url`].
    pub fn metadata_document(&self) -> Option<Value> {
        match self {
            Authenticator::Disabled(_) | Authenticator::TokenFile(_) => None,
            Authenticator::Jwt(issuer) => Some(issuer.metadata_document()),
        }
    }

    /// Waits for what is under way.
    pub async fn close(&self) {
        match self {
            Authenticator::Disabled(_) | Authenticator::TokenFile(_) => {}
            Authenticator::Jwt(issuer) => issuer.close().await,
        }
    }
}

/// How a token is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthScheme {
    Bearer,
    Dpop,
}

/// What a request shows.
#[derive(Clone, Copy)]
pub(crate) struct PresentedToken<'a> {
    pub scheme: AuthScheme,
    pub token: &'a str,
}

impl<'a> PresentedToken<'a> {
    /// The token of a request. It is in one header, and never in the address.
    fn from_headers(headers: &'a HeaderMap) -> Result<PresentedToken<'a>, AuthError> {
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
            // Somebody's password, which is none of our affair.
            _ => return Err(AuthError::MissingToken),
        };
        let token = token.trim_matches(' ');
        let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let is_token =
            !token.is_empty() && token.len() <= jws::MAX_LENGTH && token.bytes().all(is_token_byte);
        is_token.then_some(PresentedToken { scheme, token }).ok_or(AuthError::Malformed)
    }

    fn bearer_token(headers: &'a HeaderMap) -> Option<&'a str> {
        let presented = PresentedToken::from_headers(headers).ok()?;
        (presented.scheme == AuthScheme::Bearer).then_some(presented.token)
    }
}
