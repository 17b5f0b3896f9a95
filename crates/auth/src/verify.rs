//! Who a request to us comes from: the half of signing in that a server does. [`Doorkeeper`] is the port; behind it
//! nobody is asked, a list of tokens is looked at, or an issuer's tokens are checked. What a caller may do is not
//! decided here.

mod bearer_list;
mod doorkeeper;
mod dpop_check;
mod jws_check;
mod jwt_check;
mod key_ring;
mod principal;
mod protected_resource;
#[cfg(test)]
mod tests;

use aws_lc_rs::digest::{SHA256, digest};

pub use bearer_list::{Reload, TokenFile, TokenFileError, TokenFileErrorKind, TokenLineError};
pub use doorkeeper::{AuthError, Authenticator, RequestHead};
pub use dpop_check::DpopProofError;
pub use jwt_check::{AccessTokenError, JwtPolicy, JwtPolicyError, JwtVerifier};
pub use key_ring::IssuerError;
pub use principal::Principal;
pub use protected_resource::ProtectedResource;

/// What a token is known by, once it was shown. Nobody can choose a token for its digest, so that looking one up by it
/// tells nobody how near a guess was.
type TokenDigest = [u8; 32];

fn sha256(bytes: &[u8]) -> TokenDigest {
    let mut all = [0; 32];
    all.copy_from_slice(digest(&SHA256, bytes).as_ref());
    all
}
