//! Tokens good and bad against an issuer in memory: its keys change, it goes down, it lies.

mod issuer;
mod outages;
mod proofs;
mod shown;
mod tokens;
