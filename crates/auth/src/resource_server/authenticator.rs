//! Authenticates requests: known tokens without waiting ([`Authenticator::cached`]), others by verification
//! ([`Authenticator::authenticate`]), and builds the challenge of a refusal ([`Authenticator::challenge`]).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::auth_error::{AccessTokenError, AuthError};
use super::credentials::{AuthScheme, PresentedToken, RequestHead};
use super::jwt_verifier::JwtVerifier;
use super::principal::Principal;
use super::protected_resource::{ProtectedResource, www_authenticate};
use super::token_file::TokenFile;

/// Determines who sent a request.
#[derive(Debug)]
pub enum Authenticator {
    /// No authentication: every request is from this principal. For loopback only.
    Disabled(Principal),
    /// No tokens: only requests over a connection with a client certificate are accepted, which the server does.
    ClientCertificate,
    /// Tokens listed in a file.
    TokenFile(Arc<TokenFile>),
    /// Access tokens of an issuer.
    Jwt(Box<JwtVerifier>),
}

impl Authenticator {
    /// Accepts every request as `local`. For loopback only.
    pub fn disabled() -> Authenticator {
        Authenticator::Disabled(Principal::local())
    }

    /// The principal of a known token, without waiting. Bound tokens are never cached here, because every
    /// request needs a proof. Must be called inside the runtime: outdated keys are fetched in the background.
    pub fn cached(&self, headers: &HeaderMap) -> Option<Principal> {
        match self {
            Authenticator::Disabled(local) => Some(local.clone()),
            Authenticator::ClientCertificate => None,
            Authenticator::TokenFile(list) => list.find(PresentedToken::bearer_token(headers)?),
            Authenticator::Jwt(issuer) => {
                issuer.cached_bearer(PresentedToken::bearer_token(headers)?)
            }
        }
    }

    /// Authenticates a request. May wait for the issuer's keys, up to a timeout.
    pub async fn authenticate(&self, request: RequestHead<'_>) -> Result<Principal, AuthError> {
        match self {
            Authenticator::Disabled(local) => Ok(local.clone()),
            Authenticator::ClientCertificate => Err(AuthError::MissingCertificate),
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

    /// The `WWW-Authenticate` header for a refused request.
    pub fn challenge(&self, error: &AuthError) -> Option<HeaderValue> {
        www_authenticate(error, self.resource())
    }

    /// Our server as a protected resource, where an issuer is configured.
    pub fn resource(&self) -> Option<&ProtectedResource> {
        match self {
            Authenticator::Disabled(_)
            | Authenticator::ClientCertificate
            | Authenticator::TokenFile(_) => None,
            Authenticator::Jwt(issuer) => Some(issuer.resource()),
        }
    }

    /// Our protected resource metadata, to serve publicly at the path of [`ProtectedResource::metadata_url`].
    pub fn metadata_document(&self) -> Option<Value> {
        match self {
            Authenticator::Disabled(_)
            | Authenticator::ClientCertificate
            | Authenticator::TokenFile(_) => None,
            Authenticator::Jwt(issuer) => Some(issuer.metadata_document()),
        }
    }

    /// Waits for running fetches.
    pub async fn close(&self) {
        match self {
            Authenticator::Disabled(_)
            | Authenticator::ClientCertificate
            | Authenticator::TokenFile(_) => {}
            Authenticator::Jwt(issuer) => issuer.close().await,
        }
    }
}
