//! Who a request to us comes from: the half of signing in that a server does. [`Doorkeeper`] is the port; behind it
//! nobody is asked, a list of tokens is looked at, or an issuer's tokens are checked. What a caller may do is not
//! decided here.

mod authenticator;
mod dpop_verifier;
mod jwks;
mod jws;
mod jwt_verifier;
mod principal;
mod protected_resource;
#[cfg(test)]
mod tests;
mod token_file;

use aws_lc_rs::digest::{SHA256, digest};

pub use authenticator::{AuthError, Authenticator, RequestHead};
pub use dpop_verifier::DpopProofError;
pub use jwks::IssuerError;
pub use jwt_verifier::{AccessTokenError, JwtPolicy, JwtPolicyError, JwtVerifier};
pub use principal::Principal;
pub use protected_resource::ProtectedResource;
pub use token_file::{Reload, TokenFile, TokenFileError, TokenFileErrorKind, TokenLineError};

/// What a token is known by, once it was shown. Nobody can choose a token for its digest, so that looking one up by it
/// tells nobody how near a guess was.
type TokenDigest = [u8; 32];

fn sha256(bytes: &[u8]) -> TokenDigest {
    let mut all = [0; 32];
    all.copy_from_slice(digest(&SHA256, bytes).as_ref());
    all
}
