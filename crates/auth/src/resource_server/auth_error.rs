//! Why a request is not authenticated, and the HTTP status of the response.

use http::StatusCode;
use thiserror::Error;

use super::dpop_verifier::DpopProofError;
use super::jwks::IssuerError;
use crate::scopes::Scopes;

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

/// What is wrong with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AccessTokenError {
    /// It is on no list of ours.
    #[error("the token is not known")]
    Unknown,
    /// It is none that we could check.
    #[error("the token is not a signed one that can be checked here")]
    Malformed,
    /// It is for another purpose.
    #[error("the token is not an access token")]
    WrongType,
    /// The issuer did not sign it.
    #[error("the token is not signed with a key of the issuer")]
    Signature,
    /// It is another's.
    #[error("the token is of another issuer")]
    WrongIssuer,
    /// It is for another.
    #[error("the token is for another resource")]
    WrongAudience,
    /// It is over.
    #[error("the token has expired")]
    Expired,
    /// It has not begun.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// It does not say who it is.
    #[error("the token names no subject that can be used")]
    InvalidSubject,
    /// It is bound in a way that we cannot check.
    #[error("the token is bound in a way that cannot be checked here")]
    UnsupportedConfirmation,
    /// It is shown in the wrong way.
    #[error("a token that is bound to a key is shown with DPoP, and no other is")]
    WrongScheme,
}
