//! TODO facade

pub mod dpop;
pub mod pkce;
pub mod signing_key;
