//! Logins at remote servers: OAuth, the identity provider, the connector account and the commands that print headers.
//! Flows and token storage are left to the `auth` crate; no token passes through here as text.

pub(crate) mod connector_account;
pub mod connectors;
pub(crate) mod context;
pub(crate) mod dynamic_headers;
pub(crate) mod headers_helper;
pub(crate) mod identity_provider;
pub(crate) mod method;
pub mod options;
pub(crate) mod pending;
mod profile;
pub mod server_login;
pub mod summary;
