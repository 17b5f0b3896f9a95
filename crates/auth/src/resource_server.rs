//! Authentication of requests to our own server: who sent a request. [`Authenticator`] accepts every request,
//! checks a file of tokens, or verifies an issuer's access tokens. What a client may do is decided elsewhere.

mod auth_error;
mod authenticator;
mod client_certificate;
mod credential;
mod credentials;
mod denylist;
mod dpop_verifier;
mod jwks;
mod jws;
mod jwt_verifier;
mod principal;
mod protected_resource;
#[cfg(test)]
mod tests;
mod token_file;
mod verified_token_cache;

pub use auth_error::{AccessTokenError, AuthError};
pub use authenticator::Authenticator;
pub use client_certificate::{CertificateNameError, ClientCertificate, certificate_validity};
pub use credential::{Credential, ValidityChanges};
pub use credentials::RequestHead;
pub use denylist::Denylist;
pub use dpop_verifier::DpopProofError;
pub use jwks::IssuerError;
pub use jwt_verifier::{JwtPolicy, JwtPolicyError, JwtVerifier};
pub use principal::Principal;
pub use protected_resource::ProtectedResource;
pub use token_file::{Reload, TokenFile, TokenFileError, TokenFileErrorKind, TokenLineError};
