//! OAuth for MCP: logging in to servers, keeping the tokens fresh, and authenticating requests to our own
//! server.
//!
//! A server's `401` is parsed into a [`challenge::AuthChallenge`]. A [`flow::LoginPlan`] says how to log in,
//! [`flow::Flow`] is the login as a pure state machine, and [`flow::runner::sign_in`] runs it over a
//! [`fetch::Fetch`]. The result is stored as a [`token_store::LoginRecord`] in a [`token_store::TokenStore`].
//! [`token_provider::refresher::Refresher`] refreshes it, at most once at a time on the machine, and
//! [`token_provider::TokenProvider`] adds the token to every request.
//!
//! [`resource_server`] is the server side: it authenticates requests that clients send to us. Secrets are held
//! in [`secret::Secret`], which never prints.
//!
//! ```
//! use switchboard_auth::challenge::{AuthChallenge, ChallengeErrorCode};
//!
//! let header = r#"Bearer error="insufficient_scope", scope="files:write", resource_metadata="https://host/m""#;
//! let challenge = AuthChallenge::from_headers([header]);
//! assert_eq!(challenge.error, Some(ChallengeErrorCode::InsufficientScope));
//! assert!(challenge.scopes.is_some_and(|it| it.iter().eq(["files:write"])));
//! ```

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
