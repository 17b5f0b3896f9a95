//! Why a request is not authenticated, and the HTTP status of the response.

use http::StatusCode;
use thiserror::Error;

use super::dpop_verifier::DpopProofError;
use super::jwks::IssuerError;
use crate::scopes::Scopes;

/// Why a request is not authenticated. Contains nothing of the request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthError {
    /// The request has no token.
    #[error("a token is required")]
    MissingToken,
    /// The connection has no client certificate.
    #[error("a client certificate is required")]
    MissingCertificate,
    /// The `Authorization` header is malformed.
    #[error("the Authorization header is malformed or repeated")]
    Malformed,
    /// The token is invalid.
    #[error("{0}")]
    Token(AccessTokenError),
    /// The token is valid, but the DPoP proof is not.
    #[error("{0}")]
    Proof(DpopProofError),
    /// The token is valid, but lacks a scope.
    #[error("the token lacks a required scope")]
    InsufficientScope(Scopes),
    /// The issuer's keys are not available.
    #[error("the issuer's keys are not available")]
    IssuerUnavailable(#[source] IssuerError),
    /// It is not known whether the token was revoked.
    #[error("it is not known whether the token was revoked; try again later")]
    RevocationsUnknown,
}

impl AuthError {
    /// The HTTP status of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            AuthError::MissingToken | AuthError::Token(_) | AuthError::Proof(_) => {
                StatusCode::UNAUTHORIZED
            }
            AuthError::Malformed => StatusCode::BAD_REQUEST,
            AuthError::InsufficientScope(_) | AuthError::MissingCertificate => {
                StatusCode::FORBIDDEN
            }
            AuthError::IssuerUnavailable(_) | AuthError::RevocationsUnknown => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }
}

/// Why a token is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AccessTokenError {
    /// The token is not in the token file.
    #[error("the token is unknown")]
    Unknown,
    /// The token is not a JWT that can be verified.
    #[error("the token is not a JWT that can be verified")]
    Malformed,
    /// The token is of another type.
    #[error("the token is not an access token")]
    WrongType,
    /// The signature is not of a key of the issuer.
    #[error("the token is not signed with a key of the issuer")]
    Signature,
    /// The token is from another issuer.
    #[error("the token is from another issuer")]
    WrongIssuer,
    /// The token is for another resource.
    #[error("the token is for another resource")]
    WrongAudience,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// The token has no usable subject.
    #[error("the token has no usable subject")]
    InvalidSubject,
    /// The token is bound by a method that cannot be verified.
    #[error("the token is bound by an unsupported method")]
    UnsupportedConfirmation,
    /// The token, or its principal, was revoked.
    #[error("the token was revoked")]
    Revoked,
    /// The scheme does not match the token: DPoP for bound tokens, Bearer for others.
    #[error("DPoP is for tokens that are bound to a key, and required for them")]
    WrongScheme,
}
