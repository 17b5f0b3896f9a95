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

pub use bearer_list::{BearerList, LineFault, ListError, ListErrorKind, Refreshed};
pub use doorkeeper::{Asked, Doorkeeper, Refusal};
pub use dpop_check::ProofFault;
pub use jwt_check::{IssuerCheck, TokenFault, TokenTerms, TokenTermsError};
pub use key_ring::IssuerFault;
pub use principal::Principal;
pub use protected_resource::ProtectedResource;

/// What a token is known by, once it was shown. Nobody can choose a token for its digest, so that looking one up by it
/// tells nobody how near a guess was.
type Digest = [u8; 32];

fn digest_of(bytes: &[u8]) -> Digest {
    let mut all = [0; 32];
    all.copy_from_slice(digest(&SHA256, bytes).as_ref());
    all
}
