//! The port at which requests show who they come from. Whom we have seen is let in without waiting ([`Doorkeeper::known`]);
//! everybody else is looked at ([`Doorkeeper::verify`]), and told what is missing ([`Doorkeeper::challenge`]).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::auth_error::{AccessTokenError, AuthError};
use super::credentials::{AuthScheme, PresentedToken, RequestHead};
use super::jwt_verifier::JwtVerifier;
use super::principal::Principal;
use super::protected_resource::{ProtectedResource, www_authenticate};
use super::token_file::TokenFile;

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
