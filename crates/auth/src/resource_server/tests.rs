//! Valid and invalid tokens against an in-memory issuer whose keys change, and which fails or lies.

mod access_tokens;
mod credentials;
mod dpop_tokens;
mod issuer;
mod issuer_outages;
