//! Tokens good and bad against an issuer in memory: its keys change, it goes down, it lies.

mod bound_tokens;
mod issuer;
mod outages;
mod showing;
mod tokens;
