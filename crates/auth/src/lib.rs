//! Signing in to servers at URLs.

pub mod assertion;
pub mod authorize_url;
pub mod callback;
pub mod challenge;
pub mod confidential;
pub mod discovery;
pub mod dpop;
pub mod fetch;
pub mod flow;
pub mod grant;
pub mod origin_guard;
pub mod pkce;
pub mod registration;
pub mod scopes;
pub mod token;
pub mod token_request;
pub mod vault;
