//! Tokens good and bad against an issuer in memory: its keys change, it goes down, it lies.

mod access_tokens;
mod credentials;
mod dpop_tokens;
mod issuer;
mod issuer_outages;
