//! Cryptography of the client side: digests, PKCE, signing keys with client assertions, and DPoP proofs.
//! Verifying the tokens and proofs of others is left to `resource_server`.

pub(crate) mod digest;
pub mod dpop;
pub mod pkce;
pub mod signing_key;
