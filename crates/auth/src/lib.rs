//! Signing in to servers at URLs, staying signed in, and never showing a secret to anybody whom it is not for.
//!
//! A server's refusal is a [`challenge::Demand`]. A [`flow::Plan`] says how to answer it, [`flow::Flow`] is the
//! login as a pure machine, and [`runner::sign_in`] runs it over a [`fetch::Fetch`]. What comes out is a
//! [`vault::Record`], kept in a [`vault::Vault`]; [`refresh::Refresher`] renews it, once on the whole machine;
//! and [`keeper::Keeper`] shows it to the server with every request.
//!
//! The other half is [`verify`]: where we are the server, it says who a request comes from.

pub mod assertion;
pub mod authorize_url;
pub mod callback;
pub mod challenge;
pub mod confidential;
pub mod discovery;
pub mod dpop;
pub mod escort;
pub mod fetch;
pub mod flow;
pub mod grant;
pub mod keeper;
pub mod listener;
pub mod origin_guard;
pub mod pkce;
pub mod refresh;
pub mod registration;
pub mod revocation;
pub mod runner;
pub mod scopes;
pub mod token;
pub mod token_request;
pub mod vault;
pub mod verify;
