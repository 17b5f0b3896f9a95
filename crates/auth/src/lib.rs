//! Signing in to servers at URLs, staying signed in, and never showing a secret to anybody whom it is not for.
//!
//! A server's refusal is a [`challenge::Demand`]. A [`flow::Plan`] says how to answer it, [`flow::Flow`] is the
//! login as a pure machine, and [`runner::sign_in`] runs it over a [`fetch::Fetch`]. What comes out is a
//! [`vault::Record`], kept in a [`vault::Vault`]; [`refresh::Refresher`] renews it, once on the whole machine;
//! and [`keeper::Keeper`] shows it to the server with every request.
//!
//! The other half is [`verify`]: where we are the server, it says who a request comes from.

pub mod browser;
pub mod challenge;
pub mod crypto;
pub mod discovery;
pub mod fetch;
pub mod flow;
pub mod registration;
pub mod resource_server;
pub mod scopes;
pub mod secret;
pub mod time_and_random;
pub mod token;
pub mod token_provider;
pub mod token_store;
mod untrusted_text;
